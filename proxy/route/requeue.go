package route

import (
	"slices"
	"time"
)

// Requeue puts a forwarded request that got no first byte back to the door, with its
// time of arrival; its replica is not tried again in its present life. The decision comes
// through Released. False means that the request cannot be held and its reservation is
// unchanged: use [Core.Reroute].
func (c *Core) Requeue(now time.Time, t Ticket) bool {
	c.advance(now)
	c.derive()
	ti := c.tickets.find(t)
	if ti == none {
		return false
	}
	tk := c.tickets.at(ti)
	if !tk.reserved || tk.firstByte || tk.bound || !c.holdable(tk) || tk.class > ClassRehomed {
		return false
	}
	failed, before := tk.replica, len(tk.tried)
	blamed := c.blame(tk)
	if !c.untried(tk) {
		tk.tried = tk.tried[:before]
		return false
	}
	if blamed {
		c.replicas[failed].fail(c.at)
	}
	c.unreserve(tk)
	if v := c.table.at(tk.conv); v.home == failed && v.through == 0 {
		c.expel(tk.conv, lossReplica) // no turn of it is left there
	}
	c.enqueue(ti)
	c.pump()
	return true
}

// blame enters the replica of a ticket among those that failed it, and tells whether it
// did: a life that is over, or a replica that takes no requests any more, is not to blame
// for what a later life will do.
func (c *Core) blame(t *ticket) bool {
	r := &c.replicas[t.replica]
	if !r.usable() || r.Incarnation != t.inc {
		return false
	}
	t.tried = append(t.tried, t.replica)
	return true
}

// absolve forgets that a replica has failed requests, whatever they wait for: it is gone,
// or begins a new life.
func (c *Core) absolve(replica int) {
	for k := range c.tickets.slots {
		t := &c.tickets.slots[k]
		t.tried = slices.DeleteFunc(t.tried, func(r int32) bool { return r == int32(replica) })
	}
}

// untried tells whether a usable replica is left that holds the ticket and has not failed it.
func (c *Core) untried(t *ticket) bool {
	for i := range c.replicas[:c.present] {
		if c.replicas[i].usable() && c.holds(t, i) && !t.wasTried(int32(i)) {
			return true
		}
	}
	return false
}
