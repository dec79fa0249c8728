package route

import (
	"math"
	"slices"
	"time"
)

// Bounds of what is kept of the clients' rhythm.
const (
	rhythmGaps    = 200 // gaps between turns
	rhythmEnough  = 20  // gaps from which on the rhythm is known
	rhythmRefresh = int64(time.Second)
	rhythmSure    = 2 // standard errors by which keeping must be cheaper, about 95 %
)

// rhythm is how clients come back: the gaps between the end of a turn and the next
// one of the same conversation, and the ends, conversations that did not come back.
type rhythm struct {
	gaps  [rhythmGaps]int64
	ends  [rhythmGaps]int32 // seen before the gap in the same place
	count int               // gaps kept
	next  int
	since int32 // ends since the last gap
	at    int64 // moment of the last gap

	// The last answer of keep, good for rhythmRefresh, and what it was found from.
	kept     int64
	keptAt   int64
	keptOK   bool
	sorted   [rhythmGaps]int64
	sortedN  int // gaps in sorted
	keptEnds int

	// The last answer of linger for placement, good for as long.
	lingerFor int64
	lingerAt  int64
	lingerOK  bool
}

// gap records that a conversation came back after so long. Ended says that it had
// been counted as an end.
func (r *rhythm) gap(at, gap int64, ended bool) {
	r.at = at
	if ended {
		r.takeBackEnd()
	}
	r.gaps[r.next], r.ends[r.next] = gap, r.since
	r.since = 0
	r.next = (r.next + 1) % rhythmGaps
	r.count = min(r.count+1, rhythmGaps)
}

// end records that a conversation did not come back in time.
func (r *rhythm) end() { r.since++ }

// endsSeen returns the ends since the oldest gap that is kept.
func (r *rhythm) endsSeen() int {
	n := int(r.since)
	for _, e := range r.ends[:r.count] {
		n += int(e)
	}
	return n
}

// takeBackEnd removes the latest end that is still kept.
func (r *rhythm) takeBackEnd() {
	if r.since > 0 {
		r.since--
		return
	}
	for k := range r.count {
		if e := &r.ends[(r.next+rhythmGaps-1-k)%rhythmGaps]; *e > 0 {
			*e--
			return
		}
	}
}

// stakes is what a place and a cache are worth. All times are in place-nanoseconds: one
// place for one nanosecond.
type stakes struct {
	cache   int64   // what losing a cache costs
	turn    float64 // for how long a turn takes its place
	reserve float64 // by what share places are larger when they are kept, for the growth to come
}

// keep returns how long an idle conversation keeps its place while others wait: the
// time, 0 or one of the gaps within the cost of a cache, that is cheapest over the gaps
// and ends seen. A place that is kept costs its idle time, and its turns cost more, because
// it must leave room for growth; a place that is given up before the conversation returns
// costs the time that it was kept in vain and the cache. Keeping must be cheaper than
// keeping nothing by more than these gaps say by chance: near the break-even a door that
// changes its mind serves worse than either answer. Before the rhythm is known it is the
// cost of a cache.
func (r *rhythm) keep(at int64, s stakes) int64 {
	if r.count < rhythmEnough {
		return s.cache
	}
	if r.keptOK && at-r.keptAt < rhythmRefresh {
		return r.kept
	}
	r.sortedN = copy(r.sorted[:], r.gaps[:r.count])
	r.keptEnds = r.endsSeen()
	sorted := r.sorted[:r.sortedN]
	slices.Sort(sorted)
	n, ends := float64(len(sorted)), float64(r.keptEnds)
	none := n * float64(s.cache) // T = 0: every gap costs a cache
	best, low := int64(0), none
	sum := 0.0
	for k, g := range sorted {
		if g > s.cache {
			break
		}
		sum += float64(g)
		if k+1 < len(sorted) && sorted[k+1] == g {
			continue
		}
		late := float64(len(sorted) - k - 1)
		idle := sum + (late+ends)*float64(g)
		if total := idle + late*float64(s.cache) + s.reserve*(idle+n*s.turn); total < low {
			best, low = g, total
		}
	}
	if none-low <= rhythmSure*spread(sorted, best, s.cache) {
		best = 0
	}
	r.kept, r.keptAt, r.keptOK = best, at, true
	return best
}

// spread returns the standard error of the sum that the gaps cost when places are kept
// for so long.
func spread(gaps []int64, keep, cache int64) float64 {
	n, sum, squares := float64(len(gaps)), 0.0, 0.0
	for _, g := range gaps {
		x := float64(g)
		if g > keep {
			x = float64(keep + cache)
		}
		sum += x
		squares += x * x
	}
	return math.Sqrt(max(0, squares-sum*sum/n))
}

// returns gives the chance that a conversation comes back that has been idle for so long:
// the share of those that did among all that were idle for as long. It is 0 before the
// rhythm is known: what clients have not been seen to do is not counted on.
func (r *rhythm) returns(idle int64) float64 {
	sooner, _ := slices.BinarySearch(r.sorted[:r.sortedN], idle+1)
	if later := r.sortedN - sooner; later > 0 {
		return float64(later) / float64(later+r.keptEnds)
	}
	return 0
}
