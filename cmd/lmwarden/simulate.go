package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmwarden/lmwarden/bench/report"
	"github.com/lmwarden/lmwarden/sim/engine"
	simrun "github.com/lmwarden/lmwarden/sim/run"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	preset    string
	replicas  int
	sessions  []int
	policies  []string
	load      string
	trace     string
	think     string
	stagger   time.Duration
	deaths    []string
	minutes   float64
	warmup    float64
	runs      int
	seed      uint64
	capacity  int
	seqs      int
	batched   int
	threshold int
	resume    string
	calibrate string
	model     string
	list      bool
}

func (a *app) simulateCommand() *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Play a load against a simulated box, minutes in milliseconds",
		Long: "Play conversations against a simulated box in virtual time, with the routing code of\n" +
			"the daemon and a model of vLLM's scheduler and prefix cache. No GPU and no daemon is\n" +
			"needed. Several policies and numbers of sessions give a table; -o json, csv and html\n" +
			"give the rest. What the model is, and what it is not, is in docs/simulating.md.\n" +
			"An interrupt prints what is done; --resume FILE goes on from there.",
		Example: "  lmwarden simulate --sessions 24 --policy seed,working-set\n" +
			"  lmwarden simulate --policy off,hash,seed,working-set --sessions 4,8,16,24,32 --runs 3 -o html > report.html\n" +
			"  lmwarden simulate --load farm-27b --policy seed,working-set",
		Args: arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			if f.list {
				return a.listLoads()
			}
			return a.simulate(c.Context(), f, c.Flags().Changed)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.preset, "preset", "a4000/qwen3-4b", "card and model: "+strings.Join(engine.PresetNames(), ", "))
	fl.IntVar(&f.replicas, "replicas", 4, "replicas of the model, one card each")
	fl.IntSliceVar(&f.sessions, "sessions", nil, "conversations at the same time; several give a row each (default: the load's own)")
	fl.StringSliceVar(&f.policies, "policy", []string{"seed"}, "policies: "+strings.Join(simrun.PolicyNames(), ", "))
	fl.StringVar(&f.load, "load", "seed", "what the clients do; see --list")
	fl.StringVar(&f.trace, "trace", "", "file with a recorded trace to play instead, JSON lines")
	fl.StringVar(&f.think, "think", "", "pause between turns in seconds: fixed:0.4, exp:5, uniform:1-20 or mix")
	fl.DurationVar(&f.stagger, "stagger", 0, "time over which the first conversations begin; 0 begins all at once")
	fl.StringSliceVar(&f.deaths, "death", nil, "replica that dies: 6m:1 is replica 1 after 6 measured minutes, 6m:1:30s is back 30 s later")
	fl.Float64Var(&f.minutes, "minutes", 12, "minutes that are measured (farm-27b: 60)")
	fl.Float64Var(&f.warmup, "warmup", 3, "minutes before them that are not (farm-27b: 15)")
	fl.IntVar(&f.runs, "runs", 1, "runs of each row, with a seed each")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the first run")
	fl.IntVar(&f.capacity, "capacity", 0, "KV tokens of a replica; 0 takes the preset's")
	fl.IntVar(&f.seqs, "max-num-seqs", 32, "sequences that a replica computes at once")
	fl.IntVar(&f.batched, "max-num-batched-tokens", 2048, "tokens of one step of a replica")
	fl.IntVar(&f.threshold, "spill-threshold", 0, "requests in flight at which turns leave their home; 0 is a quarter of --max-num-seqs")
	fl.StringVar(&f.resume, "resume", "", "file that keeps what is done, and from which the series goes on")
	fl.StringVar(&f.calibrate, "calibrate", "", "URL of an idle vLLM to measure first; the preset's card is fitted to its counters (a series that goes on with --resume has them)")
	fl.StringVar(&f.model, "model", "", "name of the model that --calibrate asks for")
	fl.BoolVar(&f.list, "list", false, "list the loads and policies")
	return c
}

