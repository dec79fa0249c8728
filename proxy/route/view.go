package route

import (
	"math"
	"slices"
	"time"
)

// View returns the state for the card.
func (c *Core) View(now time.Time) View {
	c.advance(now)
	v := View{
		Replicas:       make([]ReplicaView, c.present),
		Counts:         c.counts,
		InFlight:       c.inFlight,
		SpillThreshold: c.threshold(0),
		SpillAuto:      c.set.SpillThreshold == 0,
		SharedTokens:   c.sharedTokens(),
		Conversations:  c.table.used,
		Learned:        c.viewLearned(),
	}
	for i := range v.Replicas {
		r := &c.replicas[i]
		v.Replicas[i] = ReplicaView{
			InFlight: r.inFlight, Counts: r.counts,
			Resident: r.cache.total(), Capacity: r.Capacity, Closed: !r.usable(),
			Live: r.live.count, LiveTokens: r.live.total(),
			Admitted: r.places.count, AdmittedTokens: r.places.total(),
		}
	}
	for _, l := range [...]int{listBusy, listWarm, listWarm + 1, listFresh, listFresh + 1, listRecent, listRecent + 1} {
		v.Live += c.table.lists[l].count
	}
	v.Holding = c.door.open
	c.viewWorking(&v)
	c.viewDoor(&v)
	c.viewRoom(&v)
	v.Waiting = c.waitingForRoom()
	return v
}

// waitingForRoom returns how many conversations have a request in the queue, but for those
// that could go elsewhere and wait for their homes.
func (c *Core) waitingForRoom() int {
	if c.usable == 0 {
		return 0 // they wait for a replica
	}
	waiting := make(map[int32]struct{}, len(c.door.queue))
	for _, ti := range c.door.queue {
		if t := c.tickets.at(ti); t.awaits == none {
			waiting[t.conv] = struct{}{}
		}
	}
	return len(waiting)
}

func (c *Core) viewLearned() Learned {
	rhythm := c.learned.rhythm // a copy: looking at it must not change what it answers
	f, l := c.figuresWith(&rhythm), &c.learned
	out := Learned{
		TokensPerByte: c.measure(&l.ratio), PrefillRate: c.measure(&l.prefill.ewma),
		Growth: c.measure(&l.growth), Output: c.measure(&l.output), Service: c.measure(&l.service),
		Gap:    Measure{Value: seconds(l.rhythm.quantile(0.5)), Samples: l.rhythm.count},
		GapP95: time.Duration(l.rhythm.quantile(0.95)), Ends: l.rhythm.endsSeen(),
		Keep: time.Duration(f.keep), Spell: time.Duration(f.spell),
		Linger: time.Duration(l.rhythm.linger()), Shared: c.viewShared(),
	}
	if l.rhythm.count > 0 {
		out.Gap.At = c.time(l.rhythm.at)
	}
	return out
}

func (c *Core) measure(e *ewma) Measure {
	m := Measure{Value: e.value, Samples: e.samples}
	if e.known() {
		m.At = c.time(e.at)
	}
	return m
}

// viewShared returns the shared prompts whose size is known, most used first.
func (c *Core) viewShared() []SharedView {
	const shown = 8
	var out []SharedView
	for i := range c.shadow.shared.slots {
		if s := &c.shadow.shared.slots[i]; s.samples > 0 && s.refs > 0 {
			out = append(out, SharedView{Tokens: s.tokens, Samples: int(s.samples), References: int(s.refs)})
		}
	}
	slices.SortStableFunc(out, func(a, b SharedView) int { return b.References - a.References })
	return out[:min(len(out), shown)]
}

// sharedTokens returns the size of the shared prompt that most refer to, or -1.
func (c *Core) sharedTokens() int64 {
	if i := c.mostShared(); i != none {
		return c.shadow.shared.size(i)
	}
	return -1
}

