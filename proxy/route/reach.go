package route

import "math"

// Replicas of a model may differ in size: remote ones, or cards of different memory. A
// prompt that one cannot hold gets an error from its engine, however empty it is.

// doubt is the part of a guessed number of tokens by which it may be too low. A guess that
// is too high only prefers a larger replica; one that is too low is an error to the client.
const doubt = 16

// count counts the replicas that may get new requests, and finds how long these may be.
func (c *Core) count() {
	c.usable, c.most, c.least = 0, 0, math.MaxInt64
	for i := range c.replicas[:c.present] {
		r := &c.replicas[i]
		r.reach = math.MaxInt64
		for _, n := range [...]int64{r.Capacity, r.MaxModelLen} {
			if n > 0 {
				r.reach = min(r.reach, n)
			}
		}
		if r.usable() {
			c.usable++
			c.most, c.least = max(c.most, r.reach), min(c.least, r.reach)
		}
	}
}

// demand returns the tokens that a replica must hold to answer a ticket: its prompt and one
// of the answer, with some doubt about what was not measured with the turn before, which
// was one of v unless that is nil.
func demand(t *ticket, v *conv) int64 {
	measured := int64(0)
	if v != nil && t.bytes >= v.lastBytes {
		measured = min(v.prompt, t.tokens)
	}
	n := t.tokens + (t.tokens-measured)/doubt + 1
	if v != nil && v.prompt > 0 && t.bytes < v.lastBytes {
		n = min(n, v.prompt+1) // there is less of it than was measured
	}
	return n
}

// holds tells whether replica i, which is usable, can hold the prompt of a ticket. Where no
// usable one can, those that hold the most may say so.
func (c *Core) holds(t *ticket, i int) bool {
	return t.needs <= c.least || c.replicas[i].reach >= min(t.needs, c.most)
}

// fitsAll tells whether each usable replica can hold the prompt of a ticket.
func (c *Core) fitsAll(t *ticket) bool { return t.needs <= c.least || c.most <= c.least }

// homeServes tells whether the home of a ticket's conversation can serve this turn of it.
func (c *Core) homeServes(t *ticket) bool {
	v := c.table.at(t.conv)
	return c.homeAlive(v) && c.holds(t, int(v.home))
}

// outgrew tells whether a conversation was given a new home because its old one, which
// could serve it still, does not hold the prompt of this ticket.
func (c *Core) outgrew(t *ticket, v *conv) bool {
	old := int(v.oldHome)
	return old != none && old < c.present && !v.restarted && c.replicas[old].usable() && !c.holds(t, old)
}
