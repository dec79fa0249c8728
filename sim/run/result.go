package run

import (
	"math"
	"slices"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
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

// Result is what a run measured, warm-up left out. What began in the measured time and
// did not end in it is not counted.
type Result struct {
	Requests              int       `json:"requests"` // that gave a first token
	Sessions              int       `json:"sessions"` // conversations that ended
	OutputTokensPerMinute float64   `json:"outputTokensPerMinute"`
	SessionsPerHour       float64   `json:"sessionsPerHour"`
	HitPercent            float64   `json:"hitPercent"`    // prompt tokens from the cache
	StickyPercent         float64   `json:"stickyPercent"` // of sticky, spilled and rehomed
	TTFBP50Seconds        float64   `json:"ttfbP50Seconds"`
	TTFBP95Seconds        float64   `json:"ttfbP95Seconds"`
	TTFBMeanSeconds       float64   `json:"ttfbMeanSeconds"`
	FirstTurns            Quantiles `json:"firstTurns"` // time to first byte
	LaterTurns            Quantiles `json:"laterTurns"` // time to first byte
	SessionTime           Quantiles `json:"sessionTime"`
	SlowestSlotSeconds    float64   `json:"slowestSlotSeconds"` // mean time to first byte of the slot with the longest
	ReplicasBusy          float64   `json:"replicasBusy"`       // mean number of replicas that compute, whole run
	Preemptions           int       `json:"preemptions"`        // whole run
	Refused               int       `json:"refused"`            // whole run
	Broken                int       `json:"broken"`             // turns that broke off and were sent again, whole run
	Placed                int       `json:"placed"`
	Sticky                int       `json:"sticky"`
	Spilled               int       `json:"spilled"`
	Rehomed               int       `json:"rehomed"`
}

// meter collects what a run measures.
type meter struct {
	from, to       time.Duration
	tokens         int
	prompt, cached int
	classes        [route.NumClasses]int
	refused        int
	broken         int
	firstTurns     []time.Duration
	laterTurns     []time.Duration
	sessions       []time.Duration
	perSlot        [][]time.Duration
}

func newMeter(cfg Config) *meter {
	return &meter{from: cfg.Warmup, to: cfg.Warmup + cfg.Length, perSlot: make([][]time.Duration, cfg.Load.Sessions)}
}

// counts is true in the measured time.
func (m *meter) counts(now time.Duration) bool { return now >= m.from && now <= m.to }

// token counts an output token.
func (m *meter) token(now time.Duration) {
	if m.counts(now) {
		m.tokens++
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
	if c.turn == 1 {
		m.firstTurns = append(m.firstTurns, took)
	} else {
		m.laterTurns = append(m.laterTurns, took)
	}
	m.perSlot[c.slot] = append(m.perSlot[c.slot], took)
	m.prompt += c.request.Prompt
	m.cached += cached
}

// session counts the end of a conversation.
func (m *meter) session(now time.Duration, c *client) {
	if m.counts(now) && c.started >= m.from {
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

// result reads everything off.
func (m *meter) result(w *world) Result {
	length := m.to - m.from
	all := quantiles(slices.Concat(m.firstTurns, m.laterTurns))
	r := Result{
		Requests: all.Count, Sessions: len(m.sessions),
		OutputTokensPerMinute: float64(m.tokens) / length.Minutes(),
		HitPercent:            percent(m.cached, m.prompt),
		TTFBP50Seconds:        all.P50, TTFBP95Seconds: all.P95, TTFBMeanSeconds: all.Mean,
		FirstTurns: quantiles(m.firstTurns), LaterTurns: quantiles(m.laterTurns), SessionTime: quantiles(m.sessions),
		Refused: m.refused, Broken: m.broken,
		Placed: m.classes[route.ClassPlaced], Sticky: m.classes[route.ClassSticky],
		Spilled: m.classes[route.ClassSpilled], Rehomed: m.classes[route.ClassRehomed],
	}
	r.SessionsPerHour = float64(r.Requests) / float64(w.cfg.Load.Turns) / length.Hours()
	r.StickyPercent = percent(r.Sticky, r.Sticky+r.Spilled+r.Rehomed)
	for _, slot := range m.perSlot {
		r.SlowestSlotSeconds = max(r.SlowestSlotSeconds, quantiles(slot).Mean)
	}
	busy := time.Duration(0)
	counters := w.retired
	for _, e := range w.engines {
		counters = append(counters, e.Stats().Counters)
	}
	for _, c := range counters {
		busy += c.Busy
		r.Preemptions += c.Preemptions
	}
	r.ReplicasBusy = min(float64(len(w.engines)), busy.Seconds()/m.to.Seconds())
	return r
}
