package server

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/supervisor"
	"github.com/lmwarden/lmwarden/supervisor/layout"
)

// placement is where the replicas of one model are.
type placement struct {
	request layout.Request
	groups  [][]string // cards of each replica
}

// places assigns cards to models. An assignment holds as long as the model runs and
// asks for the same: neither a card that fails nor another model takes a running
// replica away. It is owned by the reconcile loop.
type places struct {
	cards  *cards
	placed map[string]placement
}

func newPlaces(c *cards) *places { return &places{cards: c, placed: make(map[string]placement)} }

// request returns what a model asks for.
func (p *places) request(m *lmwardenv1.Model) layout.Request {
	spec := m.GetSpec()
	r := layout.Request{
		Model:          m.GetName(),
		Replicas:       int(spec.GetReplicas()),
		TensorParallel: int(spec.GetTensorParallelSize()),
		GPUs:           spec.GetGpus(),
		NoGPU:          p.cards.none != "",
	}
	if remote(spec) {
		r.Replicas, r.GPUs, r.NoGPU = len(spec.GetRemoteUrls()), nil, true
	}
	return r
}

// deck is what was read of the cards: those that there are, or why there are none.
type deck struct {
	all  []layout.Card
	none string
}

// needCards says whether [places.assign] will look at the cards.
func (p *places) needCards(entries []*entry) bool {
	return slices.ContainsFunc(entries, func(e *entry) bool {
		if !e.runs() {
			return false
		}
		want := p.request(e.model)
		have, placed := p.placed[e.name()]
		return !want.NoGPU && (!placed || !reflect.DeepEqual(have.request, want))
	})
}

// assign returns the placements of the models that run, and for each that has none a
// sentence that says why. Statuses tell which cards replicas still hold that are no
// longer wanted.
func (p *places) assign(b deck, entries []*entry, statuses []supervisor.Status) (problems map[string]string) {
	problems = make(map[string]string)
	wanted := make(map[string]layout.Request)
	for _, e := range entries {
		if e.runs() {
			wanted[e.name()] = p.request(e.model)
		}
	}
	for name, have := range p.placed {
		if want, ok := wanted[name]; !ok || !reflect.DeepEqual(have.request, want) {
			delete(p.placed, name)
		}
	}
	for _, e := range entries {
		want, runs := wanted[e.name()]
		if _, placed := p.placed[e.name()]; placed || !runs {
			continue
		}
		groups, err := p.try(b, want, statuses)
		if err != nil {
			problems[e.name()] = err.Error()
			continue
		}
		p.placed[e.name()] = placement{want, groups}
	}
	return problems
}

// try assigns cards for one model beside all that are placed.
func (p *places) try(b deck, r layout.Request, statuses []supervisor.Status) ([][]string, error) {
	if r.NoGPU {
		return layout.Assign(nil, nil, r)
	}
	if b.none != "" {
		return nil, fmt.Errorf("model %s needs cards and the box has none: %s. To run without cards set engine.device: cpu in the configuration; \"lmwarden demo\" shows a simulated box", r.Model, strings.TrimRight(b.none, "."))
	}
	return layout.Assign(b.all, p.held(statuses), r)
}

// held says who has which card: replicas that are placed, and those that have not
// stopped yet.
func (p *places) held(statuses []supervisor.Status) map[string]layout.Holder {
	held := make(map[string]layout.Holder)
	for _, st := range statuses {
		for _, uuid := range st.GPUs {
			held[uuid] = layout.Holder{Model: st.ID.Model, Replica: st.ID.Index}
		}
	}
	for name, at := range p.placed {
		for i, group := range at.groups {
			for _, uuid := range group {
				held[uuid] = layout.Holder{Model: name, Replica: i}
			}
		}
	}
	return held
}
