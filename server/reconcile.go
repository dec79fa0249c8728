package server

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/server/stats"
	"github.com/lmwarden/lmwarden/supervisor"
)

// heartbeat is the longest time between two passes: figures grow old, cards come
// back, and a placement that failed is tried again.
const heartbeat = time.Second

// reconciler makes what is the case follow what is desired. Its single goroutine,
// [reconciler.run], is the only caller of the supervisor's and the proxy's Apply.
type reconciler struct {
	// Immutable.
	models       *catalog
	limits       *keyLimits
	plane        dataPlane
	engines      engines
	events       *stats.Events
	drained      *drained
	comparisons  *comparisons
	keys         *keyring // of the inference endpoint
	doors        *doors
	defaultModel string
	engineEnv    map[string]string
	now          func() time.Time
	signal       chan struct{}      // capacity 1: wakes are coalesced
	barrier      chan chan struct{} // see sync
	done         chan struct{}      // closed when run has ended

	// Owned by run; placed is read by a check through mu.
	rollout    *rollout
	snap       *proxy.Snapshot
	fits       map[string]*modelFit
	toldBreaks map[toldBreak]bool
	metrics    *fitMetrics

	mu       sync.Mutex // guards what follows
	places   *places
	problems map[string]string // why a model has no place
}

// newReconciler returns a loop over what c shares. Models, limits and engines are set
// before it runs: they need its wake.
func newReconciler(c *control, engineEnv map[string]string, metrics prometheus.Registerer) *reconciler {
	return &reconciler{
		plane:        c.plane,
		events:       c.events,
		drained:      c.drained,
		comparisons:  c.comparisons,
		keys:         c.access.keys,
		defaultModel: c.cfg.GetDefaultModel(),
		engineEnv:    engineEnv,
		now:          c.now,
		signal:       make(chan struct{}, 1),
		barrier:      make(chan chan struct{}),
		done:         make(chan struct{}),
		rollout:      newRollout(),
		fits:         make(map[string]*modelFit),
		doors:        newDoors(c.stats),
		metrics:      newFitMetrics(metrics),
		places:       newPlaces(c.cards),
		problems:     make(map[string]string),
	}
}

// wake asks for a pass. It never blocks.
func (r *reconciler) wake() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// run makes passes until ctx ends.
func (r *reconciler) run(ctx context.Context) {
	defer close(r.done)
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		r.pass(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.signal:
		case reached := <-r.barrier:
			r.pass(ctx)
			close(reached)
		}
	}
}

