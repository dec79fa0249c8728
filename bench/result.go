package bench

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Quantiles summarises times, in seconds; the figures are absent without samples.
type Quantiles struct {
	// Count is the number of samples.
	Count int `json:"count"`
	// Mean, median, 95th and 99th percentile.
	Mean *float64 `json:"mean,omitempty"`
	P50  *float64 `json:"p50,omitempty"`
	P95  *float64 `json:"p95,omitempty"`
	P99  *float64 `json:"p99,omitempty"`
}

// QuantilesOf summarises samples; it sorts them in place. A quantile is the nearest
// sample at or above it.
func QuantilesOf(samples []time.Duration) Quantiles {
	q := Quantiles{Count: len(samples)}
	if len(samples) == 0 {
		return q
	}
	slices.Sort(samples)
	var sum time.Duration
	for _, s := range samples {
		sum += s
	}
	at := func(p float64) *float64 {
		return seconds(samples[max(0, int(math.Ceil(p*float64(len(samples))))-1)])
	}
	q.Mean = seconds(sum / time.Duration(len(samples)))
	q.P50, q.P95, q.P99 = at(0.5), at(0.95), at(0.99)
	return q
}

func seconds(d time.Duration) *float64 {
	s := math.Round(d.Seconds()*1e4) / 1e4
	return &s
}

// ReplicaRow is what the load saw of one replica.
type ReplicaRow struct {
	// Index of the replica.
	Index int `json:"index"`
	// Requests that it answered.
	Requests int `json:"requests"`
	// Prompt tokens of those, and how many of them came from its cache.
	PromptTokens int `json:"promptTokens"`
	CachedTokens int `json:"cachedTokens"`
}

// Step is the result of one step of one arm. Absent figures were not reported by the
// endpoint or had no samples.
type Step struct {
	// Arm that was measured: "on".
	Arm string `json:"arm"`
	// Round in which it ran, from 1.
	Round int `json:"round,omitempty"`
	// Sessions at the same time.
	Sessions int `json:"sessions"`
	// Seconds that it lasted.
	Seconds float64 `json:"seconds"`
	// Partial is true when it was stopped before its end.
	Partial bool `json:"partial,omitempty"`
	// Requests that ended well, Errors that failed, those of the warm-up too, and Cut that
	// were running at the end.
	Requests int `json:"requests"`
	Errors   int `json:"errors"`
	Cut      int `json:"cut"`
	// FirstError is the sentence of the first failure, or empty.
	FirstError string `json:"firstError,omitempty"`
	// SessionsDone counts completed conversations; the rate is per hour.
	SessionsDone    int     `json:"sessionsDone"`
	SessionsPerHour float64 `json:"sessionsPerHour"`
	// OutputTokens of requests that ended well; the rate is per minute.
	OutputTokens          int     `json:"outputTokens"`
	OutputTokensPerMinute float64 `json:"outputTokensPerMinute"`
	// Prompt tokens asked for, and how many came from a cache by the engine's count.
	PromptTokens int      `json:"promptTokens"`
	CachedTokens int      `json:"cachedTokens"`
	HitPercent   *float64 `json:"hitPercent,omitempty"`
	// StayedPercent is the share of later turns on the replica of the turn before.
	StayedPercent *float64 `json:"stayedPercent,omitempty"`
	// FairnessPercent is the answered turns of the slowest slot over the mean slot's.
	FairnessPercent *float64 `json:"fairnessPercent,omitempty"`
	// SlowestSlotSeconds is the mean time to first token of the slot with the longest;
	// LongestWaitSeconds is the longest of all.
	SlowestSlotSeconds *float64 `json:"slowestSlotSeconds,omitempty"`
	LongestWaitSeconds *float64 `json:"longestWaitSeconds,omitempty"`
	// ReplicasBusy is how many replicas ran requests, averaged over polls.
	ReplicasBusy *float64 `json:"replicasBusy,omitempty"`
	// Time to the first token of all turns, of first turns (always cold) and of later
	// ones; turns cut after their first token count, those with it in the warm-up do not.
	TTFB      Quantiles `json:"ttfb"`
	TTFBFirst Quantiles `json:"ttfbFirstTurns"`
	TTFBLater Quantiles `json:"ttfbLaterTurns"`
	// SessionTime is the time of completed conversations that began in the step.
	SessionTime Quantiles `json:"sessionTime"`
	// Times to first token of all turns, shortest first.
	Times []time.Duration `json:"-"`
	// Replicas that answered, by index; empty when the endpoint does not say.
	Replicas []ReplicaRow `json:"replicas,omitempty"`
}

// tally adds turns up. One goroutine owns it.
type tally struct {
	from                   time.Time // when the step began, after its warm-up
	out                    Step
	first, later, sessions []time.Duration
	perSlot                []slotTally
	replicas               map[int]*ReplicaRow
	unreported             int // prompt tokens of requests that told no cached ones
	known, stayed          int // later turns with a known replica, and those that stayed
}

