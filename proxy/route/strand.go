package route

import (
	"slices"
	"time"
)

// A request is stranded when no replica can take it and one is expected back: all of them
// restart, or the only one that was left has failed it. Unlike those that wait for room it
// may be of any kind, and what admission says does not matter. It goes on when a replica
// is usable that has not failed it in its present life; after the longest hold one that
// has must do.

// strand makes a ticket wait for a replica.
func (c *Core) strand(ti int32) {
	c.tickets.at(ti).stranded = true
	c.door.stranded = append(c.door.stranded, ti)
}

// unstrand takes a ticket out of those that wait for a replica.
func (c *Core) unstrand(ti int32) {
	c.tickets.at(ti).stranded = false
	c.door.stranded = slices.DeleteFunc(c.door.stranded, func(x int32) bool { return x == ti })
}

// Strand makes a forwarded request that got no first byte wait, with its time of arrival,
// until another replica can take it or the one that failed it has begun a new life. Use it
// when [Core.Requeue] and [Core.Reroute] find nobody; the decision comes through Released.
// False means that the request cannot be moved and its reservation is unchanged.
func (c *Core) Strand(now time.Time, t Ticket) bool {
	c.advance(now)
	ti := c.tickets.find(t)
	if ti == none {
		return false
	}
	tk := c.tickets.at(ti)
	if !tk.reserved || tk.firstByte || tk.bound || tk.class == ClassClientPinned {
		return false
	}
	failed := tk.replica
	if c.blame(tk) {
		c.replicas[failed].fail(c.at)
	}
	c.unreserve(tk)
	if tk.conv != none {
		if v := c.table.at(tk.conv); v.home == failed && v.through == 0 {
			c.expel(tk.conv, lossReplica)
		}
	}
	c.strand(ti)
	c.rescue()
	c.pump()
	return true
}

// rescue lets those go on that wait for a replica, in order of arrival, as far as there
// is one: to the queue where places are kept, else to the replica itself.
func (c *Core) rescue() {
	if c.usable == 0 || len(c.door.stranded) == 0 {
		return
	}
	c.derive()
	all := c.door.stranded
	c.door.stranded = nil // a long list was of a bad moment; its memory goes with it
	for _, ti := range all {
		t := c.tickets.at(ti)
		switch {
		case !c.untried(t) && !c.overdue(t):
			c.door.stranded = append(c.door.stranded, ti)
			continue
		case t.kind != KindSide && c.settingsOf(t).Affinity && c.holdable(t):
			c.enqueue(ti)
		default:
			c.goPlain(ti)
		}
		t.stranded = false
	}
}