// mostShared returns the shared prompt of known size that most refer to, or none.
func (c *Core) mostShared() int32 {
	best, refs := int32(none), int32(0)
	for i := range c.shadow.shared.slots {
		if s := &c.shadow.shared.slots[i]; s.samples > 0 && s.refs > refs {
			best, refs = int32(i), s.refs
		}
	}
	return best
}

// viewRoom fills what a view says about the room that the door has to give: by its own
// test, for one who comes with the shared prompt that most refer to.
func (c *Core) viewRoom(v *View) {
	if !c.door.open {
		return
	}
	v.Reserve = c.door.growth
	shared := c.mostShared()
	calm := slices.ContainsFunc(c.replicas[:c.present], func(r replica) bool { return r.usable() && !r.Avoid })
	for i := range v.Replicas {
		r := &c.replicas[i]
		if !r.usable() || r.Avoid && calm {
			continue
		}
		free, _ := c.vacancy(i, shared)
		if !r.places.holds(shared) {
			free -= c.shadow.shared.size(shared)
		}
		v.Replicas[i].Free = max(0, free)
	}
	v.Smallest = math.MaxInt64
	for _, ti := range c.door.queue {
		switch t := c.tickets.at(ti); {
		case c.at-t.arrived > c.door.fill && len(t.tried) == 0:
			v.Smallest = 0
		case t.awaits == none:
			v.Smallest = min(v.Smallest, c.budget(t))
		}
	}
}

// Conversations calls f for each conversation, latest active first, until f
// returns false.
func (c *Core) Conversations(now time.Time, f func(ConversationView) bool) {
	c.advance(now)
	linger := c.learned.rhythm.linger()
	for i := c.table.lists[listBusy].head; i != none; i = c.table.at(i).next {
		if v := c.table.at(i); !v.forgotten && !f(c.viewOf(v, linger)) {
			return
		}
	}
	for _, l := range [...]int{listWarm, listFresh, listRecent, listIdle} {
		a, b := c.table.lists[l].head, c.table.lists[l+1].head
		for a != none || b != none {
			next := &a
			if a == none || b != none && c.table.at(b).lastActive > c.table.at(a).lastActive {
				next = &b
			}
			v := c.table.at(*next)
			*next = v.next
			if !f(c.viewOf(v, linger)) {
				return
			}
		}
	}
}

func (c *Core) viewOf(v *conv, linger int64) ConversationView {
	cv := ConversationView{
		Key: v.key, Group: v.group, Home: int(v.home), Context: v.context,
		InFlight: int(v.inFlight), Turns: v.turns, LastActive: c.time(v.lastActive),
		Agent: v.agent, Live: v.live >= live, Admitted: v.admitted, Waits: v.open > v.inFlight,
	}
	if cv.Active = c.works(v, linger); cv.Active {
		cv.Working = c.working(v)
	}
	if v.home != none {
		if n := c.shadow.find(v, int(v.home)); n != none {
			cv.Resident = c.shadow.nodes[n].own + c.shadow.shared.size(c.shadow.nodes[n].shared)
		}
	}
	return cv
}

// Move gives a conversation another home. False means that it is not known or the
// replica does not exist. Requests in flight stay where they are.
func (c *Core) Move(now time.Time, k Key, replica int) bool {
	c.advance(now)
	c.sweep()
	i := c.table.find(k)
	if i == none || replica < 0 || replica >= c.present {
		return false
	}
	v := c.table.at(i)
	if v.home == int32(replica) && v.homeInc == c.replicas[replica].Incarnation {
		return true
	}
	admitted := v.admitted
	c.setHome(i, replica)
	v.confirmed, v.homed = true, true
	if admitted && c.replicas[replica].usable() {
		c.seat(i, v.size)
		c.relieve(replica)
	}
	return true
}

// Forget drops a conversation. False means that it is not known. Its requests in
// flight end as they would have.
func (c *Core) Forget(k Key) bool {
	i := c.table.find(k)
	if i == none {
		return false
	}
	v := c.table.at(i)
	if v.open == 0 {
		c.drop(i)
		return true
	}
	c.table.unmap(i)
	v.forgotten = true
	c.setLive(i, notLive)
	return true
}
