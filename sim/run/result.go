package run

import (
	"math"
	"slices"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/sim/engine"
)

// Quantiles of a set of times, in seconds. All are 0 when there is none.
type Quantiles struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
}

// quantiles sorts the times and reads them off, by nearest rank.
func quantiles(ts []time.Duration) Quantiles {
	q := Quantiles{Count: len(ts)}
	if len(ts) == 0 {
		return q
	}
	slices.Sort(ts)
	sum := time.Duration(0)
	for _, t := range ts {
		sum += t
	}
	at := func(p float64) float64 {
		return ts[max(0, int(math.Ceil(p*float64(len(ts))))-1)].Seconds()
	}
	q.Mean = sum.Seconds() / float64(len(ts))
	q.P50, q.P95, q.P99 = at(0.5), at(0.95), at(0.99)
	return q
}

// Result is what a run measured, warm-up left out. Times to first byte are those of the
// turns whose first token came in the measured time.
type Result struct {
	Seconds               float64 // measured
	Requests              int     // that gave a first token
	Sessions              int     // conversations that ended, subagents' not counted
	OutputTokensPerMinute float64 // as the tokens came
	// AnsweredTokensPerMinute counts the tokens of answers that ended in the measured time,
	// as a live measurement does, which cuts those that run at its end.
	AnsweredTokensPerMinute float64
	SessionsPerHour         float64   //
	HitPercent              float64   // prompt tokens from the cache
	StayedPercent           float64   // later turns on the replica of the turn before
	StickyPercent           float64   // of sticky, spilled and rehomed
	TTFB                    Quantiles // time to first byte
	FirstTurns              Quantiles // of them, first turns
	LaterTurns              Quantiles // and all others
	SessionTime             Quantiles // of conversations that began and ended in the measured time
	SlowestSlotSeconds      float64   // mean time to first byte of the slot with the longest
	FairnessPercent         float64   // first tokens of the slot with the fewest over the mean slot's
	LongestWaitSeconds      float64   // longest time to first byte, also of turns that waited still at the end
	ReplicasBusy            float64   // mean number of replicas that compute
	Preemptions             int       //
	Refused                 int       // turns that came again after a refusal, whole run
	Broken                  int       // turns that broke off and were sent again, whole run
	Placed                  int       // decisions, by class
	Sticky                  int       //
	Spilled                 int       //
	Rehomed                 int       //
	// Times to first byte of all turns, shortest first.
	Times []time.Duration
}

// meter collects what a run measures.
type meter struct {
	from, to       time.Duration
	tokens         int
	answered       int // tokens of answers that ended
	prompt, cached int
	classes        [route.NumClasses]int
	refused        int
	broken         int
	ended          int
	later, stayed  int // turns after a first one, and those that did not change replicas
	firstTurns     []time.Duration
	laterTurns     []time.Duration
	sessions       []time.Duration
	perSlot        [][]time.Duration
	before         engine.Counters // of all engines, as the measured time began
}

func newMeter(cfg Config, slots int) *meter {
	return &meter{from: cfg.Warmup, to: cfg.Warmup + cfg.Length, perSlot: make([][]time.Duration, slots)}
}

// counts is true in the measured time.
func (m *meter) counts(now time.Duration) bool { return now >= m.from && now <= m.to }

// token counts an output token.
func (m *meter) token(now time.Duration) {
	if m.counts(now) {
		m.tokens++
	}
}

// answer counts an answer that ended.
func (m *meter) answer(now time.Duration, tokens int) {
	if m.counts(now) {
		m.answered += tokens
	}
}

// class counts a decision.
func (m *meter) class(now time.Duration, c route.Class) {
	if m.counts(now) {
		m.classes[c]++
	}
}

// first counts the first token of a turn.
func (m *meter) first(now time.Duration, c *client, cached int) {
	if !m.counts(now) {
		return
	}
	took := now - c.sent
	if c.turn.Number == 1 {
		m.firstTurns = append(m.firstTurns, took)
	} else {
		m.laterTurns = append(m.laterTurns, took)
		m.later++
		if c.replica == c.home {
			m.stayed++
		}
	}
	m.perSlot[c.slot] = append(m.perSlot[c.slot], took)
	m.prompt += c.request.Prompt
	m.cached += cached
}

// session counts the end of a conversation.
func (m *meter) session(now time.Duration, c *client) {
	if !m.counts(now) {
		return
	}
	m.ended++
	if c.started >= m.from {
		m.sessions = append(m.sessions, now-c.started)
	}
}

// percent is a share of a whole, 0 of nothing.
func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// counters sums what all engines have counted, those that died included.
func (w *world) counters() engine.Counters {
	var sum engine.Counters
	add := func(c engine.Counters) {
		sum.Busy += c.Busy
		sum.Preemptions += c.Preemptions
	}
	for _, c := range w.retired {
		add(c)
	}
	for _, e := range w.engines {
		add(e.Stats().Counters)
	}
	return sum
}

// result reads everything off at the end of the run.
func (w *world) result(end time.Duration) Result {
	m := w.meter
	length := end - m.from
	times := slices.Concat(m.firstTurns, m.laterTurns)
	all := quantiles(times)
	r := Result{
		Seconds: length.Seconds(), Requests: all.Count, Sessions: m.ended,
		OutputTokensPerMinute: float64(m.tokens) / length.Minutes(), AnsweredTokensPerMinute: float64(m.answered) / length.Minutes(),
		SessionsPerHour: float64(m.ended) / length.Hours(),
		HitPercent:      percent(m.cached, m.prompt), StayedPercent: percent(m.stayed, m.later),
		TTFB: all, FirstTurns: quantiles(m.firstTurns), LaterTurns: quantiles(m.laterTurns), SessionTime: quantiles(m.sessions),
		Refused: m.refused, Broken: m.broken,
		Placed: m.classes[route.ClassPlaced], Sticky: m.classes[route.ClassSticky],
		Spilled: m.classes[route.ClassSpilled], Rehomed: m.classes[route.ClassRehomed],
		Times: times,
	}
	r.StickyPercent = percent(r.Sticky, r.Sticky+r.Spilled+r.Rehomed)
	fewest := math.MaxInt
	for _, slot := range m.perSlot {
		q := quantiles(slot)
		r.SlowestSlotSeconds = max(r.SlowestSlotSeconds, q.Mean)
		fewest = min(fewest, q.Count)
		if q.Count > 0 {
			r.LongestWaitSeconds = max(r.LongestWaitSeconds, slot[q.Count-1].Seconds())
		}
	}
	r.FairnessPercent = percent(fewest*len(m.perSlot), all.Count)
	r.LongestWaitSeconds = max(r.LongestWaitSeconds, w.longestStill(end).Seconds())
	counters := w.counters()
	r.Preemptions = counters.Preemptions - m.before.Preemptions
	r.ReplicasBusy = min(float64(len(w.engines)), (counters.Busy-m.before.Busy).Seconds()/length.Seconds())
	return r
}

// longestStill returns for how long the turn has waited that waits longest of all that
// have no first token at the end.
func (w *world) longestStill(end time.Duration) time.Duration {
	longest := time.Duration(0)
	look := func(c *client) {
		if !c.counted {
			longest = max(longest, end-c.sent)
		}
	}
	for _, c := range w.held {
		look(c)
	}
	for _, flights := range w.flights {
		for _, c := range flights {
			look(c)
		}
	}
	return longest
}