// sync returns after a pass that began later than the call.
func (r *reconciler) sync(ctx context.Context) error {
	reached := make(chan struct{})
	select {
	case r.barrier <- reached:
	case <-r.done:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-reached:
		return nil
	case <-r.done:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pass brings everything one step closer to what is desired.
func (r *reconciler) pass(ctx context.Context) {
	r.refreshKeys()
	entries := r.models.list()
	statuses := r.engines.Status()
	wanted := r.wanted(ctx, entries, statuses)
	if ctx.Err() != nil {
		return
	}
	r.engines.Apply(r.rollout.next(wanted, statuses))
	// Apply may have added replicas; the proxy must know them before they are ready.
	snap := r.snapshot(entries, r.engines.Status())
	if !reflect.DeepEqual(snap, r.snap) {
		r.plane.Apply(snap)
		r.snap = snap
	}
	r.watchFit(entries)
	r.watchPrefixes(entries)
	r.comparisons.tick(entries, r.now())
}

// refreshKeys takes over a change of the keys file.
func (r *reconciler) refreshKeys() {
	switch changed, err := r.keys.refresh(); {
	case err != nil:
		r.events.Add(stats.Event{Severity: stats.Error, Kind: "keys_not_read", Replica: -1, Message: err.Error()})
	case changed:
		r.events.Add(stats.Event{Severity: stats.Note, Kind: "keys_changed", Replica: -1, Message: fmt.Sprintf("The keys file has changed: %d keys are accepted now.", len(r.keys.current()))})
	}
}

// wanted returns the specs of all replicas that shall run.
func (r *reconciler) wanted(ctx context.Context, entries []*entry, statuses []supervisor.Status) []supervisor.Spec {
	// A driver that hangs must not hold up whoever asks for places or problems.
	var seen deck
	if r.needsCards(entries) {
		seen = r.places.cards.deck(ctx)
	}
	r.mu.Lock()
	before := r.problems
	r.problems = r.places.assign(seen, entries, statuses)
	after := r.problems
	var specs []supervisor.Spec
	for _, e := range entries {
		if at, ok := r.places.placed[e.name()]; ok {
			specs = append(specs, specsOf(e.model, at.groups, r.engineEnv)...)
		}
	}
	r.mu.Unlock()
	for model, why := range after {
		if before[model] != why {
			r.events.Add(stats.Event{Severity: stats.Error, Kind: "model_not_placed", Model: model, Replica: -1, Message: why})
		}
	}
	return specs
}

// needsCards says whether a model waits for cards.
func (r *reconciler) needsCards(entries []*entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.places.needCards(entries)
}

// problem says why a model has no place, or is empty.
func (r *reconciler) problem(model string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problems[model]
}

// check says whether a model would find cards now, beside all that run.
func (r *reconciler) check(ctx context.Context, m *lmwardenv1.Model) error {
	var seen deck
	if !r.places.request(m).NoGPU {
		seen = r.places.cards.deck(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.places.try(seen, r.places.request(m), r.engines.Status()); err != nil {
		return noCards(err.Error())
	}
	return nil
}

// checkChange is check for a model that asks for other cards than before. One that
// asks for the same keeps what it has, even a card that cannot be used now.
func (r *reconciler) checkChange(ctx context.Context, before, after *lmwardenv1.Model) error {
	r.mu.Lock()
	same := reflect.DeepEqual(r.places.request(before), r.places.request(after))
	r.mu.Unlock()
	if same {
		return nil
	}
	return r.check(ctx, after)
}

// holders says which replica each card is assigned to.
func (r *reconciler) holders() map[string]supervisor.ReplicaID {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]supervisor.ReplicaID)
	for uuid, h := range r.places.held(r.engines.Status()) {
		out[uuid] = supervisor.ReplicaID{Model: h.Model, Index: h.Replica}
	}
	return out
}

// stateEvents turns changes of replicas into events. Its method changed is the
// supervisor's hook: it is called from many goroutines and must not block.
type stateEvents struct {
	events *stats.Events
	wake   func()

	mu   sync.Mutex // guards last
	last map[supervisor.ReplicaID]standing
}

// standing is what of a status makes an event when it changes.
type standing struct {
	state  supervisor.State
	silent bool
}

func (s *stateEvents) changed(st supervisor.Status) {
	s.mu.Lock()
	before := s.last[st.ID]
	s.last[st.ID] = standing{st.State, st.Silent}
	s.mu.Unlock()
	if before == (standing{st.State, st.Silent}) {
		return
	}
	s.wake()
	name := fmt.Sprintf("Replica %d of %s", st.ID.Index, st.ID.Model)
	e := stats.Event{Kind: "replica_" + string(st.State), Model: st.ID.Model, Replica: st.ID.Index}
	switch {
	case st.State == supervisor.Ready && before.state == supervisor.Suspect:
		e.Severity, e.Message = stats.Note, name+" is well again."
	case st.State == supervisor.Ready:
		e.Severity, e.Message = stats.Note, name+" is ready."
	case st.State == supervisor.Suspect:
		e.Severity, e.Message = stats.Warning, or(st.Message, name+" does not answer its health probe.")
	case st.State == supervisor.Backoff:
		e.Severity, e.Message = stats.Warning, name+" failed and will be started again. "+st.Message
	case st.State == supervisor.Failed:
		e.Severity, e.Message = stats.Error, name+" failed. "+st.Message
	case st.State == supervisor.Stopped:
		e.Severity, e.Message = stats.Note, name+" is stopped."
	default:
		return
	}
	s.events.Add(e)
}
