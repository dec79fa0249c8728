package server

import (
	"reflect"
	"slices"

	"github.com/lmwarden/lmwarden/supervisor"
)

// rollout turns the specs that are wanted into those that may be applied now, so that
// a change of a model restarts its replicas one by one. It is owned by the reconcile
// loop.
//
// A replica that serves is replaced only when every replica that was replaced before
// it is ready again: a change that does not start costs one replica. A replica that
// does not serve has nothing to lose and is replaced at once. A replica gets its cards
// only when no other replica holds them.
type rollout struct {
	applied map[supervisor.ReplicaID]supervisor.Spec
	// replaced holds the incarnation that a replaced replica had, until a later one is
	// ready: its status may still be that of the engine before.
	replaced map[supervisor.ReplicaID]uint64
}

func newRollout() *rollout {
	return &rollout{
		applied:  make(map[supervisor.ReplicaID]supervisor.Spec),
		replaced: make(map[supervisor.ReplicaID]uint64),
	}
}

// next returns the specs to apply now and remembers them as applied.
func (r *rollout) next(wanted []supervisor.Spec, statuses []supervisor.Status) []supervisor.Spec {
	byID := make(map[supervisor.ReplicaID]supervisor.Status, len(statuses))
	for _, st := range statuses {
		byID[st.ID] = st
	}
	r.settle(wanted, byID)
	next := make(map[supervisor.ReplicaID]supervisor.Spec, len(wanted))
	var out []supervisor.Spec
	for _, w := range wanted {
		spec, run := r.choose(w, byID)
		if !run {
			delete(r.replaced, w.ID)
			continue
		}
		next[w.ID] = spec
		out = append(out, spec)
		r.applied[w.ID] = spec // later replicas of this pass must see it
	}
	r.applied = next
	return out
}

// settle forgets replacements that are done or no longer wanted.
func (r *rollout) settle(wanted []supervisor.Spec, byID map[supervisor.ReplicaID]supervisor.Status) {
	for id, before := range r.replaced {
		st, runs := byID[id]
		done := runs && st.State == supervisor.Ready && st.Incarnation > before
		if done || !slices.ContainsFunc(wanted, func(w supervisor.Spec) bool { return w.ID == id }) {
			delete(r.replaced, id)
		}
	}
}

// choose returns what one replica shall be now: as wanted, as it was, or, with false,
// nothing.
func (r *rollout) choose(w supervisor.Spec, byID map[supervisor.ReplicaID]supervisor.Status) (supervisor.Spec, bool) {
	was, runs := r.applied[w.ID]
	if runs && reflect.DeepEqual(was, w) {
		return w, true
	}
	if r.blocked(w, byID) {
		// Its cards are another's. The one that holds them is going or must go, and so
		// must this one when the other waits for its cards in turn.
		return supervisor.Spec{}, false
	}
	st := byID[w.ID]
	if !runs {
		return w, true
	}
	serves := st.State == supervisor.Ready || st.State == supervisor.Suspect
	if serves && r.busy(w.ID.Model) {
		return was, true
	}
	if serves {
		r.replaced[w.ID] = st.Incarnation
	}
	return w, true
}

// busy says whether a replica of the model was replaced and is not ready yet.
func (r *rollout) busy(model string) bool {
	for id := range r.replaced {
		if id.Model == model {
			return true
		}
	}
	return false
}

// blocked says whether another replica holds a card that w wants.
func (r *rollout) blocked(w supervisor.Spec, byID map[supervisor.ReplicaID]supervisor.Status) bool {
	overlaps := func(cards []string) bool {
		return slices.ContainsFunc(cards, func(uuid string) bool { return slices.Contains(w.GPUs, uuid) })
	}
	for id, st := range byID {
		if id != w.ID && overlaps(st.GPUs) {
			return true
		}
	}
	for id, spec := range r.applied {
		if id != w.ID && overlaps(spec.GPUs) {
			return true
		}
	}
	return false
}
