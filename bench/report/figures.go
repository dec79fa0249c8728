package report

import "strconv"

// Figures of a step. A figure is absent when it was not reported or had no samples.
// Times are in seconds, tokens are the engine's.
type Figures struct {
	// SessionsPerHour counts conversations that ended, per hour.
	SessionsPerHour *float64 `json:"sessionsPerHour,omitempty"`
	// OutputTokensPerMinute is the throughput.
	OutputTokensPerMinute *float64 `json:"outputTokensPerMinute,omitempty"`
	// TTFB is the time to first byte, that is, to the first streamed token.
	TTFBP50Seconds  *float64 `json:"ttfbP50Seconds,omitempty"`
	TTFBP95Seconds  *float64 `json:"ttfbP95Seconds,omitempty"`
	TTFBP99Seconds  *float64 `json:"ttfbP99Seconds,omitempty"`
	TTFBMeanSeconds *float64 `json:"ttfbMeanSeconds,omitempty"`
	// First turns of conversations are always cold, later ones may find their cache.
	FirstTurnP50Seconds *float64 `json:"firstTurnP50Seconds,omitempty"`
	FirstTurnP95Seconds *float64 `json:"firstTurnP95Seconds,omitempty"`
	LaterTurnP50Seconds *float64 `json:"laterTurnP50Seconds,omitempty"`
	LaterTurnP95Seconds *float64 `json:"laterTurnP95Seconds,omitempty"`
	// Session is the whole time of a conversation.
	SessionP50Seconds *float64 `json:"sessionP50Seconds,omitempty"`
	SessionP95Seconds *float64 `json:"sessionP95Seconds,omitempty"`
	// ReplicasBusy is how many replicas ran requests, averaged over the step.
	ReplicasBusy *float64 `json:"replicasBusy,omitempty"`
	// HitPercent is the share of prompt tokens that came from a prefix cache.
	HitPercent *float64 `json:"hitPercent,omitempty"`
	// StayedPercent is the share of later turns on the replica of the turn before.
	StayedPercent *float64 `json:"stayedPercent,omitempty"`
	// SlowestSlotSeconds is the mean time to first byte of the slot with the longest.
	SlowestSlotSeconds *float64 `json:"slowestSlotSeconds,omitempty"`
	// FairnessPercent is the answered turns of the slot with the fewest over the mean.
	FairnessPercent *float64 `json:"fairnessPercent,omitempty"`
	// LongestWaitSeconds is the longest time to first byte.
	LongestWaitSeconds *float64 `json:"longestWaitSeconds,omitempty"`
	// Requests answered, conversations ended, requests that failed.
	Requests      *float64 `json:"requests,omitempty"`
	SessionsEnded *float64 `json:"sessionsEnded,omitempty"`
	Errors        *float64 `json:"errors,omitempty"`
	// Spilled turns left their home for once.
	Spilled *float64 `json:"spilled,omitempty"`
	// Preemptions of running requests by an engine that ran out of cache.
	Preemptions *float64 `json:"preemptions,omitempty"`
}

// Column describes one figure.
type Column struct {
	// Key is its name in JSON and CSV.
	Key string
	// Heading is its name for people, with its unit.
	Heading string
	// Decimals that are shown to people.
	Decimals int
	// Main says that it belongs into a short table.
	Main bool

	of func(*Figures) **float64
}

// columns in the order in which they are shown.
var columns = []Column{
	{"sessionsPerHour", "sessions/h", 0, true, func(f *Figures) **float64 { return &f.SessionsPerHour }},
	{"outputTokensPerMinute", "output tok/min", 0, true, func(f *Figures) **float64 { return &f.OutputTokensPerMinute }},
	{"ttfbP50Seconds", "TTFB p50 s", 2, true, func(f *Figures) **float64 { return &f.TTFBP50Seconds }},
	{"ttfbP95Seconds", "TTFB p95 s", 2, true, func(f *Figures) **float64 { return &f.TTFBP95Seconds }},
	{"replicasBusy", "replicas busy", 2, true, func(f *Figures) **float64 { return &f.ReplicasBusy }},
	{"hitPercent", "prefix hits %", 1, true, func(f *Figures) **float64 { return &f.HitPercent }},
	{"stayedPercent", "stayed %", 1, true, func(f *Figures) **float64 { return &f.StayedPercent }},
	{"ttfbMeanSeconds", "TTFB mean s", 2, true, func(f *Figures) **float64 { return &f.TTFBMeanSeconds }},
	{"ttfbP99Seconds", "TTFB p99 s", 2, false, func(f *Figures) **float64 { return &f.TTFBP99Seconds }},
	{"firstTurnP50Seconds", "first turns p50 s", 2, true, func(f *Figures) **float64 { return &f.FirstTurnP50Seconds }},
	{"firstTurnP95Seconds", "first turns p95 s", 2, false, func(f *Figures) **float64 { return &f.FirstTurnP95Seconds }},
	{"laterTurnP50Seconds", "later turns p50 s", 2, true, func(f *Figures) **float64 { return &f.LaterTurnP50Seconds }},
	{"laterTurnP95Seconds", "later turns p95 s", 2, false, func(f *Figures) **float64 { return &f.LaterTurnP95Seconds }},
	{"sessionP50Seconds", "session p50 s", 0, true, func(f *Figures) **float64 { return &f.SessionP50Seconds }},
	{"sessionP95Seconds", "session p95 s", 0, false, func(f *Figures) **float64 { return &f.SessionP95Seconds }},
	{"slowestSlotSeconds", "slowest slot s", 1, false, func(f *Figures) **float64 { return &f.SlowestSlotSeconds }},
	{"fairnessPercent", "fairness %", 0, false, func(f *Figures) **float64 { return &f.FairnessPercent }},
	{"longestWaitSeconds", "longest wait s", 1, false, func(f *Figures) **float64 { return &f.LongestWaitSeconds }},
	{"requests", "requests", 0, false, func(f *Figures) **float64 { return &f.Requests }},
	{"sessionsEnded", "sessions ended", 0, false, func(f *Figures) **float64 { return &f.SessionsEnded }},
	{"errors", "errors", 0, false, func(f *Figures) **float64 { return &f.Errors }},
	{"spilled", "spilled", 0, false, func(f *Figures) **float64 { return &f.Spilled }},
	{"preemptions", "preemptions", 0, false, func(f *Figures) **float64 { return &f.Preemptions }},
}

// Columns returns all columns in the order in which they are shown.
func Columns() []Column { return columns }

// Value returns the column's figure, or nil.
func (c Column) Value(f *Figures) *float64 { return *c.of(f) }

// column returns the column of that key, which is one of this package's own.
func column(key string) Column {
	for _, c := range columns {
		if c.Key == key {
			return c
		}
	}
	panic("report: there is no column " + key)
}

// Number prints a value for people, with so many decimals and thousands apart.
func Number(v float64, decimals int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	whole, fraction := s, ""
	if decimals > 0 {
		whole, fraction = s[:len(s)-decimals-1], s[len(s)-decimals-1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + fraction
}
