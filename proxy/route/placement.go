package route

import "encoding/binary"

// Weights of the placement score: requests in flight count 1, a full cache as much
// as 8 of them, a live conversation as much as one.
const (
	weightFill = 8.0
	weightLive = 1.0
)

// convInFlight is how many requests one conversation may have in flight on its home
// before more of them are sent elsewhere: one id that covers many chains, or
// everybody, must not queue on one replica.
const convInFlight = 8

// weigh fills the terms of all replicas for a ticket: score = in flight + 8 x
// resident/capacity + conversations at work. The middle term is left out for all when
// one capacity is unknown.
//
// The rule was first stated with every conversation that had a turn in the last five
// minutes as its last term. Clients that ask once and leave then weighed on their homes
// for five minutes: a replica that came back from a restart, the only one without such
// memories, was sent every new conversation while the others stood idle. A conversation
// counts here while it has a request, or is idle for no longer than clients have been
// seen to need, see expected. That is the same number wherever clients do come back.
func (c *Core) weigh(t *ticket, d *Decision) {
	terms := c.terms[:c.present]
	known := true
	for i := range terms {
		known = known && c.replicas[i].Capacity > 0
	}
	for i := range terms {
		r := &c.replicas[i]
		m := Term{
			Replica: int32(i), InFlight: int32(r.inFlight), Live: int32(r.working.count),
			Fill: -1, Price: -1, Eligible: c.eligible(t, i),
		}
		m.Score = float64(r.inFlight) + weightLive*float64(r.working.count)
		if known {
			m.Fill = min(1, float64(r.cache.total())/float64(r.Capacity))
			m.Score += weightFill * m.Fill
		}
		terms[i] = m
	}
	d.Terms = terms
}

// lighter orders replicas of equal weight: fewer conversations at work, then fewer
// recent failures, then least recently chosen.
func (c *Core) lighter(a, b int) bool {
	x, y := &c.replicas[a], &c.replicas[b]
	if x.working.count != y.working.count {
		return x.working.count < y.working.count
	}
	if f, g := x.recentFailures(c.at), y.recentFailures(c.at); f != g {
		return f < g
	}
	return x.chosen < y.chosen
}

// lightest returns the eligible replica with the lowest score, or none.
func (c *Core) lightest() int {
	best := none
	for i := range c.terms[:c.present] {
		m := &c.terms[i]
		if !m.Eligible {
			continue
		}
		if best == none || m.Score < c.terms[best].Score ||
			m.Score == c.terms[best].Score && c.lighter(i, best) {
			best = i
		}
	}
	return best
}

// fewest returns the eligible replica with the fewest requests in flight, or none.
func (c *Core) fewest() int {
	best := none
	for i := range c.terms[:c.present] {
		m := &c.terms[i]
		if !m.Eligible {
			continue
		}
		if best == none || m.InFlight < c.terms[best].InFlight ||
			m.InFlight == c.terms[best].InFlight && c.lighter(i, best) {
			best = i
		}
	}
	return best
}

// placeOff balances a request by least in flight alone.
func (c *Core) placeOff(t *ticket, d *Decision) int {
	c.weigh(t, d)
	return c.fewest()
}

// placeFree balances a request that belongs to no conversation. The hash policy has
// no key to hash then, so it balances too: a missing key must not be a constant.
func (c *Core) placeFree(t *ticket, d *Decision) int {
	c.weigh(t, d)
	switch c.now.Policy {
	case PolicyRoundRobin:
		return c.nextInTurn()
	case PolicyRandom:
		return c.anyOne()
	default:
		return c.lightest()
	}
}

// place chooses the home of a conversation that has none.
func (c *Core) place(t *ticket, d *Decision) int {
	if c.now.Policy != PolicyLeastLoaded && c.now.Policy != PolicyHash {
		return c.placeFree(t, d)
	}
	c.weigh(t, d)
	if c.now.Policy == PolicyHash {
		return c.rendezvous(hashOf(t))
	}
	if to := c.placeByKin(t, d); to != none {
		return to
	}
	return c.lightest()
}

// placeByKin chooses for a conversation that has company somewhere: its whole prompt is
// being read there, or it is a subagent. None when it has not, or there is no room. The
// terms are filled.
func (c *Core) placeByKin(t *ticket, d *Decision) int {
	if to := int(t.twin); to != none && to < c.present && c.terms[to].Eligible && c.roomy(to) {
		d.note = noteTwin
		return to
	}
	d.note = noteNone
	if t.kind == KindAgent {
		return c.placeAgent(t, d)
	}
	return none
}

// placeAgent chooses for a subagent: the lightest replica with room that already
// holds the shared prefix, else its parent's home, if that has room. None when
// neither has.
func (c *Core) placeAgent(t *ticket, d *Decision) int {
	best := none
	for i := range c.terms[:c.present] {
		if !c.terms[i].Eligible || !c.replicas[i].cache.holds(t.shared) && !c.replicas[i].working.holds(t.shared) {
			continue
		}
		if !c.roomy(i) || !c.fits(i, t.tokens) {
			continue
		}
		if best == none || c.terms[i].Score < c.terms[best].Score ||
			c.terms[i].Score == c.terms[best].Score && c.lighter(i, best) {
			best = i
		}
	}
	if best != none {
		d.note = noteSiblings
		return best
	}
	i := c.leader(t)
	if i == none || i == t.conv {
		return none
	}
	v := c.table.at(i)
	if !c.homeAlive(v) || !c.terms[v.home].Eligible || !c.roomy(int(v.home)) {
		return none
	}
	d.note = noteParent
	return int(v.home)
}

// roomy tells whether replica i is below its spill threshold.
func (c *Core) roomy(i int) bool { return c.replicas[i].inFlight < c.threshold(i) }

// fits tells whether the working set of replica i and so many tokens more are
// within its capacity, as far as that is known.
func (c *Core) fits(i int, tokens int64) bool {
	r := &c.replicas[i]
	return r.Capacity <= 0 || r.working.total()+tokens <= r.Capacity
}

// hashOf returns the hash for the hash policy, never a constant.
func hashOf(t *ticket) uint64 {
	switch {
	case t.hashKey != 0:
		return t.hashKey
	case t.key != Key{}:
		return binary.LittleEndian.Uint64(t.key[:8])
	default:
		return t.chain
	}
}

// rendezvous returns the eligible replica with the highest hash of key and index.
func (c *Core) rendezvous(key uint64) int {
	best, top := none, uint64(0)
	for i := range c.terms[:c.present] {
		if !c.terms[i].Eligible {
			continue
		}
		if h := mix(key ^ mix(uint64(i)+1)); best == none || h > top {
			best, top = i, h
		}
	}
	return best
}

// nextInTurn returns the eligible replica after the last one chosen in turn.
func (c *Core) nextInTurn() int {
	for k := 1; k <= c.present; k++ {
		i := (c.robin + k) % c.present
		if c.terms[i].Eligible {
			c.robin = i
			return i
		}
	}
	return none
}

// anyOne returns an eligible replica at random.
func (c *Core) anyOne() int {
	n := 0
	best := none
	for i := range c.terms[:c.present] {
		if !c.terms[i].Eligible {
			continue
		}
		n++
		if c.rng.IntN(n) == 0 {
			best = i
		}
	}
	return best
}

// mix spreads the bits of x; it is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
