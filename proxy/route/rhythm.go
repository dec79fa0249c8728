package route

import (
	"slices"
	"time"
)

// Bounds of what is kept of the clients' rhythm.
const (
	rhythmGaps    = 200 // gaps between turns
	rhythmEnough  = 20  // gaps from which on the rhythm is known
	rhythmRefresh = int64(time.Second)
)

// keepGain is the share of the cost of keeping no place below which keeping one is worth
// it. Near the break-even the last gaps decide by chance, and a door that changes its
// mind serves worse than either answer.
const keepGain = 0.85

// rhythm is how clients come back: the gaps between the end of a turn and the next
// one of the same conversation, and the ends, conversations that did not come back.
type rhythm struct {
	gaps  [rhythmGaps]int64
	ends  [rhythmGaps]int32 // seen before the gap in the same place
	count int               // gaps kept
	next  int
	since int32 // ends since the last gap
	at    int64 // moment of the last gap

	// The last answer of keep, good for rhythmRefresh.
	kept   int64
	keptAt int64
	keptOK bool
	sorted [rhythmGaps]int64

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

// keep returns how long an idle conversation keeps its place while others wait, when
// losing a cache costs so much: the time, 0 or one of the gaps within the cost, that
// is cheapest over the gaps and ends seen. A place that is kept costs its idle time; a
// place that is given up before the conversation returns costs the time that it was
// kept in vain and the cache. Keeping must be clearly cheaper than not keeping at all.
// Before the rhythm is known it is the cost itself.
func (r *rhythm) keep(at, cost int64) int64 {
	if r.count < rhythmEnough {
		return cost
	}
	if r.keptOK && at-r.keptAt < rhythmRefresh {
		return r.kept
	}
	sorted := r.sorted[:copy(r.sorted[:], r.gaps[:r.count])]
	slices.Sort(sorted)
	ends := float64(r.endsSeen())
	best := int64(0)
	low := keepGain * float64(len(sorted)) * float64(cost) // T = 0: every gap costs a cache
	sum := 0.0
	for k, g := range sorted {
		if g > cost {
			break
		}
		sum += float64(g)
		if k+1 < len(sorted) && sorted[k+1] == g {
			continue
		}
		late := float64(len(sorted) - k - 1)
		if total := sum + late*float64(g+cost) + ends*float64(g); total < low {
			best, low = g, total
		}
	}
	r.kept, r.keptAt, r.keptOK = best, at, true
	return best
}