// listLoads prints what --load and --policy accept.
func (a *app) listLoads() error {
	if a.output != outputTable {
		return usageErrorf("--list is a table for people; leave --output %s out", a.output)
	}
	var b bytes.Buffer
	loads := a.newTable("load", ">sessions", "box", "what the clients do")
	for _, s := range simrun.Scenarios() {
		loads.add(s.Name, fmt.Sprint(s.Load.Sessions), fmt.Sprintf("%d x %s", s.Replicas, s.Preset), s.About)
	}
	loads.print(&b)
	b.WriteByte('\n')
	policies := a.newTable("policy", "how turns find their replicas")
	for _, name := range simrun.PolicyNames() {
		policies.add(name, simrun.PolicyAbout(name))
	}
	policies.print(&b)
	return a.write(b.Bytes())
}

// simulateSettings is what makes two series the same, but for how many arms, sessions
// and runs they have.
type simulateSettings struct {
	Preset           string         `json:"preset"`
	Calibrated       *engine.Preset `json:"calibrated,omitempty"`
	CalibratedFrom   string         `json:"calibratedFrom,omitempty"` // URL and model
	Replicas         int            `json:"replicas"`
	CapacityTokens   int            `json:"capacityTokens"`
	MaxNumSeqs       int            `json:"maxNumSeqs"`
	MaxBatchedTokens int            `json:"maxNumBatchedTokens"`
	BlockSize        int            `json:"blockSize"`
	SpillThreshold   int            `json:"spillThreshold"`
	Load             *load.Load     `json:"load,omitempty"`
	Trace            string         `json:"trace,omitempty"`
	TraceSHA256      string         `json:"traceSHA256,omitempty"`
	Deaths           []string       `json:"deaths,omitempty"`
	NetworkSeconds   float64        `json:"networkSeconds"`
	WarmupMinutes    float64        `json:"warmupMinutes"`
	Minutes          float64        `json:"minutes"`
	Seed             uint64         `json:"seed"`
	Version          string         `json:"version"`
}

// series is what simulate is asked to play.
type series struct {
	base     simrun.Config
	settings simulateSettings
	arms     []string
	policies map[string]simrun.Policy
	sessions []int
	runs     int
}

func (a *app) simulate(ctx context.Context, f simulateFlags, changed func(string) bool) error {
	if a.output == outputWide || a.output == outputYAML {
		return usageErrorf("simulate has no form %q; choose table, json, csv, html or svg", a.output)
	}
	f.calibrate = engineURL(f.calibrate)
	s, err := f.series(changed)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	if err := a.calibrated(ctx, f, &s); err != nil {
		return err
	}
	ledger, err := report.OpenLedger(f.resume, s.settings)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	runs, err := a.playSeries(ctx, s, ledger)
	if ctx.Err() != nil {
		err = errInterrupted
	}
	if len(runs) == 0 {
		return err
	}
	return errors.Join(a.printRuns(runs, s.page(err != nil), s.settings), err)
}

// check returns an error that names a flag which is out of range, or which another one
// leaves without effect.
func (f simulateFlags) check(changed func(string) bool) error {
	switch {
	case f.runs < 1 || f.runs > 1000:
		return fmt.Errorf("%d runs are not possible; choose 1 to 1000", f.runs)
	case len(f.policies) == 0:
		return errors.New("--policy names no policy")
	case f.threshold < 0:
		return fmt.Errorf("--spill-threshold is %d; it must be at least 1, or 0 for a quarter of --max-num-seqs", f.threshold)
	case f.model != "" && f.calibrate == "":
		return errors.New("--model names the model that --calibrate asks for; give --calibrate too, or leave --model out")
	case f.trace != "":
		return traceConflict(changed, "sessions", "load", "think", "stagger")
	}
	for i, n := range f.sessions {
		if slices.Index(f.sessions, n) < i {
			return fmt.Errorf("--sessions names %d twice; name it once, and --runs to repeat it", n)
		}
	}
	return nil
}

