package route

import "time"

// guessTurn is how long a turn takes, in seconds, until the first one has ended.
const guessTurn = 10.0

// noteGiven learns from a ticket that is let in how often places come free. A conversation
// keeps its place for several turns, so that turns say nothing of it.
func (c *Core) noteGiven(t *ticket) {
	if c.at == t.arrived {
		return // there was room
	}
	c.learned.places.add(c.at, 1, seconds(c.at-c.door.since))
	c.door.since = c.at
}

// Queue returns how many requests wait, and how long they will take to be let in, for one
// who is told to come back later: at the pace at which places were given while others
// waited. Who waits for a long prompt or a replica waits at the pace at which turns end.
func (c *Core) Queue() (held int, takes time.Duration) {
	turn := guessTurn
	if c.learned.service.known() {
		turn = c.learned.service.value
	}
	turn /= float64(max(1, c.inFlight))
	wait := turn * float64(c.held()-c.door.waiting)
	if c.door.waiting > 0 {
		wait += c.placeTime(turn) * float64(c.door.waiting)
	}
	return c.held(), time.Duration(wait * float64(time.Second))
}

// placeTime returns the seconds until a place comes free: the mean over the last that were
// given, a guess that counts as one of them, and the time since.
func (c *Core) placeTime(guess float64) float64 {
	given, took := 1.0, guess+seconds(c.at-c.door.since)
	if p := &c.learned.places; p.known() {
		n := float64(min(p.samples, paceSamples))
		given, took = given+n, took+n/p.value
	}
	return took / given
}
