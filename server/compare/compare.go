// Package compare judges two settings from the conversations that were assigned to
// them at random. It gets finished turns and answers with figures of both arms, the
// differences with confidence intervals, and a verdict in words.
//
// Turns of one conversation are not independent of each other, so that whole
// conversations are resampled: the intervals are those of a percentile bootstrap over
// conversations, 95 % wide. The chance that a difference is noise is the two-sided
// bootstrap one: twice the share of resamples in which the difference has the other
// sign or none.
package compare

import (
	"slices"
	"sync"
	"time"
)

// Bounds of what a comparison keeps of each arm; what comes later is not counted.
const (
	MaxConversations = 2000
	MaxTurns         = 40_000
)

// Turn is one finished turn of a conversation that takes part.
type Turn struct {
	Arm          int // 0 or 1
	Conversation [16]byte
	First        bool // first turn of its conversation
	Arrived      time.Time
	Duration     time.Duration // from arrival to the end
	FirstToken   time.Duration // from arrival; 0 when none came
	Prompt       int           // tokens; negative when not reported
	Cached       int           // of these from a cache; negative when not reported
	Completion   int           // tokens; negative when not reported
}

// Comparison collects the turns of one comparison. It is safe for concurrent use.
type Comparison struct {
	mu   sync.Mutex // guards arms
	arms [2]arm
}

// New returns a comparison without turns.
func New() *Comparison {
	c := &Comparison{}
	for i := range c.arms {
		c.arms[i].byKey = make(map[[16]byte]int)
	}
	return c
}

// arm is what one setting has done.
type arm struct {
	talks  []talk
	byKey  map[[16]byte]int
	turns  int
	failed int // turns without a first token
	full   bool
}

// talk is one conversation.
type talk struct {
	begin, end time.Time
	turns      int
	first      float64   // seconds to the first token of the first turn; 0 when not seen
	later      []float64 // and of the others
	prompt     int
	cached     int
	completion int
}

// Add takes a finished turn. A turn whose conversation is not known and that is not its
// first is left out.
func (c *Comparison) Add(t Turn) {
	if t.Arm < 0 || t.Arm >= len(c.arms) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &c.arms[t.Arm]
	i, known := a.byKey[t.Conversation]
	switch {
	case a.turns >= MaxTurns || !known && len(a.talks) >= MaxConversations:
		a.full = true
		return
	case !known && !t.First:
		return
	case !known:
		i = len(a.talks)
		a.byKey[t.Conversation] = i
		a.talks = append(a.talks, talk{begin: t.Arrived})
	}
	a.turns++
	if t.FirstToken <= 0 {
		a.failed++
	}
	a.talks[i].add(t)
}

func (k *talk) add(t Turn) {
	if t.Arrived.Before(k.begin) {
		k.begin = t.Arrived
	}
	if end := t.Arrived.Add(t.Duration); end.After(k.end) {
		k.end = end
	}
	k.turns++
	if seconds := t.FirstToken.Seconds(); seconds > 0 {
		if t.First {
			k.first = seconds
		} else {
			k.later = append(k.later, seconds)
		}
	}
	if t.Prompt > 0 {
		k.prompt += t.Prompt
		k.cached += min(max(t.Cached, 0), t.Prompt)
	}
	k.completion += max(t.Completion, 0)
}

// copies returns the arms as they are now, to be read without the mutex: who adds turns
// must not wait for a report. What the copied talks refer to only grows.
func (c *Comparison) copies() [2]arm {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.arms
	for i := range out {
		out[i].talks = slices.Clone(out[i].talks)
	}
	return out
}

// Full says whether an arm has reached a bound.
func (c *Comparison) Full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.arms[0].full || c.arms[1].full
}
