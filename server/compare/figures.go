package compare

import (
	"math"
	"slices"
	"time"
)

// Kind names a figure.
type Kind int

// The figures, in the order of a report.
const (
	FirstTokenMean  Kind = iota // seconds to the first token, mean over all turns
	FirstTurnMean               // of first turns
	FirstTurnP50                //
	FirstTurnP95                //
	LaterTurnMean               // of later turns
	LaterTurnP50                //
	LaterTurnP95                //
	SessionMean                 // seconds of a conversation that has ended, gaps included
	SessionP50                  //
	SessionP95                  //
	HitShare                    // prompt tokens from a cache over prompt tokens, 0 to 1
	OutputPerMinute             // completion tokens per minute of a conversation that has ended
	NumKinds                    // number of figures
)

// HigherIsBetter says in which direction a figure is good.
func (k Kind) HigherIsBetter() bool { return k == HitShare || k == OutputPerMinute }

// value is one observation of a figure that is a mean or a quantile.
type value struct {
	x    float64
	talk int // index of the conversation it is of
}

// sample is one arm made ready for resampling.
type sample struct {
	talks []talk
	// values of each figure, sorted; empty for those that are quotients of sums.
	values [NumKinds][]value
	ended  []bool // by conversation
}

// prepare sorts what the figures of an arm are made of. A conversation has ended when it
// has been idle for quiet.
func prepare(talks []talk, now time.Time, quiet time.Duration) *sample {
	s := &sample{talks: talks, ended: make([]bool, len(talks))}
	put := func(i int, x float64, kinds ...Kind) {
		for _, k := range kinds {
			s.values[k] = append(s.values[k], value{x, i})
		}
	}
	for i := range s.talks {
		k := &s.talks[i]
		if k.first > 0 {
			put(i, k.first, FirstTokenMean, FirstTurnMean, FirstTurnP50, FirstTurnP95)
		}
		for _, x := range k.later {
			put(i, x, FirstTokenMean, LaterTurnMean, LaterTurnP50, LaterTurnP95)
		}
		if s.ended[i] = k.turns > 1 && now.Sub(k.end) > quiet; s.ended[i] {
			put(i, k.end.Sub(k.begin).Seconds(), SessionMean, SessionP50, SessionP95)
		}
	}
	for k := range s.values {
		slices.SortFunc(s.values[k], func(a, b value) int {
			switch {
			case a.x < b.x:
				return -1
			case a.x > b.x:
				return 1
			}
			return 0
		})
	}
	return s
}

// figure returns a figure of the arm when conversation i counts weights[i] times; NaN
// when nothing of it was observed.
func (s *sample) figure(k Kind, weights []int) float64 {
	switch k {
	case HitShare:
		return s.quotient(weights, false, func(t *talk) (float64, float64) { return float64(t.cached), float64(t.prompt) })
	case OutputPerMinute:
		return s.quotient(weights, true, func(t *talk) (float64, float64) {
			return float64(t.completion), t.end.Sub(t.begin).Minutes()
		})
	case FirstTurnP50, LaterTurnP50, SessionP50:
		return quantile(s.values[k], weights, 0.5)
	case FirstTurnP95, LaterTurnP95, SessionP95:
		return quantile(s.values[k], weights, 0.95)
	}
	return mean(s.values[k], weights)
}

func (s *sample) quotient(weights []int, endedOnly bool, of func(*talk) (float64, float64)) float64 {
	top, bottom := 0.0, 0.0
	for i, w := range weights {
		if w == 0 || endedOnly && !s.ended[i] {
			continue
		}
		x, y := of(&s.talks[i])
		top += float64(w) * x
		bottom += float64(w) * y
	}
	if bottom == 0 {
		return math.NaN()
	}
	return top / bottom
}

func mean(vs []value, weights []int) float64 {
	sum, n := 0.0, 0
	for _, v := range vs {
		w := weights[v.talk]
		sum += float64(w) * v.x
		n += w
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// quantile returns the smallest value that so large a share does not exceed; the values
// are sorted.
func quantile(vs []value, weights []int, share float64) float64 {
	n := 0
	for _, v := range vs {
		n += weights[v.talk]
	}
	if n == 0 {
		return math.NaN()
	}
	rank := max(1, int(math.Ceil(share*float64(n))))
	for _, v := range vs {
		if rank -= weights[v.talk]; rank <= 0 {
			return v.x
		}
	}
	return math.NaN()
}

// leastConversations is how many conversations of each arm must have had a figure before
// an interval of it is given: resamples of a few are alike whatever the truth is. A 95th
// percentile of fewer than its number is the largest value seen, and says less still.
func (k Kind) leastConversations() int {
	switch k {
	case FirstTurnP95, LaterTurnP95, SessionP95:
		return 2 * enough
	}
	return enough
}

// conversations returns how many conversations of the arm have had a figure.
func (s *sample) conversations(k Kind) int {
	n := 0
	switch k {
	case HitShare:
		for i := range s.talks {
			if s.talks[i].prompt > 0 {
				n++
			}
		}
		return n
	case OutputPerMinute:
		k = SessionMean
	}
	seen := make([]bool, len(s.talks))
	for _, v := range s.values[k] {
		if !seen[v.talk] {
			seen[v.talk] = true
			n++
		}
	}
	return n
}

// observations returns how many observations of a figure the arm has: turns,
// conversations that have ended, or conversations.
func (s *sample) observations(k Kind) int {
	switch k {
	case HitShare:
		return len(s.talks)
	case OutputPerMinute:
		k = SessionMean
	}
	return len(s.values[k])
}
