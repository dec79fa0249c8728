package route

import "time"

// identify tells the conversation and the shared prompt of a request and enters the
// request into them. Side calls belong to no conversation.
func (c *Core) identify(ti int32, r *Request) {
	t := c.tickets.at(ti)
	t.shared = c.shadow.shared.acquire(r.SharedHash)
	t.tokens = c.learned.tokens(t.bytes)
	t.needs = demand(t, nil)
	if r.Kind == KindSide {
		t.unkeyed = r.Key == Key{} && r.Group == Key{}
		return
	}
	var i int32
	switch {
	case r.Key != Key{}:
		if i = c.table.find(r.Key); i == none {
			i = c.remember(r.Key, r.Group, r.Kind == KindAgent)
			t.first = true
		}
	case chainUsable(r):
		if i = c.table.matchChain(r); i == none {
			i = c.remember(c.table.chainKey(t.chain), r.Group, r.Kind == KindAgent)
			t.first = true
			if i != none {
				c.table.at(i).byChain = true
			}
		}
	default:
		t.unkeyed = true
		return
	}
	if i == none { // the table is full of live conversations
		t.turn = 1
		return
	}
	c.enter(t, i, r)
}

// enter makes a request the next turn of conversation i.
func (c *Core) enter(t *ticket, i int32, r *Request) {
	v := c.table.at(i)
	if t.first {
		c.enroll(v)
		v.lastActive = c.at // it has had no turn to be idle since
	}
	v.turns++
	t.conv, t.turn = i, v.turns
	if !t.first {
		t.broken = v.chainBroken(r.Chain) || v.beginsAnew(r.SharedHash)
		t.tokens = c.learned.next(v, t.bytes)
		t.before = v.prompt
		t.needs = demand(t, v)
	}
	v.asked = t.tokens + int64(min(c.learned.output.value, maxAnswer))
	c.adopt(i, t.shared)
	if v.open == 0 && !t.first {
		t.gap = c.at - v.lastActive
	}
	v.open++
	c.table.move(i, listBusy)
	c.setLive(i, working)
	if v.group != (Key{}) && v.group != v.key && !v.agent {
		c.table.groups[v.group] = i
	}
	if t.first && t.chain != 0 {
		t.twin = c.table.twin(i, t.chain)
	}
	if t.chain != 0 {
		c.table.keepChain(i, t.chain)
	}
}

// adopt gives a conversation without a shared prompt this one.
func (c *Core) adopt(i, shared int32) {
	v := c.table.at(i)
	if v.shared != none || shared == none {
		return
	}
	c.shadow.shared.ref(shared)
	was := v.live
	c.setLive(i, notLive)
	if v.admitted {
		c.replicas[v.home].places.remove(&c.shadow.shared, v.size, v.shared)
	}
	v.shared = shared
	if v.admitted {
		c.replicas[v.home].places.add(&c.shadow.shared, v.size, v.shared)
	}
	c.setLive(i, was)
}

// leave ends a ticket's part in its conversation. A conversation that was never
// served leaves nothing behind; a home that never served it is no home.
func (c *Core) leave(t *ticket) {
	i := t.conv
	v := c.table.at(i)
	v.open--
	if v.open > 0 {
		return
	}
	if v.forgotten || !v.seen {
		c.drop(i)
		return
	}
	if v.home != none && !v.confirmed {
		v.oldHome = v.home
		c.setHome(i, none)
	}
	c.table.move(i, listWarm+v.ageClass()) // in its order: who was not let through is as old as before
}

// endTurn records a served turn of a conversation.
func (c *Core) endTurn(t *ticket, o *Outcome) {
	v := c.table.at(t.conv)
	v.seen = true
	v.lastActive = c.at
	if t.inc == c.replicas[t.replica].Incarnation && c.isHome(t.conv, int(t.replica)) {
		v.confirmed, v.homed = true, true
	}
	v.lastBytes = t.bytes
	v.prompt = int64(max(o.Prompt, 0))
	v.context = t.tokens
	if o.Prompt > 0 {
		v.context = int64(o.Prompt + max(o.Completion, 0))
	}
	c.setLive(t.conv, v.live)
	if o.ChainNext != 0 {
		c.table.keepChain(t.conv, o.ChainNext)
	}
}

// decideKeyed decides a turn of a conversation: home, spill, or a new home.
func (c *Core) decideKeyed(ti int32, d *Decision) {
	t := c.tickets.at(ti)
	if t.conv == none {
		d.note = noteTableFull
		c.decide(ti, d, ClassPlaced, c.place(t, d))
		return
	}
	v := c.table.at(t.conv)
	if c.homeServes(t) {
		home := int(v.home)
		if to := c.spillTo(t, v, d); to != none {
			c.decide(ti, d, ClassSpilled, to)
			return
		}
		c.decide(ti, d, ClassSticky, home)
		return
	}
	c.loseHome(t.conv)
	class := ClassPlaced
	if v.homed {
		class = ClassRehomed
	}
	c.decide(ti, d, class, c.place(t, d))
}

