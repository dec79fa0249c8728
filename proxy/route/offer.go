package route

// takes tells whether replica i has room for the conversation of a ticket: its
// context and the growth of all within the capacity, or nobody there at all.
func (c *Core) takes(t *ticket, i int) bool {
	return c.missing(t, i) <= 0 || c.replicas[i].places.count == 0
}

// missing returns the tokens that replica i lacks to let a ticket's conversation in.
func (c *Core) missing(t *ticket, i int) int64 {
	p := &c.replicas[i].places
	add := c.budget(t)
	if t.shared != none && !p.holds(t.shared) {
		add += c.shadow.shared.size(t.shared)
	}
	return p.total() + add + c.door.growth*int64(p.count+1) - c.replicas[i].Capacity
}

// placeAtDoor returns the replica with room that a ticket should go to, or none: a new
// conversation joins its kin, all others go where that costs least, or wait for their home.
func (c *Core) placeAtDoor(t *ticket) int {
	if v := c.table.at(t.conv); c.door.keep == 0 && c.at < t.patience && c.homeAlive(v) && c.holds(t, int(v.home)) {
		ok := c.offers(t, int(v.home), c.budget(t))
		if ok {
			_, ok = c.clearing(t, int(v.home))
		}
		if !ok {
			c.await(t, v.home)
			return none
		}
	}
	cheapest := c.weighAtDoor(t)
	if cheapest == none {
		return none
	}
	if !t.first {
		if c.waitsForHome(t, cheapest) {
			c.await(t, c.table.at(t.conv).home)
			return none
		}
		return cheapest
	}
	var d Decision
	to := c.placeByKin(t, &d)
	if to == none || d.note == noteParent && c.replicas[to].prefill+c.replicas[to].gated > int64(c.chunk(to)) {
		return cheapest // a parent's prompt is another one, so a wait for a long prefill there gains nothing
	}
	return to
}

// waitsForHome tells whether a ticket should wait for room at its home rather than go to
// replica to, where places last one turn and so home has room soon. Home still holds its
// context and to does not. Reading it there delays the request and all that are in flight
// there, and pushes as much out of a full cache, which its owners read again if they come
// back. It waits for at most as long as that takes, counted from its arrival: whoever rents
// until the rent equals the price never pays more than twice of what was best. Nor does it
// wait longer than filling a cache takes: from then on nobody may pass it.
func (c *Core) waitsForHome(t *ticket, to int) bool {
	home := int(c.table.at(t.conv).home)
	if c.door.keep > 0 || home == to || !c.homeServes(t) || t.wasTried(int32(home)) {
		return false
	}
	more := c.shadow.cached(c, t.conv, t.shared, home) - c.shadow.cached(c, t.conv, t.shared, to)
	if more <= int64(c.chunk(to)) || c.terms[home].Eligible {
		return false // read in a step; or home has room, and costs more all the same
	}
	again := 1 + c.learned.rhythm.returns(0)
	price := int64(again * float64(more) * float64(1+c.replicas[to].inFlight) / c.door.prefill * 1e9)
	t.patience = t.arrived + min(price, c.door.fill)
	return c.at < t.patience
}

// await notes the home that a ticket waits for though there is room elsewhere, or none.
func (c *Core) await(t *ticket, home int32) {
	if t.awaits != none {
		c.replicas[t.awaits].awaited--
		c.door.choosy--
	}
	if t.awaits = home; home != none {
		c.replicas[home].awaited++
		c.door.choosy++
	}
}

// weighAtDoor fills the terms of all replicas for a ticket and returns the one with room
// that costs least, or none. The score is in seconds: until the first byte; what those have
// to read again, if they come back, whose places it takes; and, for a context that is read
// again and need not have been, as long for each request in flight that waits meanwhile.
func (c *Core) weighAtDoor(t *ticket) int {
	best := none
	for i := range c.terms[:c.present] {
		r := &c.replicas[i]
		m := &c.terms[i]
		*m = Term{Replica: int32(i), InFlight: int32(r.inFlight), Live: int32(r.working.count), Fill: -1, Price: -1}
		if r.Capacity > 0 {
			m.Fill = float64(r.places.total()) / float64(r.Capacity)
		}
		lost := 0.0
		if c.eligible(t, i) {
			lost, m.Eligible = c.clearing(t, i)
		}
		uncached := max(0, t.tokens-c.shadow.cached(c, t.conv, t.shared, i))
		tokens := float64(r.prefill+r.gated+uncached) + lost
		if !t.first {
			tokens += float64(uncached) * float64(r.inFlight)
		}
		m.Score = tokens/c.door.prefill + secondsFlight*float64(r.inFlight) + secondsFull*m.Fill
		if !m.Eligible {
			continue
		}
		if best == none || m.Score < c.terms[best].Score || m.Score == c.terms[best].Score && c.lighter(i, best) {
			best = i
		}
	}
	return best
}

// clearing tells whether replica i has room for a ticket once spent conversations have
// given up their places, longest idle first, and how many tokens these will have to read
// again as far as they come back.
func (c *Core) clearing(t *ticket, i int) (lost float64, ok bool) {
	r := &c.replicas[i]
	need, left := c.missing(t, i), r.places.count
	if need > 0 {
		clear(c.door.space.gone)
	}
	for k := r.idle.first; need > 0 && left > 0; left-- {
		if k == none || !c.spent(c.table.at(k)) {
			return 0, false
		}
		v := c.table.at(k)
		need -= c.gains(&r.places, v, t.shared)
		lost += float64(v.size) * c.learned.rhythm.returns(c.at-v.lastActive)
		k = v.seatNext
	}
	return lost, true
}

// freeEnded takes the places of conversations that nobody expects back: they must not
// push a newcomer to a replica that is busier than they look.
func (c *Core) freeEnded() {
	for i := range c.replicas[:c.present] {
		r := &c.replicas[i]
		for r.idle.first != none {
			v := c.table.at(r.idle.first)
			if !c.spent(v) || c.learned.rhythm.returns(c.at-v.lastActive) > 0 {
				break
			}
			c.expel(r.idle.first, lossNone)
		}
	}
}

// clear takes the places of spent conversations on replica i until a ticket fits there:
// only of as many as it takes, for who has a place when he comes back finds his cache.
func (c *Core) clear(t *ticket, i int) {
	r := &c.replicas[i]
	for r.idle.first != none && !c.takes(t, i) && c.spent(c.table.at(r.idle.first)) {
		c.expel(r.idle.first, lossNone)
	}
}

// leastFull returns the usable replica whose budget is used least, for a request that
// has waited as long as any may. Replicas that failed it come last.
func (c *Core) leastFull(t *ticket) int {
	best, low, tried := none, 0.0, false
	for i := range c.replicas[:c.present] {
		r := &c.replicas[i]
		if !r.usable() || !c.holds(t, i) || c.shuns(t, i) {
			continue
		}
		failed := t.wasTried(int32(i))
		full := float64(r.places.total()) / float64(r.Capacity)
		if best == none || tried && !failed || tried == failed && full < low {
			best, low, tried = i, full, failed
		}
	}
	return best
}
