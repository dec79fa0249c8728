package run

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/sim/engine"
)

// retryAfter is how long a client waits before it sends a turn again that broke off or
// was refused.
const retryAfter = time.Second

// Death is the end of a replica in the middle of a run. Turns without a first token go
// to other replicas, with their place in time; turns that had begun break off, and
// their clients send them again.
type Death struct {
	Replica int
	At      time.Duration // since the beginning, warm-up included
	Back    time.Duration // when it lives again, with an empty cache; 0 is never
}

// planned is something that a run is told to do at a time.
type planned struct {
	at  time.Duration
	act func(now time.Duration)
}

// validate returns an error when the death cannot be on a box of so many replicas.
func (d Death) validate(replicas int) error {
	if d.Replica < 0 || d.Replica >= replicas {
		return fmt.Errorf("replica %d is to die, but there are only %d, counted from 0", d.Replica, replicas)
	}
	if d.Back != 0 && d.Back <= d.At {
		return fmt.Errorf("replica %d is to be back at %s, which is not after its death at %s", d.Replica, d.Back, d.At)
	}
	return nil
}

// clash returns an error when a replica is to die while it is dead.
func (d Death) clash(other Death) error {
	if d.Replica != other.Replica {
		return nil
	}
	first, second := other, d
	if d.At < other.At {
		first, second = d, other
	}
	if first.Back == 0 || second.At <= first.Back {
		return fmt.Errorf("replica %d is to die at %s, but it is dead then since %s", d.Replica, second.At, first.At)
	}
	return nil
}

// planDeaths puts deaths and returns into the order of their times.
func (w *world) planDeaths(deaths []Death) {
	for _, d := range deaths {
		w.plan = append(w.plan, planned{d.At, func(now time.Duration) { w.die(d.Replica, now) }})
		if d.Back != 0 {
			w.plan = append(w.plan, planned{d.Back, func(now time.Duration) { w.revive(d.Replica, now) }})
		}
	}
	slices.SortStableFunc(w.plan, func(a, b planned) int { return cmp.Compare(a.at, b.at) })
}

// followPlan does what is planned next.
func (w *world) followPlan(now time.Duration) {
	p := w.plan[0]
	w.plan = w.plan[1:]
	p.act(now)
	w.release(now)
}

// die takes a replica away with all that it held.
func (w *world) die(replica int, now time.Duration) {
	r := &w.replicas[replica]
	r.Ready = false
	r.Incarnation++
	w.core.SetReplicas(clock(now), w.replicas)
	flights := w.flights[replica]
	w.retired = append(w.retired, w.engines[replica].Stats().Counters)
	// An engine that has computed nothing stands in its place until it is back.
	e, err := engine.New(w.engines[replica].Config())
	if err != nil {
		w.err = err
		return
	}
	w.engines[replica], w.flights[replica] = e, make(map[engine.ID]*client)
	for _, id := range slices.Sorted(maps.Keys(flights)) {
		c := flights[id]
		w.ended(now, c)
		if !c.begun && w.moveOn(now, c) {
			continue
		}
		w.core.Done(clock(now), c.ticket, route.Outcome{Served: c.begun, Prompt: -1, Cached: -1, Completion: -1})
		w.meter.broken++
		heap.Push(&w.coming, arrival{now + retryAfter, c})
	}
}

// moveOn sends a turn without a first token elsewhere, as the proxy does: back to the
// door where places are kept, else at once. False means that there is no other replica.
func (w *world) moveOn(now time.Duration, c *client) bool {
	if w.core.Requeue(clock(now), c.ticket) {
		w.held[c.ticket] = c
		w.tick = min(w.tick, now+tickHeld)
		return true
	}
	var d route.Decision
	if !w.core.Reroute(clock(now), c.ticket, &d) {
		return false
	}
	w.forward(now, c, d)
	return true
}

// revive gives a replica a new life.
func (w *world) revive(replica int, now time.Duration) {
	w.replicas[replica].Ready = true
	w.core.SetReplicas(clock(now), w.replicas)
}