// decideBound decides a request that only one replica can answer. That replica becomes
// the home of a conversation that has none; a home elsewhere is kept.
func (c *Core) decideBound(ti int32, d *Decision, to int) {
	t := c.tickets.at(ti)
	d.note = noteBound
	class := ClassClientPinned
	if c.set.Affinity && t.conv != none {
		switch v := c.table.at(t.conv); {
		case c.isHome(t.conv, to):
			class = ClassSticky
		case !c.homeAlive(v):
			c.loseHome(t.conv)
			class = ClassPlaced
			if v.homed {
				class = ClassRehomed
			}
		}
	}
	c.decide(ti, d, class, to)
}

// loseHome takes the home from a conversation whose home can no longer serve it.
func (c *Core) loseHome(i int32) {
	v := c.table.at(i)
	if v.home == none {
		return
	}
	v.restarted = int(v.home) >= c.present || c.replicas[v.home].Incarnation != v.homeInc
	v.oldHome = v.home
	c.setHome(i, none)
}

// decideSide decides a side call: it follows its group while the group's home has
// nothing in flight, else it is balanced. It touches no conversation.
func (c *Core) decideSide(ti int32, d *Decision) {
	t := c.tickets.at(ti)
	to := none
	if i := c.leader(t); i != none {
		v := c.table.at(i)
		d.Conversation = v.key
		if c.homeAlive(v) {
			d.Home = int(v.home)
			if c.replicas[v.home].inFlight == 0 && c.eligible(t, int(v.home)) {
				to = int(v.home)
			}
		}
	}
	if to == none {
		to = c.placeFree(t, d)
	}
	c.decide(ti, d, ClassSide, to)
}

// leader returns the conversation that a side call or a subagent belongs to: its
// parent, for a side call the one that it names itself, or the one that speaks for its
// group. None when nobody does.
func (c *Core) leader(t *ticket) int32 {
	if i := c.table.find(t.parent); i != none {
		return i
	}
	if i := c.table.find(t.key); i != none && t.kind == KindSide {
		return i
	}
	if i := c.table.find(t.group); i != none {
		return i
	}
	if i, ok := c.table.groups[t.group]; ok {
		return i
	}
	return none
}

// decide fills the decision for a ticket that goes to replica to, and reserves its
// place there in the same step.
func (c *Core) decide(ti int32, d *Decision, class Class, to int) {
	t := c.tickets.at(ti)
	d.Replica, d.Class, d.Turn = to, class, t.turn
	d.Wait = time.Duration(t.wait)
	if t.conv != none {
		v := c.table.at(t.conv)
		d.Conversation, d.Home = v.key, int(v.home)
		if c.trial != nil && v.trial == c.trial.ID {
			d.Trial, d.Arm = v.trial, int(v.arm)
		}
		switch class {
		case ClassPlaced:
			d.Home = none
		case ClassRehomed:
			d.Home = int(v.oldHome)
			d.outgrown = c.outgrew(t, v)
		}
	}
	if d.Home != none && d.Home < len(c.replicas) {
		d.HomeInFlight = c.replicas[d.Home].inFlight
		d.Threshold = c.threshold(d.Home)
	}
	t.expected = c.expect(t, class, to)
	d.MissExpected = t.expected
	if t.conv != none && (class == ClassPlaced || class == ClassRehomed) && !c.isHome(t.conv, to) {
		c.setHome(t.conv, to)
	}
	t.inc = c.replicas[to].Incarnation
	t.sharedHeld = c.replicas[to].cache.holds(t.shared)
	t.uncached = max(0, t.tokens-c.shadow.cached(c, t.conv, t.shared, to))
	d.Uncached = int(t.uncached)
	c.reserve(t, to, class)
}

// elsewhere chooses the next replica for a ticket that others failed: its home if
// that has not been tried, else the least loaded one. None when nothing is left.
func (c *Core) elsewhere(t *ticket, d *Decision) int {
	if t.conv != none && t.class != ClassOff {
		if v := c.table.at(t.conv); c.homeServes(t) && !t.wasTried(v.home) {
			return int(v.home)
		}
	}
	c.weigh(t, d)
	if t.class == ClassOff {
		return c.fewest()
	}
	return c.lightest()
}

// rerouteClass returns the class of a request that moves on to another replica.
func (c *Core) rerouteClass(t *ticket, to int) Class {
	switch t.class {
	case ClassPlaced, ClassSticky, ClassSpilled, ClassRehomed:
	default:
		return t.class
	}
	if t.conv == none {
		return t.class
	}
	v := c.table.at(t.conv)
	switch {
	case v.home == int32(to):
		return ClassSticky
	case t.class == ClassSpilled && c.homeAlive(v):
		return ClassSpilled
	}
	homed := v.homed
	c.loseHome(t.conv)
	if homed {
		return ClassRehomed
	}
	return ClassPlaced
}
