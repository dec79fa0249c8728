package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/bench"
	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

// statusEvery is how often a demo says how it goes.
const statusEvery = 10 * time.Second

// endless is the length of a step that an interrupt ends.
const endless = 10000 * time.Hour

// demoReport is what a demo prints at its end. Absent figures had nothing to be
// counted from.
type demoReport struct {
	Requests              int           `json:"requests"`
	Errors                int           `json:"errors"`
	Cut                   int           `json:"cut"` // still running at the end; not among requests
	StickyPercent         *float64      `json:"stickyPercent,omitempty"`
	HitPercent            *float64      `json:"hitPercent,omitempty"`
	TTFBP50Seconds        *float64      `json:"ttfbP50Seconds,omitempty"`
	Affinity              bool          `json:"affinity"`
	OutputTokensPerMinute float64       `json:"outputTokensPerMinute"`
	Sessions              int           `json:"sessions"`
	Seconds               float64       `json:"seconds"`
	FirstError            string        `json:"firstError,omitempty"`
	Replicas              []demoReplica `json:"replicas"`
}

// demoReplica is the row of one replica. Its requests are those that the router sent
// there, also those that were still running at the end.
type demoReplica struct {
	Index      uint32   `json:"index"`
	State      string   `json:"state"`
	Requests   uint64   `json:"requests"`
	Sticky     uint64   `json:"sticky"`
	Spilled    uint64   `json:"spilled"`
	Placed     uint64   `json:"placed"`
	Rehomed    uint64   `json:"rehomed"`
	Balanced   uint64   `json:"balanced"` // by load alone: affinity off, no conversation, or a side request
	HitPercent *float64 `json:"hitPercent,omitempty"`
}

// demoTraffic sends traffic for the wanted time, or until interrupted, and reports.
func (a *app) demoTraffic(ctx context.Context, f demoFlags, box *demoBox) (demoReport, error) {
	length := f.length
	if length == 0 {
		length = endless
	}
	if f.noTraffic {
		wait, cancel := context.WithTimeout(ctx, length)
		defer cancel()
		<-wait.Done()
		return box.report(f, bench.Step{})
	}
	agents := bench.AgentLoad()
	agents.BytesPerToken = demoBytesPerToken
	// A box that computes faster than real has clients that are faster too.
	agents.Think = load.Fixed(time.Duration(float64(agents.Think.Mean()) / f.speed))
	live := newLiveStatus()
	status, stop := context.WithCancel(ctx)
	defer stop()
	var printer sync.WaitGroup
	printer.Go(func() { live.print(status, a) })
	client := &bench.Client{
		BaseURL: localURL("http", box.daemon.InferenceAddr()),
		Model:   demoModel,
		HTTP:    bench.NewHTTPClient(f.sessions),
	}
	defer client.HTTP.CloseIdleConnections()
	step, err := bench.Run(ctx, bench.StepOptions{
		Client: client, Load: agents, Arm: f.affinity, Sessions: f.sessions,
		Duration: length, Seed: f.seed, OnTurn: live.add,
	})
	stop()
	printer.Wait()
	if err != nil {
		return demoReport{}, err
	}
	return box.report(f, step)
}

// report puts together what the clients measured and what the router counted.
func (b *demoBox) report(f demoFlags, step bench.Step) (demoReport, error) {
	// The run may have been ended by an interrupt; the daemon still answers.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := b.cs.routing.GetRouting(ctx, &lmwardenv1.GetRoutingRequest{Model: demoModel})
	if err != nil {
		return demoReport{}, fmt.Errorf("the counters at the end: %w", b.app.sentence(err))
	}
	card := r.GetCard()
	report := demoReport{
		Requests: step.Requests, Errors: step.Errors, Cut: step.Cut, FirstError: step.FirstError,
		HitPercent: step.HitPercent, TTFBP50Seconds: step.TTFB.P50,
		OutputTokensPerMinute: math.Round(step.OutputTokensPerMinute),
		Sessions:              f.sessions, Seconds: step.Seconds,
		Affinity: card.GetAffinity(), StickyPercent: card.StickyPercent,
	}
	measured := make(map[uint32]bench.ReplicaRow)
	for _, row := range step.Replicas {
		measured[uint32(row.Index)] = row
	}
	for _, row := range card.GetReplicas() {
		report.Replicas = append(report.Replicas, demoRow(row, measured[row.GetIndex()]))
	}
	return report, nil
}

// demoRow is the row of one replica: decisions from the router, hits from the usage
// that its engine reported for each request.
func demoRow(row *lmwardenv1.RoutingReplica, measured bench.ReplicaRow) demoReplica {
	n := row.GetCounts()
	out := demoReplica{
		Index: row.GetIndex(), State: enumWord(row.GetState()),
		Requests: n.GetSticky() + n.GetSpilled() + n.GetPlaced() + n.GetRehomed() + n.GetClientPinned() + n.GetUnkeyed() + n.GetSide() + n.GetOff(),
		Sticky:   n.GetSticky(), Spilled: n.GetSpilled(), Placed: n.GetPlaced(), Rehomed: n.GetRehomed(),
		Balanced: n.GetOff() + n.GetUnkeyed() + n.GetSide(),
	}
	if measured.PromptTokens > 0 {
		hits := math.Round(1e4*float64(measured.CachedTokens)/float64(measured.PromptTokens)) / 100
		out.HitPercent = &hits
	}
	return out
}

// printDemo prints the report.
func (a *app) printDemo(r demoReport) error {
	if a.output == outputJSON {
		return a.writeJSON(r)
	}
	percent := func(v *float64) string {
		return optional(v, func(v float64) string { return fmt.Sprintf("%.1f%%", v) })
	}
	var b bytes.Buffer
	affinity := "off"
	if r.Affinity {
		affinity = "on"
	}
	a.pairs(&b,
		"affinity", affinity,
		"requests", fmt.Sprintf("%d in %.0f s, %s; %d more were running at the end", r.Requests, r.Seconds, plural(r.Errors, "error", "errors"), r.Cut),
		"prompt from cache", percent(r.HitPercent),
		"stayed at home", percent(r.StickyPercent),
		"first token p50", optional(r.TTFBP50Seconds, secondsText),
		"output tokens/min", fmt.Sprintf("%.0f", r.OutputTokensPerMinute))
	b.WriteString("\n")
	t := a.newTable(">replica", "state", ">requests", ">sticky", ">placed", ">spilled in", ">rehomed", ">balanced", ">hits")
	for _, row := range r.Replicas {
		t.add(count(row.Index), row.State, count(row.Requests), count(row.Sticky), count(row.Placed), count(row.Spilled), count(row.Rehomed), count(row.Balanced), percent(row.HitPercent))
	}
	t.print(&b)
	return a.write(b.Bytes())
}
