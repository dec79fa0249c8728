package route

// seats is an intrusive list of admitted conversations.
type seats struct{ first, last int32 }

var noSeats = seats{first: none, last: none}

// append puts conversation i at the end.
func (s *seats) append(tb *table, i int32) {
	v := tb.at(i)
	v.seatPrev, v.seatNext = s.last, none
	if s.last != none {
		tb.at(s.last).seatNext = i
	} else {
		s.first = i
	}
	s.last = i
}

// insert puts conversation i where its last turn belongs in a list that is in order of
// these.
func (s *seats) insert(tb *table, i int32) {
	v, before := tb.at(i), s.last
	for before != none && tb.at(before).lastActive > v.lastActive {
		before = tb.at(before).seatPrev
	}
	if before == s.last {
		s.append(tb, i)
		return
	}
	next := s.first
	if before != none {
		next = tb.at(before).seatNext
		tb.at(before).seatNext = i
	} else {
		s.first = i
	}
	v.seatPrev, v.seatNext = before, next
	tb.at(next).seatPrev = i
}

func (s *seats) remove(tb *table, i int32) {
	v := tb.at(i)
	if v.seatPrev != none {
		tb.at(v.seatPrev).seatNext = v.seatNext
	} else {
		s.first = v.seatNext
	}
	if v.seatNext != none {
		tb.at(v.seatNext).seatPrev = v.seatPrev
	} else {
		s.last = v.seatPrev
	}
}

// seatsOf returns the list that an admitted conversation is in.
func (c *Core) seatsOf(v *conv) *seats {
	if v.through > 0 {
		return &c.replicas[v.home].busy
	}
	return &c.replicas[v.home].idle
}

// seat admits conversation i to its home, where it takes so many tokens.
func (c *Core) seat(i int32, tokens int64) {
	v := c.table.at(i)
	v.size = tokens
	v.admitted, v.lost, v.yield = true, lossNone, false
	v.admittedAt = c.at
	c.replicas[v.home].places.add(&c.shadow.shared, v.size, v.shared)
	if s := c.seatsOf(v); v.through > 0 {
		s.append(&c.table, i)
	} else {
		s.insert(&c.table, i)
	}
}

// resize refreshes what an admitted conversation takes of the budget.
func (c *Core) resize(i int32, t *ticket) {
	v := c.table.at(i)
	p := &c.replicas[v.home].places
	p.remove(&c.shadow.shared, v.size, v.shared)
	v.size = c.budget(t)
	p.add(&c.shadow.shared, v.size, v.shared)
}

// loss says why a conversation has no place any more. A loss against its will counts in
// its favour at the door.
type loss uint8

const (
	lossNone    loss = iota // it was given up: idle for longer than that pays
	lossWaited              // to one that had waited longer
	lossRelief              // to those that have grown beside it
	lossReplica             // with its replica, which is gone, failed or lost its cache
)

// expel takes the place of conversation i away, if it has one.
func (c *Core) expel(i int32, lost loss) {
	v := c.table.at(i)
	if !v.admitted {
		return
	}
	c.seatsOf(v).remove(&c.table, i)
	c.replicas[v.home].places.remove(&c.shadow.shared, v.size, v.shared)
	v.admitted, v.yield = false, false
	if lost != lossNone {
		v.lost = lost
	}
}

// pass counts a ticket as past the door.
func (c *Core) pass(t *ticket) {
	if t.through || t.conv == none {
		return
	}
	t.through = true
	v := c.table.at(t.conv)
	c.noteReturn(t, v)
	if v.admitted && v.through == 0 {
		c.replicas[v.home].idle.remove(&c.table, t.conv)
		c.replicas[v.home].busy.append(&c.table, t.conv)
	}
	v.through++
}

// noteReturn learns from a request that is let through what it says of its conversation.
// One that is refused, or whose client gives up before, says nothing: it may be repeated.
func (c *Core) noteReturn(t *ticket, v *conv) {
	switch {
	case t.gap >= 0:
		c.learned.rhythm.gap(c.at, t.gap, v.ended)
	case v.ended:
		c.learned.rhythm.takeBackEnd()
	}
	t.gap, v.ended = none, false
	if t.shared != none {
		v.beginning = uint32(c.shadow.shared.slots[t.shared].hash)
	}
}

// back counts a ticket that ended, or goes back to the door, out again. With the last
// one the conversation is idle, and gives its place up if it is to yield.
func (c *Core) back(t *ticket) {
	if !t.through || t.conv == none {
		return
	}
	t.through = false
	v := c.table.at(t.conv)
	v.through--
	if v.through > 0 {
		return
	}
	v.lastActive = c.at
	if !v.admitted {
		return
	}
	c.replicas[v.home].busy.remove(&c.table, t.conv)
	c.replicas[v.home].idle.append(&c.table, t.conv)
	if v.yield {
		c.expel(t.conv, lossWaited)
	}
}

// budget returns what the conversation of a ticket takes of a budget: its own context
// and the answer to come.
func (c *Core) budget(t *ticket) int64 {
	own := c.shadow.shared.own(t.tokens, c.table.at(t.conv).shared)
	return own + int64(min(c.learned.output.value, maxAnswer))
}
