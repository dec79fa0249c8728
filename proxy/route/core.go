package route

import (
	"math/rand/v2"
	"time"
)

// Core is the router of one model. It is not safe for concurrent use: the caller
// serializes the calls, so that a choice and its reservation are one step.
type Core struct {
	set   Settings
	now   *Settings // those that hold for the request that is being decided
	trial *Trial    // that runs, or nil
	rng   *rand.Rand
	epoch time.Time // moment zero of every at; set by the first call
	at    int64     // latest time seen, in nanoseconds since epoch; never goes back

	replicas []replica // by index; entries past present are gone but may hold tickets
	present  int       // replicas that exist now
	usable   int       // of these, ready and not draining
	most     int64     // tokens of the longest request that one of these holds
	least    int64     // of the longest that each of them holds
	chosen   uint64    // running number of choices, for "least recently chosen"
	robin    int       // last choice of PolicyRoundRobin

	table   table
	tickets tickets
	shadow  shadow
	learned learned
	door    door

	counts   [NumClasses]uint64
	inFlight int
	terms    []Term // handed out in Decision.Terms, reused
}

// New returns a core without replicas. Seed drives every random choice.
func New(s Settings, seed uint64) *Core {
	c := &Core{rng: rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15))}
	c.table.init()
	c.shadow.init()
	c.learned.init()
	c.set = s.normalized()
	c.now = &c.set
	c.table.bound = c.set.MaxConversations
	return c
}

// normalized replaces zero lives and bounds by their defaults: a zero must never
// switch stickiness off silently.
func (s Settings) normalized() Settings {
	def := DefaultSettings()
	if s.IdleMain <= 0 {
		s.IdleMain = def.IdleMain
	}
	if s.IdleAgent <= 0 {
		s.IdleAgent = def.IdleAgent
	}
	if s.MaxConversations <= 0 {
		s.MaxConversations = def.MaxConversations
	}
	if s.MaxHold <= 0 {
		s.MaxHold = def.MaxHold
	}
	if s.MaxQueue <= 0 {
		s.MaxQueue = def.MaxQueue
	}
	return s
}

// SetSettings changes the settings live.
func (c *Core) SetSettings(now time.Time, s Settings) {
	c.advance(now)
	c.set = s.normalized()
	c.table.bound = c.set.MaxConversations
	c.sweep()
	c.pump()
}

// SetReplicas tells the core which replicas there are. Conversations whose home is
// gone or has a new incarnation are rehomed at their next turn. Held requests find
// another place by themselves; forwarded ones without a first byte go back to the door
// through [Core.Requeue], to another replica through [Core.Reroute], or wait for one
// through [Core.Strand].
func (c *Core) SetReplicas(now time.Time, rs []Replica) {
	c.advance(now)
	for len(c.replicas) < len(rs) {
		c.replicas = append(c.replicas, newReplica())
	}
	c.terms = make([]Term, len(rs))
	for i := range c.replicas {
		r := &c.replicas[i]
		if i >= len(rs) {
			if i < c.present {
				r.Replica = Replica{}
				c.absolve(i)
				c.evacuate(i)
				c.cacheLost(i)
			}
			continue
		}
		lost := i < c.present && r.Incarnation != rs[i].Incarnation
		r.Replica = rs[i]
		if lost || !r.usable() {
			c.absolve(i)
		}
		if lost {
			c.evacuate(i)
			c.cacheLost(i)
		}
		c.shadow.trim(c, i)
	}
	c.present = len(rs)
	c.count()
	for i := range c.replicas {
		if !c.replicas[i].usable() {
			c.evacuate(i)
		}
	}
	c.rescue()
	c.pump()
}

