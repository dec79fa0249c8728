package route

import (
	"slices"
	"time"
)

// Bounds of linger.
const (
	lingerLeast     = int64(5 * time.Second)
	lingerMost      = int64(5 * time.Minute)
	lingerUnknown   = int64(time.Minute) // before the rhythm is known
	expectedUnknown = int64(time.Second) // the same for placement
	lingerGaps      = 2                  // times the 95th percentile of the gaps
)

// The working set of a replica is what its cache must hold now: the conversations at
// home there that have a request past the door, and those that are idle for no longer
// than their client needs to come back. It is not the set of live conversations: a
// client that has finished its task stays live for five minutes, and neither whether a
// cache fits nor where the next conversation goes must be judged by who has left. With
// working-set admission an idle conversation without a place is no part of it either,
// because nobody keeps its cache.

// linger returns how long a conversation counts as coming back: twice the 95th
// percentile of the last gaps between turns, within 5 s and 5 min. The percentile and
// not the mean, because of clients that sometimes run a test suite; twice, because the
// next gap may be a longer one. Before 20 gaps were seen it is a minute.
func (r *rhythm) linger() int64 {
	if r.count < rhythmEnough {
		return lingerUnknown
	}
	return min(max(lingerGaps*r.quantile(0.95), lingerLeast), lingerMost)
}

// expected returns how long an idle conversation weighs in placement: as long as linger
// says, found anew once a second, because placement asks at each request. Before the
// rhythm is known it is the second that a quick client needs: what clients have not been
// seen to do is not counted on, and what those who had a turn hold of the caches is in
// the score anyway.
func (c *Core) expected() int64 {
	r := &c.learned.rhythm
	if r.count < rhythmEnough {
		return expectedUnknown
	}
	if !r.lingerOK || c.at-r.lingerAt >= rhythmRefresh {
		r.lingerFor, r.lingerAt, r.lingerOK = r.linger(), c.at, true
	}
	return r.lingerFor
}

// quantile returns the gap that so large a share of the gaps does not exceed; 0
// without any.
func (r *rhythm) quantile(share float64) int64 {
	if r.count == 0 {
		return 0
	}
	var buffer [rhythmGaps]int64 // its own: returns reads what keep has sorted
	sorted := buffer[:copy(buffer[:], r.gaps[:r.count])]
	slices.Sort(sorted)
	return sorted[min(int(share*float64(r.count)), r.count-1)]
}

// works tells whether a conversation is of the working set of its home.
func (c *Core) works(v *conv, linger int64) bool {
	switch {
	case v.home == none, v.forgotten:
		return false
	case v.through > 0:
		return true
	case v.open > 0: // it waits at the door
		return v.admitted
	}
	return c.at-v.lastActive <= linger && (v.admitted || !c.door.open)
}

// working returns what a conversation takes of the cache of its home, without the
// shared prompt: its context as measured or, in a turn that is longer, as expected.
func (c *Core) working(v *conv) int64 {
	tokens := v.context
	if v.open > 0 {
		tokens = max(tokens, v.asked)
	}
	return c.shadow.shared.own(tokens, v.shared)
}

// viewWorking fills what a view says about the working set.
func (c *Core) viewWorking(v *View) {
	linger := c.learned.rhythm.linger()
	sums := make([]ledger, len(v.Replicas))
	for i := range sums {
		sums[i].refs = make([]int32, len(c.shadow.shared.slots))
	}
	add := func(cv *conv) {
		if int(cv.home) < len(sums) && c.works(cv, linger) {
			sums[cv.home].add(&c.shadow.shared, c.working(cv), cv.shared)
		}
	}
	for i := c.table.lists[listBusy].head; i != none; i = c.table.at(i).next {
		add(c.table.at(i))
	}
	for l := listWarm; l < listIdle; l++ {
		for i := c.table.lists[l].head; i != none; i = c.table.at(i).next {
			if c.at-c.table.at(i).lastActive > linger {
				break // the list is in order of the last turn
			}
			add(c.table.at(i))
		}
	}
	for i := range sums {
		v.Replicas[i].Active, v.Replicas[i].ActiveTokens = sums[i].count, sums[i].total()
		v.Active += sums[i].count
	}
}
