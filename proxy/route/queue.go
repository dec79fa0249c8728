package route

import (
	"cmp"
	"slices"
	"time"
)

// enqueue puts a ticket at the end of the queue; the next pump puts it in order.
func (c *Core) enqueue(ti int32) {
	t := c.tickets.at(ti)
	t.queued, t.patience = true, 0
	if c.door.waiting == 0 {
		c.door.since = c.at
	}
	c.door.queue = append(c.door.queue, ti)
	c.door.waiting++
}

// unqueue marks a ticket as out of the queue; compact takes it out.
func (c *Core) unqueue(t *ticket) {
	t.queued = false
	c.await(t, none)
	c.door.waiting--
}

// compact takes out of the queue what no longer waits.
func (c *Core) compact() {
	c.door.queue = slices.DeleteFunc(c.door.queue, func(ti int32) bool {
		return !c.tickets.at(ti).queued
	})
}

// leaveDoor takes a ticket that ends away from the queue or the gate.
func (c *Core) leaveDoor(ti int32) {
	t := c.tickets.at(ti)
	switch {
	case t.stranded:
		c.unstrand(ti)
	case t.queued:
		c.unqueue(t)
		c.compact()
		c.pardon()
	case t.gated:
		c.ungate(ti)
		c.back(t)
	}
}

// order sorts the queue by arrival less credit. Credit comes from what the
// conversation has waited before; one that lost its place against its will goes
// before all that came a spell earlier.
func (c *Core) order() {
	q := c.door.queue
	most := int64(0)
	if c.door.keep > 0 {
		most = 10 * c.door.fill
	}
	for k, ti := range q {
		t := c.tickets.at(ti)
		v := c.table.at(t.conv)
		credit := min(v.waited, most)
		if v.lost != lossNone {
			credit = v.waited + c.door.spell
		}
		t.rank = t.arrived - credit
		for ; k > 0 && t.rank < c.tickets.at(q[k-1]).rank; k-- { // nearly in order already
			q[k] = q[k-1]
		}
		q[k] = ti
	}
}

// pump lets in what may go now, in order, and opens the gates.
func (c *Core) pump() {
	c.derive()
	c.pardon()
	if !c.door.open {
		c.closeDoor()
		return
	}
	if len(c.door.queue) > 0 {
		c.order()
		c.walk()
		c.compact()
	}
	for i := range c.replicas {
		c.openGate(i)
	}
}

// walk goes through the queue once. A request that has waited for the time of filling
// a cache is passed by nobody.
func (c *Core) walk() {
	c.freeEnded()
	c.survey()
	closed, head := false, true
	for _, ti := range c.door.queue {
		t := c.tickets.at(ti)
		c.await(t, none)
		if closed && !c.overdue(t) {
			continue
		}
		need := c.budget(t)
		if c.tooLarge(t, need) {
			c.letPlain(ti)
			continue
		}
		v := c.table.at(t.conv)
		leaves := v.admitted && (t.wasTried(v.home) || !c.homeServes(t))
		to := none
		switch {
		case v.admitted && !v.yield && !leaves:
			to = int(v.home) // another request of it was let in
		case (!v.admitted || leaves) && c.mayFit(t, need):
			to = c.offer(t, need)
		}
		if to == none {
			to = c.force(t, head)
		}
		if to == none {
			head = false
			closed = closed || c.at-t.arrived > c.door.fill && len(t.tried) == 0
			continue
		}
		was := v.home
		c.letIn(ti, to)
		c.look(to)
		if was != none && was != int32(to) && int(was) < c.present {
			c.look(int(was))
		}
	}
}

// offer returns the replica with room that a ticket goes to now, or none, and makes the
// room that there can be.
func (c *Core) offer(t *ticket, need int64) int {
	to := c.placeAtDoor(t)
	switch {
	case to != none:
		c.clear(t, to)
	case t.awaits == none:
		c.noRoom(t, need)
	}
	return to
}

// force returns the replica that a ticket goes to although no room is left: the head of
// the queue takes places once it has waited for a spell, and who has waited as long as any
// may goes where it is least full. None when it waits on.
func (c *Core) force(t *ticket, head bool) int {
	to := none
	if head && c.at-t.arrived >= c.door.spell {
		to = c.displace(t)
	}
	if to == none && c.overdue(t) {
		to = c.leastFull(t)
	}
	if to != none {
		c.weighAtDoor(t) // for the record of the decision
	}
	return to
}

// letIn gives the conversation of a ticket a place on replica to.
func (c *Core) letIn(ti int32, to int) {
	t := c.tickets.at(ti)
	v := c.table.at(t.conv)
	c.unqueue(t)
	c.noteGiven(t)
	v.waited += c.at - t.arrived - t.credited // once, also when it was sent back
	t.credited = c.at - t.arrived
	class := ClassSticky
	if !c.isHome(t.conv, to) {
		c.loseHome(t.conv)
		class = ClassPlaced
		if v.homed {
			class = ClassRehomed
		}
		c.setHome(t.conv, to)
	} else if t.first {
		class = ClassPlaced
	}
	if v.admitted && !v.yield {
		c.resize(t.conv, t)
	} else {
		c.expel(t.conv, lossNone)
		c.seat(t.conv, c.budget(t))
	}
	t.terms = append(t.terms[:0], c.terms[:c.present]...)
	c.toGate(ti, to, class)
}