// series checks the flags and turns them into configurations.
func (f simulateFlags) series(changed func(string) bool) (series, error) {
	if err := f.check(changed); err != nil {
		return series{}, err
	}
	scenario, err := simrun.FindScenario(f.load)
	if err != nil {
		return series{}, err
	}
	s := series{policies: make(map[string]simrun.Policy), runs: f.runs, sessions: f.sessions}
	for _, name := range f.policies {
		p, err := simrun.FindPolicy(strings.TrimSpace(name))
		if err != nil {
			return series{}, err
		}
		if f.threshold > 0 && p.Settings.SpillThreshold == 0 {
			p.Settings.SpillThreshold = f.threshold
		}
		name = strings.ReplaceAll(strings.TrimSpace(name), "_", "-")
		if slices.Contains(s.arms, name) {
			return series{}, fmt.Errorf("--policy names %s twice; name it once, and --runs to repeat it", name)
		}
		s.arms = append(s.arms, name)
		s.policies[name] = p
	}
	if s.base, err = f.config(scenario, changed); err != nil {
		return series{}, err
	}
	if len(s.sessions) == 0 {
		s.sessions = []int{s.base.Load.Sessions}
	}
	if s.base.Trace != nil {
		s.sessions = []int{s.base.Trace.Conversations()}
	}
	for _, n := range s.sessions {
		if err := s.config(s.arms[0], n, 1).Validate(); err != nil {
			return series{}, err
		}
	}
	if s.settings, err = f.settings(s.base); err != nil {
		return series{}, err
	}
	return s, nil
}

// config makes the configuration that all runs share.
func (f simulateFlags) config(scenario simrun.Scenario, changed func(string) bool) (simrun.Config, error) {
	c := scenario.Config(simrun.Policy{})
	if changed("preset") {
		c.Preset = f.preset
	}
	if changed("replicas") {
		c.Replicas = f.replicas
	}
	c.MaxNumSeqs, c.MaxBatchedTokens, c.CapacityTokens, c.Seed = f.seqs, f.batched, f.capacity, f.seed
	if !(f.minutes > 0) || f.minutes > 1e5 || !(f.warmup >= 0) || f.warmup > 1e5 {
		return c, fmt.Errorf("%g minutes after %g of warm-up cannot be simulated; --minutes must be above 0 and --warmup not below", f.minutes, f.warmup)
	}
	if changed("warmup") {
		c.Warmup = minutes(f.warmup)
	}
	if changed("minutes") {
		c.Length = minutes(f.minutes)
	}
	c.Load.Stagger = f.stagger
	if f.think != "" {
		think, err := load.ParseThink(f.think)
		if err != nil {
			return c, err
		}
		c.Load.Think = think
	}
	deaths := scenario.Deaths
	if len(f.deaths) > 0 {
		deaths = nil
	}
	for _, text := range f.deaths {
		d, err := simrun.ParseDeath(text)
		if err != nil {
			return c, err
		}
		deaths = append(deaths, d)
	}
	if f.trace != "" {
		if err := f.play(&c, changed); err != nil {
			return c, err
		}
	}
	c.Deaths = simrun.After(c.Warmup, deaths)
	return c, nil
}

// play has the configuration play the trace.
func (f simulateFlags) play(c *simrun.Config, changed func(string) bool) error {
	data, err := os.ReadFile(f.trace)
	if err != nil {
		return fmt.Errorf("the trace cannot be read: %w", err)
	}
	if c.Trace, err = load.ReadTrace(bytes.NewReader(data)); err != nil {
		return err
	}
	if !changed("warmup") {
		c.Warmup = 0
	}
	if !changed("minutes") {
		c.Length = 2*c.Trace.Span() + 24*time.Hour // to its end, however slow the box
	}
	return nil
}

// minutes turns minutes into a duration of whole milliseconds.
func minutes(m float64) time.Duration {
	return time.Duration(math.Round(m*60_000)) * time.Millisecond
}
