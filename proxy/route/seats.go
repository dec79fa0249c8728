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
	v.admitted, v.lost, v.yield = true, false, false
	v.admittedAt = c.at
	c.replicas[v.home].places.add(&c.shadow.shared, v.size, v.shared)
	c.seatsOf(v).append(&c.table, i)
}

// resize refreshes what an admitted conversation takes of the budget.
func (c *Core) resize(i int32, t *ticket) {
	v := c.table.at(i)
	p := &c.replicas[v.home].places
	p.remove(&c.shadow.shared, v.size, v.shared)
	v.size = c.budget(t)
	p.add(&c.shadow.shared, v.size, v.shared)
}

// expel takes the place of conversation i away, if it has one. Lost says that this is
// against its will, which counts in its favour at the door.
func (c *Core) expel(i int32, lost bool) {
	v := c.table.at(i)
	if !v.admitted {
		return
	}
	c.seatsOf(v).remove(&c.table, i)
	c.replicas[v.home].places.remove(&c.shadow.shared, v.size, v.shared)
	v.admitted, v.yield = false, false
	v.lost = v.lost || lost
}

// pass counts a ticket as past the door.
func (c *Core) pass(t *ticket) {
	if t.through || t.conv == none {
		return
	}
	t.through = true
	v := c.table.at(t.conv)
	if v.admitted && v.through == 0 {
		c.replicas[v.home].idle.remove(&c.table, t.conv)
		c.replicas[v.home].busy.append(&c.table, t.conv)
	}
	v.through++
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
		c.expel(t.conv, true)
	}
}

// budget returns what the conversation of a ticket takes of a budget: its own context
// and the answer to come.
func (c *Core) budget(t *ticket) int64 {
	own := c.shadow.shared.own(t.tokens, c.table.at(t.conv).shared)
	return own + int64(min(c.learned.output.value, maxAnswer))
}