// slotTally is what one slot got.
type slotTally struct {
	answered int // turns
	begun    int // turns with a first token
	waited   time.Duration
	longest  time.Duration
}

func newTally(slots int, from time.Time) *tally {
	return &tally{from: from, perSlot: make([]slotTally, slots), replicas: make(map[int]*ReplicaRow)}
}

// counts is true for a moment of the step, and false for one of the warm-up before it.
func (t *tally) counts(moment time.Time) bool { return !moment.Before(t.from) }

// add counts what of one turn came after the warm-up, and its failure whenever it came.
func (t *tally) add(turn Turn) {
	answer := turn.Answer
	if answer.FirstToken > 0 && (turn.Err == nil || turn.Cut) && t.counts(turn.Sent.Add(answer.FirstToken)) {
		slot := &t.perSlot[turn.Slot]
		slot.begun++
		slot.waited += answer.FirstToken
		slot.longest = max(slot.longest, answer.FirstToken)
		if turn.Number == 1 {
			t.first = append(t.first, answer.FirstToken)
		} else {
			t.later = append(t.later, answer.FirstToken)
		}
	}
	switch {
	case turn.Err != nil && !turn.Cut:
		t.out.Errors++
		if t.out.FirstError == "" {
			t.out.FirstError = turn.Err.Error()
		}
		return
	case !t.counts(turn.ended()):
		return
	case turn.Cut:
		t.out.Cut++
		return
	}
	t.out.Requests++
	t.perSlot[turn.Slot].answered++
	t.out.OutputTokens += answer.Usage.Completion
	t.out.PromptTokens += answer.Usage.Prompt
	if answer.Usage.Cached >= 0 {
		t.out.CachedTokens += answer.Usage.Cached
	} else {
		t.unreported += answer.Usage.Prompt
	}
	if turn.Last {
		t.out.SessionsDone++
		if t.counts(turn.Began) {
			t.sessions = append(t.sessions, turn.SessionTime)
		}
	}
	if answer.Replica >= 0 {
		t.addReplica(answer)
	}
	if stayed, known := turn.Stayed(); known {
		t.known++
		if stayed {
			t.stayed++
		}
	}
}

func (t *tally) addReplica(answer Answer) {
	row := t.replicas[answer.Replica]
	if row == nil {
		row = &ReplicaRow{Index: answer.Replica}
		t.replicas[answer.Replica] = row
	}
	row.Requests++
	row.PromptTokens += answer.Usage.Prompt
	row.CachedTokens += max(0, answer.Usage.Cached)
}

// step closes the tally over the time that was measured. Where the endpoint is known to
// report cached tokens, a request of which it told none had none.
func (t *tally) step(elapsed time.Duration, reports bool) Step {
	out := t.out
	out.Seconds = math.Round(elapsed.Seconds()*1e3) / 1e3
	if elapsed > 0 {
		out.SessionsPerHour = math.Round(float64(out.SessionsDone) / elapsed.Hours())
		out.OutputTokensPerMinute = math.Round(float64(out.OutputTokens) / elapsed.Minutes())
	}
	measured := out.PromptTokens
	if !reports {
		measured -= t.unreported
	}
	out.HitPercent = percent(out.CachedTokens, measured)
	out.StayedPercent = percent(t.stayed, t.known)
	t.fairness(&out)
	out.TTFBFirst, out.TTFBLater = QuantilesOf(t.first), QuantilesOf(t.later)
	out.Times = slices.Concat(t.first, t.later)
	out.TTFB = QuantilesOf(out.Times)
	out.SessionTime = QuantilesOf(t.sessions)
	for _, row := range t.replicas {
		out.Replicas = append(out.Replicas, *row)
	}
	slices.SortFunc(out.Replicas, func(a, b ReplicaRow) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

// fairness compares the slots.
func (t *tally) fairness(out *Step) {
	fewest := math.MaxInt
	var slowest, longest time.Duration
	for _, slot := range t.perSlot {
		fewest = min(fewest, slot.answered)
		longest = max(longest, slot.longest)
		if slot.begun > 0 {
			slowest = max(slowest, slot.waited/time.Duration(slot.begun))
		}
	}
	out.FairnessPercent = percent(fewest*len(t.perSlot), out.Requests)
	if longest > 0 {
		out.SlowestSlotSeconds, out.LongestWaitSeconds = seconds(slowest), seconds(longest)
	}
}

// percent returns part of whole in percent with two decimals, or nil without a whole.
func percent(part, whole int) *float64 {
	if whole == 0 {
		return nil
	}
	p := math.Round(float64(part)/float64(whole)*1e4) / 1e2
	return &p
}
