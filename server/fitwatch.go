package server

import (
	"fmt"
	"maps"
	"slices"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
)

const (
	// fitCalm is the fill below which what thrashed counts as calm again; the distance to
	// the threshold keeps it from flapping.
	fitCalm = 0.95
	// fitFirm and replicaFirm are how long all caches of a model, or that of one replica,
	// must be beyond a bound before that counts: one conversation may be a quarter of a
	// replica's cache. Admission lets those inside outgrow it, see strain.
	fitFirm     = 5 * time.Second
	replicaFirm = 30 * time.Second
	// fitQuiet is the shortest time between two events about single replicas of a model;
	// what happens meanwhile is told together.
	fitQuiet = 5 * time.Minute
)

// latch makes a state of a figure that swings around a bound.
type latch struct {
	on    bool
	since time.Time // since when the figure speaks against the state; zero while it does not
}

// take takes over the fill of a cache, negative when it is not known, which changes
// nothing. It tells whether that changed the state.
func (l *latch) take(now time.Time, fill float64, firm time.Duration) bool {
	over, calm := fill > fitThrash, fill >= 0 && fill < fitCalm
	if l.on && !calm || !l.on && !over {
		l.since = time.Time{}
		return false
	}
	if l.since.IsZero() {
		l.since = now
	}
	if now.Sub(l.since) < firm {
		return false
	}
	l.on, l.since = !l.on, time.Time{}
	return true
}

// strain returns the fill of a cache, or of as many as replicas says together, as far as it
// tells that conversations evict each other. Admission lets those inside be beyond a cache
// by what a turn grows, each in the worst case by a tail that it reads again; so while it
// holds the others, that is no thrashing. It is negative when the fill is not known.
func strain(v route.View, tokens, capacity int64, replicas int) float64 {
	if v.Holding && capacity > 0 {
		capacity += int64(replicas) * int64(v.Learned.Growth.Value)
	}
	_, fill := fitOf(tokens, capacity)
	return fill
}

// modelFit is what was told of the caches of a model.
type modelFit struct {
	whole    latch
	replicas []replicaFit
	toldAt   time.Time // when single replicas were last told of
}

// replicaFit is the same of one replica.
type replicaFit struct {
	latch
	over bool // it thrashes, at this moment too
	told bool // that it thrashes
}

// fitChange is what a look at a model's caches found worth telling. Of single replicas it
// holds the indices.
type fitChange struct {
	whole   bool  // the model has begun to thrash, or stopped: see modelFit.whole
	began   []int // replicas to tell of that thrash while the model as a whole does not
	ended   []int // those that were told of and fit again
	crossed []int // replicas that have begun to thrash, told of or not
	over    []int // replicas that thrash, at this moment too
}

// look takes over a view of the model. While the model as a whole thrashes its replicas
// are not told of one by one.
func (m *modelFit) look(now time.Time, v route.View, full fullness) fitChange {
	var change fitChange
	for len(m.replicas) < len(v.Replicas) {
		m.replicas = append(m.replicas, replicaFit{})
	}
	m.replicas = m.replicas[:len(v.Replicas)]
	for i, r := range v.Replicas {
		f := &m.replicas[i]
		fill := strain(v, r.ActiveTokens, r.Capacity, 1)
		if f.take(now, fill, replicaFirm) && f.on {
			change.crossed = append(change.crossed, i)
		}
		f.over = f.on && fill > fitThrash
		if f.over {
			change.over = append(change.over, i)
		}
	}
	change.whole = m.whole.take(now, strain(v, full.tokens, full.capacity, full.replicas), fitFirm)
	if m.whole.on || change.whole {
		for i := range m.replicas {
			m.replicas[i].told = m.replicas[i].over // the event of the model speaks for all
		}
		m.toldAt = now
		return change
	}
	if now.Sub(m.toldAt) < fitQuiet {
		return change
	}
	for i := range m.replicas {
		switch f := &m.replicas[i]; {
		case f.over && !f.told:
			change.began = append(change.began, i)
			f.told = true
		case !f.on && f.told:
			change.ended = append(change.ended, i)
			f.told = false
		}
	}
	if len(change.began)+len(change.ended) > 0 {
		m.toldAt = now
	}
	return change
}

// watchFit tells when the working set of a model, or of a single replica, no longer fits
// its caches, and when it fits again.
func (r *reconciler) watchFit(entries []*entry) {
	now := r.now()
	for _, e := range entries {
		view, ok := r.plane.View(e.name())
		if !ok {
			r.metrics.forget(e.name())
			delete(r.fits, e.name())
			continue
		}
		fit := r.fits[e.name()]
		if fit == nil {
			fit = &modelFit{}
			r.fits[e.name()] = fit
		}
		full := fullnessOf(view)
		change := fit.look(now, view, full)
		r.metrics.set(e.name(), view, full, now)
		r.metrics.crossed(e.name(), change.whole && fit.whole.on, change.crossed)
		r.tellFit(e.model, fit, view, full, change)
		r.watchDoor(e.model, view, full, now)
	}
	gone := func(model string) bool {
		return !slices.ContainsFunc(entries, func(e *entry) bool { return e.name() == model })
	}
	maps.DeleteFunc(r.fits, func(model string, _ *modelFit) bool { return gone(model) })
	r.metrics.dropIf(gone)
	r.doors.dropIf(gone)
}

// tellFit adds the events of a change.
func (r *reconciler) tellFit(m *lmwardenv1.Model, fit *modelFit, view route.View, full fullness, change fitChange) {
	tell := func(severity stats.Severity, kind string, replicas []int, message string) {
		replica := -1
		if len(replicas) == 1 {
			replica = replicas[0]
		}
		r.events.Add(stats.Event{Severity: severity, Kind: kind, Model: m.GetName(), Replica: replica, Message: message})
	}
	switch {
	case change.whole && fit.whole.on:
		tell(stats.Warning, "cache_thrash", nil, thrashMessage(m, view, full))
	case change.whole:
		message := fmt.Sprintf("The %d conversations of %s that are at work fit its caches again: %d of %d tokens.", view.Active, m.GetName(), full.tokens, full.capacity)
		if len(change.over) > 0 {
			message += " " + replicaThrashMessage(m, view, full, change.over)
		}
		tell(stats.Note, "cache_fits", nil, message)
	}
	if len(change.began) > 0 {
		tell(stats.Warning, "cache_thrash", change.began, replicaThrashMessage(m, view, full, change.began))
	}
	if len(change.ended) == 0 {
		return
	}
	// An end that names no replica ends all that was told of the model.
	if !slices.ContainsFunc(fit.replicas, func(f replicaFit) bool { return f.told }) {
		tell(stats.Note, "cache_fits", nil, replicaFitsMessage(m.GetName(), view, change.ended))
		return
	}
	for _, i := range change.ended {
		tell(stats.Note, "cache_fits", []int{i}, replicaFitsMessage(m.GetName(), view, []int{i}))
	}
}
