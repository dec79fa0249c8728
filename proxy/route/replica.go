package route

import "time"

// none stands for "no index" in every table of the core.
const none = -1

// replica is the core's own state about one replica.
type replica struct {
	Replica       // what the caller said last
	reach   int64 // tokens of the longest request that it holds, as far as is known

	inFlight int
	counts   [NumClasses]uint64
	chosen   uint64 // Core.chosen when it was last chosen
	failures uint32 // attempts that failed here since the last first byte
	failedAt int64  // moment of the last of them

	live    ledger // live conversations at home here, with their contexts
	working ledger // of these, those that have a request or are expected back
	cache   ledger // what its prefix cache is believed to hold
	newest  int32  // most recently used node of its shadow, or none
	oldest  int32  // least recently used one, or none

	firstByte int64   // moment of its last first byte
	places    ledger  // admitted conversations: what their contexts take of the budget
	idle      seats   // of these, those without a request past the door, longest idle first
	busy      seats   // of these, the others
	gate      []int32 // tickets let in that wait for their turn to prefill
	gated     int64   // their tokens to compute
	awaited   int     // tickets in the queue that wait for this home though there is room elsewhere
	cold      int     // long prefills on their way to a first byte
	prefill   int64   // tokens dispatched to it that wait for their first byte
}

func newReplica() replica {
	return replica{newest: none, oldest: none, idle: noSeats, busy: noSeats}
}

// usable tells whether the replica may get new requests.
func (r *replica) usable() bool { return r.Ready && !r.Draining }

// eligible tells whether a request may be placed on replica i.
func (c *Core) eligible(t *ticket, i int) bool {
	return c.replicas[i].usable() && c.holds(t, i) && !t.wasTried(int32(i)) && !c.shuns(t, i)
}

// shuns tells whether a request keeps away from replica i: that one is to be avoided,
// is not its home, and another one can be had. A replica that is slow for a while must
// not lose the caches that it has, nor fill others' turns with its slowness.
func (c *Core) shuns(t *ticket, i int) bool {
	if !c.replicas[i].Avoid || t.conv != none && c.isHome(t.conv, i) {
		return false
	}
	for k := range c.replicas[:c.present] {
		if r := &c.replicas[k]; r.usable() && !r.Avoid && c.holds(t, k) && !t.wasTried(int32(k)) {
			return true
		}
	}
	return false
}

// failureMemory is how long failed attempts count against a replica on ties.
const failureMemory = int64(30 * time.Second)

// fail counts a failed attempt.
func (r *replica) fail(at int64) {
	r.failures = r.recentFailures(at) + 1
	r.failedAt = at
}

// recentFailures returns the failed attempts that still count: a replica that
// recovered must not be avoided for ever.
func (r *replica) recentFailures(at int64) uint32 {
	if at-r.failedAt > failureMemory {
		return 0
	}
	return r.failures
}

// autoThreshold is the spill threshold of a replica whose limit of sequences is not
// known: a quarter of 32.
const autoThreshold = 8

// threshold returns the spill threshold in force for replica i.
func (c *Core) threshold(i int) int {
	if c.now.SpillThreshold > 0 {
		return c.now.SpillThreshold
	}
	if i < 0 || i >= c.present || c.replicas[i].MaxNumSeqs <= 0 {
		return autoThreshold
	}
	return max(1, c.replicas[i].MaxNumSeqs/4)
}

// reserve takes a place on replica i for a ticket. It is the only place that raises
// the counts in flight.
func (c *Core) reserve(t *ticket, i int, class Class) {
	r := &c.replicas[i]
	t.replica, t.class, t.reserved, t.dispatched = int32(i), class, true, c.at
	r.inFlight++
	r.counts[class]++
	r.chosen = c.nextChoice()
	r.prefill += t.uncached
	if t.uncached > int64(c.chunk(i)) {
		t.cold = true
		r.cold++
	}
	c.counts[class]++
	c.inFlight++
	if t.conv != none {
		c.table.at(t.conv).inFlight++
	}
	c.pass(t)
}

// release gives the place of a ticket back. It is the only place that lowers the
// counts in flight.
func (c *Core) release(t *ticket) {
	if !t.reserved {
		return
	}
	t.reserved = false
	c.prefillDone(t)
	c.replicas[t.replica].inFlight--
	c.inFlight--
	if t.conv != none {
		c.table.at(t.conv).inFlight--
	}
	c.back(t)
}

// unreserve releases a place whose request moves on to another replica and takes its
// count back, so that a request is counted once.
func (c *Core) unreserve(t *ticket) {
	c.release(t)
	c.replicas[t.replica].counts[t.class]--
	c.counts[t.class]--
}

// prefillDone takes a ticket out of the tokens that wait for a first byte.
func (c *Core) prefillDone(t *ticket) {
	r := &c.replicas[t.replica]
	r.prefill -= t.uncached
	t.uncached = 0
	if t.cold {
		t.cold = false
		r.cold--
	}
}

func (c *Core) nextChoice() uint64 {
	c.chosen++
	return c.chosen
}