// displace makes room for the head of the queue where that ends the fewest turns: it
// takes the places of idle conversations now and those of busy ones when their turns
// end. It returns the replica if there is room at once, else none.
func (c *Core) displace(t *ticket) int {
	best, fewest := none, 0
	for i := range c.replicas[:c.present] {
		if !c.eligible(t, i) {
			continue
		}
		busy, ok := c.choose(t, i)
		if ok && (best == none || busy < fewest) {
			best, fewest = i, busy
			c.door.victims, c.door.chosen = c.door.chosen, c.door.victims
		}
	}
	if best == none {
		return none
	}
	for _, i := range c.door.chosen {
		switch v := c.table.at(i); {
		case v.through == 0 && c.spent(v):
			c.expel(i, lossNone)
		case v.through == 0:
			c.expel(i, lossWaited)
		default:
			v.yield = true
			c.door.yielding = append(c.door.yielding, i)
		}
	}
	if c.takes(t, best) {
		return best
	}
	c.look(best)
	return none
}

// choose collects in victims whose places on replica i make room for a ticket: those
// that are spent or have been there for a spell, idle ones first, then longest resident.
// It returns how many of them are busy; false means that there are not enough.
func (c *Core) choose(t *ticket, i int) (busy int, ok bool) {
	r := &c.replicas[i]
	need := c.missing(t, i)
	victims := c.residents(c.door.victims[:0], &r.idle)
	idle := len(victims)
	victims = c.residents(victims, &r.busy)
	slices.SortFunc(victims[idle:], func(a, b int32) int {
		return cmp.Compare(c.table.at(a).admittedAt, c.table.at(b).admittedAt)
	})
	taken := 0
	clear(c.door.space.gone)
	for taken < len(victims) && need > 0 {
		need -= c.gains(&r.places, c.table.at(victims[taken]), t.shared)
		taken++
	}
	c.door.victims = victims[:taken]
	return max(0, taken-idle), need <= 0 || taken == r.places.count // or nobody is left there
}

// residents appends the conversations of a list that have had their places for a
// spell, or are idle and spent.
func (c *Core) residents(to []int32, s *seats) []int32 {
	for k := s.first; k != none; k = c.table.at(k).seatNext {
		v := c.table.at(k)
		if c.at-v.admittedAt >= c.door.spell || v.through == 0 && c.spent(v) {
			to = append(to, k)
		}
	}
	return to
}

// pardon takes back what displace asked of busy conversations. Each pump begins with
// it: the head may be another one now, or gone, or may have found room elsewhere.
func (c *Core) pardon() {
	for _, i := range c.door.yielding {
		c.table.at(i).yield = false
	}
	c.door.yielding = c.door.yielding[:0]
}

// heldReason says for a person what a held request waits for.
func (c *Core) heldReason(t *ticket) string {
	switch {
	case t.gated:
		return "has a place; waits until long prompts before it are read"
	case t.stranded, c.usable == 0:
		return "waits for a replica"
	case t.awaits != none:
		return "waits for room at its home, which still holds its context"
	}
	switch c.table.at(t.conv).lost {
	case lossWaited:
		return "lost its place to one that waited longer; waits for room"
	case lossRelief:
		return "lost its place to others that have grown; waits for room"
	case lossReplica:
		return "lost its place with its replica; waits for room"
	default:
		return "waits for room in a cache"
	}
}

// viewDoor fills what a view says about the door.
func (c *Core) viewDoor(v *View) {
	const shown = 16
	v.Held = c.held()
	show := func(ti int32) {
		t := c.tickets.at(ti)
		at := c.time(t.arrived)
		if v.OldestHeld.IsZero() || at.Before(v.OldestHeld) {
			v.OldestHeld = at
		}
		h := HeldView{Tokens: t.tokens, Arrived: at, Reason: c.heldReason(t)}
		if t.conv != none { // else it waits for a replica only
			cv := c.table.at(t.conv)
			if cv.home != none && int(cv.home) < len(v.Replicas) {
				v.Replicas[cv.home].Held++
			}
			h.Conversation = cv.key
		}
		if len(v.Queue) < shown {
			v.Queue = append(v.Queue, h)
		}
	}
	for _, ti := range c.door.stranded {
		show(ti)
	}
	for i := range c.replicas {
		for _, ti := range c.replicas[i].gate {
			show(ti)
		}
	}
	for _, ti := range c.door.queue {
		show(ti)
	}
}

// Released returns the held requests that may go now, and forgets them. The slice
// is valid until the next call. Look after every other call.
func (c *Core) Released() []Release {
	out := slices.DeleteFunc(c.door.released, func(r Release) bool {
		return c.tickets.find(r.Ticket) == none // ended meanwhile
	})
	c.door.released, c.door.spare = c.door.spare[:0], out
	return out
}

// Tick lets time pass for what waits and what idles. Call it 10 times a second
// while anyone waits, else once a second.
func (c *Core) Tick(now time.Time) {
	c.advance(now)
	c.sweep()
	if c.held() > 0 {
		c.rescue()
		c.pump()
	}
}
