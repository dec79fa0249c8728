package report

import (
	"math"
	"slices"

	"github.com/lmwarden/lmwarden/bench"
)

// Run is one step that was measured once.
type Run struct {
	// Arm that was measured: a policy, "off", "on".
	Arm string `json:"arm"`
	// Sessions at the same time.
	Sessions int `json:"sessions"`
	// Round counts the repetitions of the step, from 1.
	Round int `json:"round"`
	// Seed of its conversations.
	Seed uint64 `json:"seed"`
	// Seconds that it was measured.
	Seconds float64 `json:"seconds"`
	// Partial says that it was stopped before its end. It counts nowhere.
	Partial bool `json:"partial,omitempty"`
	// Problem is the sentence of the first request that failed, or empty.
	Problem string `json:"problem,omitempty"`
	// Held is how many requests waited at the door; nil where nobody looked.
	Held *int `json:"held,omitempty"`
	// TTFBHistogram counts the times to first byte of its turns; nil without any.
	TTFBHistogram Histogram `json:"ttfbHistogram,omitempty"`
	Figures
}

// failed tells whether requests failed and none succeeded: that says nothing of the arm.
func (r *Run) failed() bool {
	return r.Requests != nil && *r.Requests == 0 && r.Errors != nil && *r.Errors > 0
}

// Row is what the runs of one arm at one number of sessions say together.
type Row struct {
	// Arm and Sessions of the runs.
	Arm      string `json:"arm"`
	Sessions int    `json:"sessions"`
	// Runs is their number.
	Runs int `json:"runs"`
	// Figures are the means over the runs.
	Figures
	// HalfWidth is half the width of the 95 % confidence interval of each mean, by
	// Student's t over the runs; nil with one run only.
	HalfWidth *Figures `json:"halfWidth95,omitempty"`
	// PerRun holds the runs themselves.
	PerRun []Run `json:"perRun"`
}

// Summarize puts the runs of each arm and number of sessions together: the arms at one
// number of sessions below each other, both in the order in which they first come.
// Partial runs are left out.
func Summarize(runs []Run) []Row {
	type step struct {
		arm      string
		sessions int
	}
	var arms []string
	var sessions []int
	byStep := make(map[step][]Run)
	for _, r := range runs {
		if r.Partial {
			continue
		}
		s := step{r.Arm, r.Sessions}
		if !slices.Contains(arms, s.arm) {
			arms = append(arms, s.arm)
		}
		if !slices.Contains(sessions, s.sessions) {
			sessions = append(sessions, s.sessions)
		}
		byStep[s] = append(byStep[s], r)
	}
	var rows []Row
	for _, n := range sessions {
		for _, arm := range arms {
			if runs := byStep[step{arm, n}]; runs != nil {
				rows = append(rows, summarize(runs))
			}
		}
	}
	return rows
}

func summarize(runs []Run) Row {
	row := Row{Arm: runs[0].Arm, Sessions: runs[0].Sessions, Runs: len(runs), PerRun: runs}
	half := &Figures{}
	for _, c := range columns {
		var values []float64
		for i := range runs {
			if v := c.Value(&runs[i].Figures); v != nil {
				values = append(values, *v)
			}
		}
		if len(values) == 0 {
			continue
		}
		mean, width := interval(values)
		*c.of(&row.Figures) = rounded(mean)
		if len(values) > 1 {
			*c.of(half) = rounded(width)
			row.HalfWidth = half
		}
	}
	return row
}

// student holds the two-sided 95 % quantiles of Student's t by degrees of freedom,
// from 1.
var student = []float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
	2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

// interval returns the mean and half the width of its 95 % confidence interval, 0 for
// a single value.
func interval(values []float64) (mean, half float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	if len(values) < 2 {
		return mean, 0
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	t := 1.96
	if df := len(values) - 1; df <= len(student) {
		t = student[df-1]
	}
	return mean, t * math.Sqrt(squares/(n-1)/n)
}

// rounded cuts what is far below the noise, so that files stay readable.
func rounded(v float64) *float64 {
	v = math.Round(v*1e4) / 1e4
	return &v
}

// Figure is a present figure, rounded.
func Figure(v float64) *float64 { return rounded(v) }

// Of makes a run of a step that was measured on a live endpoint with that seed.
func Of(s bench.Step, seed uint64) Run {
	count := func(n int) *float64 { return Figure(float64(n)) }
	return Run{
		Arm: s.Arm, Sessions: s.Sessions, Round: max(1, s.Round), Seed: seed, Seconds: s.Seconds,
		Partial: s.Partial, Problem: s.FirstError, TTFBHistogram: HistogramOf(s.Times),
		Figures: Figures{
			SessionsPerHour: Figure(s.SessionsPerHour), OutputTokensPerMinute: Figure(s.OutputTokensPerMinute),
			TTFBP50Seconds: s.TTFB.P50, TTFBP95Seconds: s.TTFB.P95, TTFBP99Seconds: s.TTFB.P99, TTFBMeanSeconds: s.TTFB.Mean,
			FirstTurnP50Seconds: s.TTFBFirst.P50, FirstTurnP95Seconds: s.TTFBFirst.P95,
			LaterTurnP50Seconds: s.TTFBLater.P50, LaterTurnP95Seconds: s.TTFBLater.P95,
			SessionP50Seconds: s.SessionTime.P50, SessionP95Seconds: s.SessionTime.P95,
			ReplicasBusy: s.ReplicasBusy, HitPercent: s.HitPercent, StayedPercent: s.StayedPercent,
			FairnessPercent: s.FairnessPercent, SlowestSlotSeconds: s.SlowestSlotSeconds, LongestWaitSeconds: s.LongestWaitSeconds,
			Requests: count(s.Requests), SessionsEnded: count(s.SessionsDone), Errors: count(s.Errors),
		},
	}
}
