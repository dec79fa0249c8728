package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/lmwarden/lmwarden/bench/report"
	simrun "github.com/lmwarden/lmwarden/sim/run"
)

// Forms that only measurements have.
const (
	outputHTML = "html"
	outputSVG  = "svg"
)

// settings returns what makes a series the same as another one.
func (f simulateFlags) settings(c simrun.Config) (simulateSettings, error) {
	capacity, err := c.Capacity()
	if err != nil {
		return simulateSettings{}, err
	}
	s := simulateSettings{
		Preset: c.Preset, Calibrated: c.Box, CalibratedFrom: f.calibratedFrom(), Replicas: c.Replicas, CapacityTokens: capacity, MaxNumSeqs: c.MaxNumSeqs,
		MaxBatchedTokens: c.MaxBatchedTokens, BlockSize: c.BlockSize, SpillThreshold: f.threshold,
		NetworkSeconds: c.Network.Seconds(), WarmupMinutes: c.Warmup.Minutes(), Minutes: c.Length.Minutes(),
		Seed: c.Seed, Version: versionText(), Trace: f.trace,
	}
	for _, d := range c.Deaths {
		text := fmt.Sprintf("replica %d at %s", d.Replica, d.At)
		if d.Back > 0 {
			text += ", back at " + d.Back.String()
		}
		s.Deaths = append(s.Deaths, text)
	}
	if c.Trace == nil {
		s.Load = &c.Load
		return s, nil
	}
	s.TraceSHA256, err = traceSHA256(f.trace)
	return s, err
}