// Arrive decides a request or holds it. With Forward, d is filled and a
// reservation is held on d.Replica until Done. With Held, the decision comes
// through Released. With RefusedFull and NoReplica there is no ticket.
func (c *Core) Arrive(now time.Time, r *Request, d *Decision) (Ticket, Verdict) {
	c.advance(now)
	c.sweep()
	*d = Decision{Replica: none, Home: none}
	pinned := (c.set.ClientPinning || r.Bound) && r.Rank >= 0 && r.Rank < c.present
	switch {
	case pinned && !c.replicas[r.Rank].usable():
		return 0, NoReplica // never overridden, so there is nowhere else to go
	case c.usable == 0 && !r.Patient:
		return 0, NoReplica
	case c.usable == 0 && c.held() >= c.set.MaxQueue:
		return 0, RefusedFull
	}
	ti := c.tickets.open(c.at, r)
	c.identify(ti, r)
	if c.usable == 0 {
		c.strand(ti)
		return c.tickets.name(ti), Held
	}
	c.now = c.settingsOf(c.tickets.at(ti))
	switch t := c.tickets.at(ti); {
	case pinned && r.Bound:
		c.decideBound(ti, d, r.Rank)
	case pinned:
		c.decide(ti, d, ClassClientPinned, r.Rank)
	case !c.now.Affinity:
		c.decide(ti, d, ClassOff, c.placeOff(t, d))
	case t.unkeyed:
		c.decide(ti, d, ClassUnkeyed, c.placeFree(t, d))
	case r.Kind == KindSide:
		c.decideSide(ti, d)
	case c.set.Admission == AdmissionWorkingSet && c.mayHold(t):
		v := c.knock(ti, d)
		if v == RefusedFull {
			c.table.at(t.conv).turns-- // it will come again
			c.end(ti)
			return 0, v
		}
		return c.tickets.name(ti), v
	default:
		c.decideKeyed(ti, d)
	}
	return c.tickets.name(ti), Forward
}

// FirstByte says that the replica gave the first byte of an answer.
func (c *Core) FirstByte(now time.Time, t Ticket) {
	c.advance(now)
	ti := c.tickets.find(t)
	if ti == none {
		return
	}
	tk := c.tickets.at(ti)
	if tk.firstByte || !tk.reserved {
		return
	}
	r := &c.replicas[tk.replica]
	tk.firstByte = true
	tk.ttfb = c.at - max(tk.dispatched, r.firstByte)
	r.failures, r.firstByte = 0, c.at
	c.prefillDone(tk)
	if tk.inc == r.Incarnation && tk.conv != none {
		c.shadow.touch(c, tk.conv, tk.shared, int(tk.replica), tk.tokens)
	}
	c.openGate(int(tk.replica))
}

// Reroute gives a forwarded request that got no first byte another replica than
// those it tried. The old reservation moves; the decision is filled. False means
// that no other replica is ready; the reservation and d are unchanged then. A request
// whose client named the replica is never rerouted. A request has one class, on the
// replica that serves it, so the counts of the old replica step back by one.
func (c *Core) Reroute(now time.Time, t Ticket, d *Decision) bool {
	c.advance(now)
	ti := c.tickets.find(t)
	if ti == none {
		return false
	}
	tk := c.tickets.at(ti)
	if !tk.reserved || tk.firstByte || tk.bound || tk.class == ClassClientPinned {
		return false
	}
	failed, before := tk.replica, len(tk.tried)
	blamed := c.blame(tk)
	next := Decision{Replica: none, Home: none}
	to := c.elsewhere(tk, &next)
	if blamed {
		c.replicas[failed].fail(c.at)
	}
	if to == none {
		tk.tried = tk.tried[:before]
		return false
	}
	seated := tk.conv != none && c.table.at(tk.conv).admitted
	class := c.rerouteClass(tk, to)
	c.unreserve(tk)
	c.decide(ti, &next, class, to)
	if seated && !c.table.at(tk.conv).admitted {
		c.seat(tk.conv, c.budget(tk)) // over the budget if need be: it has been let in
		c.relieve(to)
	}
	*d = next
	return true
}

// Done ends a ticket, held or forwarded, and gives its reservation back. It returns
// why the prompt was not in the cache. Ending a ticket twice is a no-op.
func (c *Core) Done(now time.Time, t Ticket, o Outcome) Miss {
	c.advance(now)
	ti := c.tickets.find(t)
	if ti == none {
		return MissNone
	}
	tk := c.tickets.at(ti)
	miss := MissNone
	o.Served = o.Served && tk.reserved
	if o.Served {
		miss = c.missOf(tk, &o)
		c.learn(tk, &o)
	}
	c.leaveDoor(ti)
	c.release(tk)
	if o.Served && tk.conv != none {
		c.endTurn(tk, &o)
	}
	c.end(ti)
	if c.held() > 0 {
		c.pump()
	}
	return miss
}

// end closes a ticket that holds no place any more.
func (c *Core) end(ti int32) {
	t := c.tickets.at(ti)
	if t.conv != none {
		c.leave(t)
	}
	c.shadow.shared.unref(t.shared)
	c.tickets.close(ti)
}

// advance moves the core's clock. A clock that steps back is held still.
func (c *Core) advance(now time.Time) {
	c.now = &c.set
	if c.epoch.IsZero() {
		c.epoch = now
	}
	if at := int64(now.Sub(c.epoch)); at > c.at {
		c.at = at
	}
}

// time turns a moment of the core back into a time.
func (c *Core) time(at int64) time.Time { return c.epoch.Add(time.Duration(at)) }
