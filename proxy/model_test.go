package proxy

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// ledger drives one model through random events and keeps its own books.
type ledger struct {
	proxy *Proxy
	model *model
	now   time.Time
	spec  Model
	open  []*reservation
}

// newLedger returns a model with n replicas and admission by working set, so that
// requests are also held.
func newLedger(t *rapid.T, n int) *ledger {
	l := &ledger{proxy: New(Options{Seed: 1}), now: time.Unix(1_700_000_000, 0)}
	l.spec = Model{Name: "m", Routing: route.DefaultSettings()}
	if rapid.Bool().Draw(t, "admission") {
		l.spec.Routing.Admission = route.AdmissionWorkingSet
	}
	l.resize(n)
	l.model = l.proxy.newModel(&l.spec)
	l.apply()
	return l
}

// resize changes the number of replicas.
func (l *ledger) resize(n int) {
	l.spec.Replicas = l.spec.Replicas[:min(n, len(l.spec.Replicas))]
	for i := len(l.spec.Replicas); i < n; i++ {
		l.spec.Replicas = append(l.spec.Replicas, Replica{
			ID: ReplicaID(fmt.Sprintf("m/%d", i)), Rank: -1,
			Route: route.Replica{Incarnation: 1, Ready: true, MaxNumSeqs: 8, Capacity: 20_000},
		})
	}
}

// settings changes what lets requests go.
func (l *ledger) settings(t *rapid.T) {
	l.spec.Routing.Admission = rapid.SampledFrom([]route.Admission{route.AdmissionNone, route.AdmissionWorkingSet}).Draw(t, "admission")
	l.spec.Routing.Affinity = rapid.Bool().Draw(t, "affinity")
	l.spec.Routing.MaxHold = time.Duration(rapid.IntRange(1, 600).Draw(t, "hold")) * time.Second
}

// apply hands the model a copy of the specification.
func (l *ledger) apply() {
	s := l.spec
	s.Replicas = append([]Replica(nil), l.spec.Replicas...)
	l.model.apply(l.now, &s, l.proxy.newReplica)
}

// arrive lets a request of one of a few conversations come.
func (l *ledger) arrive(t *rapid.T) {
	id := rapid.IntRange(0, 9).Draw(t, "conversation")
	q := route.Request{Key: route.Key{byte(id + 1)}, Rank: rapid.IntRange(-3, len(l.spec.Replicas)).Draw(t, "rank"), PromptBytes: 24_000}
	v := &reservation{cut: func(error) {}}
	switch l.model.reserve(l.now, &q, v) {
	case route.Forward, route.Held:
		l.open = append(l.open, v)
	}
}

// pick returns an open request that has a replica, or nil.
func (l *ledger) pick(t *rapid.T) *reservation {
	if len(l.open) == 0 {
		return nil
	}
	v := l.open[rapid.IntRange(0, len(l.open)-1).Draw(t, "request")]
	if v.replica == nil {
		return nil
	}
	return v
}

// end ends an open request, wherever it is.
func (l *ledger) end(t *rapid.T) {
	if len(l.open) == 0 {
		return
	}
	i := rapid.IntRange(0, len(l.open)-1).Draw(t, "request")
	v := l.open[i]
	l.open = append(l.open[:i], l.open[i+1:]...)
	l.model.release(l.now, v, route.Outcome{Served: rapid.Bool().Draw(t, "served"), Prompt: 6000, Cached: 0, Completion: 100})
}

// shake changes the state of a replica.
func (l *ledger) shake(t *rapid.T) {
	i := rapid.IntRange(0, len(l.spec.Replicas)-1).Draw(t, "replica")
	r := &l.spec.Replicas[i].Route
	switch rapid.IntRange(0, 6).Draw(t, "change") {
	case 0:
		r.Ready = !r.Ready
	case 1:
		r.Incarnation++
	case 2:
		l.model.setDrained(l.now, l.model.replicas[i], rapid.Bool().Draw(t, "drained"))
		return
	case 3:
		r.MetricsUnavailable = !r.MetricsUnavailable
	case 4, 5:
		l.resize(rapid.IntRange(1, 4).Draw(t, "replicas"))
		l.settings(t)
	case 6:
		l.settings(t)
		r.Incarnation++
	}
	l.apply()
}

// check compares the three books: ours, the replicas' and the router's.
func (l *ledger) check(t *rapid.T) {
	placed, waiting := 0, 0
	for _, v := range l.open {
		if v.replica != nil {
			placed++
		} else {
			waiting++
		}
	}
	inFlight := 0
	for _, r := range l.model.known {
		inFlight += r.inFlight()
	}
	view := l.model.core.View(l.now)
	if inFlight != placed || view.InFlight != placed {
		t.Fatalf("%d requests have a place; the replicas say %d, the router %d", placed, inFlight, view.InFlight)
	}
	if len(l.model.waiting) != waiting || view.Held != waiting {
		t.Fatalf("%d requests wait; the door says %d, the router %d", waiting, len(l.model.waiting), view.Held)
	}
	for i, r := range l.model.replicas {
		if view.Replicas[i].InFlight != r.inFlight() {
			t.Fatalf("%s has %d in flight, the router says %d", r.id, r.inFlight(), view.Replicas[i].InFlight)
		}
	}
}

// Whatever happens in whatever order, the books agree after each step, and nothing is
// left when all have ended.
func TestBooksAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger(t, rapid.IntRange(1, 4).Draw(t, "replicas"))
		defer l.proxy.Close()
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1, 2, 3:
				l.arrive(t)
			case 4:
				if v := l.pick(t); v != nil {
					l.model.firstByte(l.now, v)
				}
			case 5:
				if v := l.pick(t); v != nil {
					l.model.judge(l.now, v, rapid.SampledFrom([]int{0, strikeStatus, strikeBroken}).Draw(t, "strike"))
				}
			case 6:
				if v := l.pick(t); v != nil {
					l.model.reroute(l.now, v)
				}
			case 7:
				l.end(t)
			case 8:
				l.shake(t)
			case 9:
				l.now = l.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
				l.model.tick(l.now)
			}
			l.check(t)
		}
		for len(l.open) > 0 {
			l.end(t)
		}
		l.check(t)
	})
}

// A request that ended at the door is let in by nobody, and a second end is harmless.
func TestReleaseTwice(t *testing.T) {
	p := New(Options{})
	defer p.Close()
	p.Apply(&Snapshot{Models: []Model{{Name: "m", Routing: route.DefaultSettings(), Replicas: []Replica{
		{ID: "m/0", Rank: -1, Route: route.Replica{Incarnation: 1, Ready: true}},
	}}}})
	m := p.table.Load().named["m"]
	v, now := &reservation{}, time.Now()
	if got := m.reserve(now, &route.Request{Rank: -1}, v); got != route.Forward {
		t.Fatalf("verdict %d", got)
	}
	if on, _ := m.release(now, v, route.Outcome{}); on == nil || on.id != "m/0" {
		t.Error("the first release does not say where it was")
	}
	if on, _ := m.release(now, v, route.Outcome{}); on != nil {
		t.Error("the second release found a place")
	}
	if n := p.InFlight("m/0"); n != 0 {
		t.Errorf("%d in flight", n)
	}
}