// traceSHA256 tells one trace from another of the same name; empty without a trace.
func traceSHA256(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the trace cannot be read: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// config returns the configuration of one run.
func (s series) config(arm string, sessions, round int) simrun.Config {
	c := s.base
	c.Policy, c.Load.Sessions, c.Seed = s.policies[arm], sessions, s.base.Seed+uint64(round-1)
	return c
}

// playSeries plays what the ledger does not hold yet. What is done comes back with the
// error when ctx ends.
func (a *app) playSeries(ctx context.Context, s series, ledger *report.Ledger) ([]report.Run, error) {
	var runs []report.Run
	total := len(s.arms) * len(s.sessions) * s.runs
	progress := newProgress(a.err)
	defer progress.done()
	for _, sessions := range s.sessions {
		for _, arm := range s.arms {
			for round := 1; round <= s.runs; round++ {
				if r, ok := ledger.Find(arm, sessions, round); ok {
					runs = append(runs, r)
					continue
				}
				progress.say("%d of %d: %s, %s, run %d ...", len(runs)+1, total, arm, plural(sessions, "session", "sessions"), round)
				c := s.config(arm, sessions, round)
				result, err := simrun.Run(ctx, c)
				if err != nil {
					return runs, fmt.Errorf("%s at %d sessions: %w", arm, sessions, err)
				}
				r := simulated(arm, sessions, round, c.Seed, result)
				runs = append(runs, r)
				if err := ledger.Add(r); err != nil {
					return runs, err
				}
			}
		}
	}
	return runs, nil
}

// simulated makes a run of a result.
func simulated(arm string, sessions, round int, seed uint64, r simrun.Result) report.Run {
	of := func(v float64, samples int) *float64 {
		if samples == 0 {
			return nil
		}
		return report.Figure(v)
	}
	count := func(n int) *float64 { return report.Figure(float64(n)) }
	ttfb, first, later, session := r.TTFB, r.FirstTurns, r.LaterTurns, r.SessionTime
	return report.Run{
		Arm: arm, Sessions: sessions, Round: round, Seed: seed, Seconds: r.Seconds, TTFBHistogram: report.HistogramOf(r.Times),
		Figures: report.Figures{
			SessionsPerHour: report.Figure(r.SessionsPerHour), OutputTokensPerMinute: report.Figure(r.OutputTokensPerMinute),
			TTFBP50Seconds: of(ttfb.P50, ttfb.Count), TTFBP95Seconds: of(ttfb.P95, ttfb.Count),
			TTFBP99Seconds: of(ttfb.P99, ttfb.Count), TTFBMeanSeconds: of(ttfb.Mean, ttfb.Count),
			FirstTurnP50Seconds: of(first.P50, first.Count), FirstTurnP95Seconds: of(first.P95, first.Count),
			LaterTurnP50Seconds: of(later.P50, later.Count), LaterTurnP95Seconds: of(later.P95, later.Count),
			SessionP50Seconds: of(session.P50, session.Count), SessionP95Seconds: of(session.P95, session.Count),
			ReplicasBusy: report.Figure(r.ReplicasBusy), HitPercent: of(r.HitPercent, r.Requests),
			StayedPercent: of(r.StayedPercent, later.Count), SlowestSlotSeconds: of(r.SlowestSlotSeconds, ttfb.Count),
			FairnessPercent: of(r.FairnessPercent, ttfb.Count), LongestWaitSeconds: report.Figure(r.LongestWaitSeconds),
			Requests: count(r.Requests), SessionsEnded: count(r.Sessions), Errors: count(r.Broken),
			Spilled: count(r.Spilled), Preemptions: count(r.Preemptions),
		},
	}
}

// page is what an HTML report says around the figures.
func (s series) page(interrupted bool) report.Page {
	p := report.Page{
		Title:    fmt.Sprintf("Simulated: %d x %s", s.base.Replicas, s.base.Preset),
		About:    "Virtual time: the routing code of the daemon and a model of the engine, not a measurement of hardware. docs/simulating.md says what the model leaves out.",
		Replicas: s.base.Replicas, Version: s.settings.Version, Interrupted: interrupted,
	}
	set := s.settings
	what := set.Trace
	if set.Load != nil {
		what = set.Load.Name + ": " + set.Load.About + "; pauses " + set.Load.Think.String()
	}
	p.Settings = []report.Setting{
		{Name: "box", Value: fmt.Sprintf("%d replicas of %s, %s KV tokens each", set.Replicas, set.Preset, report.Number(float64(set.CapacityTokens), 0))},
		{Name: "load", Value: what},
		{Name: "engine", Value: fmt.Sprintf("max_num_seqs %d, max_num_batched_tokens %d, block size %d", set.MaxNumSeqs, set.MaxBatchedTokens, set.BlockSize)},
		{Name: "time", Value: fmt.Sprintf("%g minutes after %g of warm-up, network %g s", set.Minutes, set.WarmupMinutes, set.NetworkSeconds)},
		{Name: "runs", Value: fmt.Sprintf("%d, seeds from %d", s.runs, set.Seed)},
	}
	if len(set.Deaths) > 0 {
		p.Settings = append(p.Settings, report.Setting{Name: "deaths", Value: strings.Join(set.Deaths, "; ")})
	}
	for _, arm := range s.arms {
		p.Settings = append(p.Settings, report.Setting{Name: arm, Value: simrun.PolicyAbout(arm)})
	}
	return p
}

// printRuns prints a series in the form that is asked for.
func (a *app) printRuns(runs []report.Run, p report.Page, settings any) error {
	rows := report.Summarize(runs)
	var b bytes.Buffer
	var err error
	switch a.output {
	case outputJSON:
		err = report.WriteJSON(&b, runs, p.Version, settings, p.Interrupted)
	case outputCSV:
		err = report.WriteCSV(&b, rows)
	case outputHTML:
		err = report.WriteHTML(&b, p, rows)
	case outputSVG:
		err = report.WriteSVG(&b, rows)
	default:
		a.printRows(&b, rows)
	}
	return errors.Join(err, a.write(b.Bytes()))
}

// printRows prints the tables, if there is anything in them.
func (a *app) printRows(w io.Writer, rows []report.Row) {
	if len(rows) == 0 {
		return
	}
	for i, keys := range report.Tables {
		if i > 0 {
			_, _ = io.WriteString(w, "\n")
		}
		headings, cells := report.Table(rows, keys)
		for i := 1; i < len(headings); i++ {
			headings[i] = ">" + headings[i]
		}
		t := a.newTable(headings...)
		for _, texts := range cells {
			var line []any
			for _, text := range texts {
				line = append(line, text)
			}
			t.add(line...)
		}
		t.print(w)
	}
	if rows[0].HalfWidth != nil {
		_, _ = io.WriteString(w, "\nMeans over the runs of a row ± half the width of their 95 % confidence interval.\n")
	}
}

// progress is one line on a terminal that says what is under way. Elsewhere it is
// silent.
type progress struct {
	w    io.Writer
	live bool
}

func newProgress(w io.Writer) *progress { return &progress{w: w, live: isTerminal(w)} }

// say replaces the line.
func (p *progress) say(format string, args ...any) {
	if p.live {
		fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
	}
}

// done takes the line away.
func (p *progress) done() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
