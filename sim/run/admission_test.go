package run

import (
	"flag"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

// wholeTable has TestAdmissionTable play all its rows and print them: make admission-table.
var wholeTable = flag.Bool("admission.table", false, "play and print the whole table of docs/admission.md")

// boundOutput is the most that any policy can give which keeps caches for whole turns, in
// output tokens a minute at 24 to 48 sessions of the seed's load: 16 resident
// conversations that never wait.
const boundOutput = 17_500

// row compares working-set admission with the seed's rule on one load.
type row struct {
	load     string // scenario
	think    string // pause, when not the load's own
	sessions int    // 0 for the load's own
	stagger  time.Duration
	gain     float64 // least ratio of output to the seed's rule, as a mean over the seeds
	output   float64 // least output, tokens a minute; 0 for none
	hits     float64 // least share of prompt tokens from the cache, in percent; 0 for none
	runs     int     // of the whole table, when not 3: where single runs differ by more than the row allows
	quick    bool    // is played by every test run, with two seeds or three
	unseen   bool    // was not looked at while the rule was made
}

// rows is the table. What is at the break-even, or fits, may lose 1 % and no more.
func rows() []row {
	const bound = 0.95 * boundOutput
	return []row{
		{load: "seed", sessions: 8, gain: 0.99, quick: true},
		{load: "seed", sessions: 8, stagger: 90 * time.Second, gain: 0.99},
		{load: "seed", sessions: 16, gain: 0.99},
		{load: "seed", sessions: 24, gain: 1.4, output: bound, hits: 83, quick: true},
		{load: "seed", sessions: 32, gain: 1.5, output: bound, hits: 83},
		{load: "seed", sessions: 48, gain: 1.5, output: bound, hits: 83, quick: true},
		{load: "farm-27b", gain: 2.2},
		{load: "think-exp-5", sessions: 32, gain: 1.2, quick: true},
		{load: "think-exp-5", sessions: 40, gain: 1.2},
		{load: "think-mix", sessions: 32, gain: 1.2},
		{load: "think-mix", sessions: 40, gain: 1.2, quick: true},
		{load: "think-exp-30", sessions: 32, gain: 0.99},
		{load: "think-exp-30", sessions: 40, gain: 0.99},
		{load: "think-uniform", sessions: 24, gain: 0.99, runs: 12},
		{load: "think-uniform", sessions: 32, gain: 0.99, quick: true},
		{load: "think-uniform", sessions: 40, gain: 0.99},
		{load: "unequal", gain: 0.99},
		{load: "subagents", gain: 0.99},
		{load: "bursts", gain: 0.99},
		{load: "endless", gain: 0.99},
		{load: "death", gain: 0.99, quick: true},
		{load: "seed", think: "exp:20", sessions: 28, gain: 0.99, unseen: true},
		{load: "seed", think: "uniform:0.2-8", sessions: 36, gain: 0.99, unseen: true},
		{load: "seed", think: "fixed:3", sessions: 20, gain: 0.99, unseen: true},
		{load: "unequal", think: "exp:8", sessions: 20, gain: 0.99, unseen: true},
		{load: "subagents", think: "mix", sessions: 12, gain: 0.99, unseen: true},
		{load: "bursts", think: "exp:5", sessions: 32, gain: 0.99, unseen: true},
		{load: "endless", think: "exp:5", sessions: 10, gain: 0.99, unseen: true},
	}
}

// command is the row as somebody types it, with so many runs.
func (r row) command(runs int) string {
	c := "lmwarden simulate --policy seed,working-set --load " + r.load
	if r.sessions > 0 {
		c += fmt.Sprint(" --sessions ", r.sessions)
	}
	if r.think != "" {
		c += " --think " + r.think
	}
	if r.stagger > 0 {
		c += fmt.Sprint(" --stagger ", r.stagger)
	}
	return c + fmt.Sprint(" --runs ", runs)
}

func (r row) config(t *testing.T) Config {
	t.Helper()
	cfg := scenario(t, r.load)
	if r.sessions > 0 {
		cfg.Load.Sessions = r.sessions
	}
	if r.think != "" {
		think, err := load.ParseThink(r.think)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Load.Think = think
	}
	cfg.Load.Stagger = r.stagger
	return cfg
}

// played is what the two rules gave over some seeds.
type played struct {
	seed, working []Result
}

func (r row) play(t *testing.T, seeds int) played {
	t.Helper()
	var p played
	for s := range seeds {
		cfg := r.config(t)
		cfg.Seed = uint64(s) + 1
		cfg.Policy = policy(t, "seed")
		p.seed = append(p.seed, mustRun(t, cfg))
		cfg.Policy = policy(t, "working-set")
		p.working = append(p.working, mustRun(t, cfg))
	}
	return p
}

// gain returns the mean of the ratios of output by seed, and the lowest and highest.
func (p played) gain() (mean, low, high float64) {
	low = math.Inf(1)
	for i := range p.seed {
		g := p.working[i].OutputTokensPerMinute / p.seed[i].OutputTokensPerMinute
		mean += g / float64(len(p.seed))
		low, high = min(low, g), max(high, g)
	}
	return mean, low, high
}

func meanOf(rs []Result, f func(Result) float64) float64 {
	sum := 0.0
	for _, r := range rs {
		sum += f(r)
	}
	return sum / float64(len(rs))
}

func output(r Result) float64 { return r.OutputTokensPerMinute }
func hits(r Result) float64   { return r.HitPercent }

// markdown is the row of the table: output, hits, stayed, longest wait and mean wait of the
// slowest slot with either rule.
func (r row) markdown(p played, seeds int) string {
	arm := func(rs []Result) string {
		worst := func(f func(Result) float64) float64 {
			most := 0.0
			for _, x := range rs {
				most = max(most, f(x))
			}
			return most
		}
		return fmt.Sprintf("%.0f, %.1f %%, %.0f %%, %.0f s, %.1f s", meanOf(rs, output), meanOf(rs, hits),
			meanOf(rs, func(x Result) float64 { return x.StayedPercent }),
			worst(func(x Result) float64 { return x.LongestWaitSeconds }), worst(func(x Result) float64 { return x.SlowestSlotSeconds }))
	}
	mean, low, high := p.gain()
	note := ""
	if r.unseen {
		note = " (unseen)"
	}
	return fmt.Sprintf("| `%s`%s | %s | %s | **%.3f** (%.3f to %.3f) |", r.command(seeds)[len("lmwarden simulate --policy seed,working-set "):], note, arm(p.seed), arm(p.working), mean, low, high)
}

// TestAdmissionTable compares working-set admission with the rule without it: where there
// is much to gain, and where there is nothing and it must cost nothing.
func TestAdmissionTable(t *testing.T) {
	if *wholeTable {
		fmt.Println("| `lmwarden simulate --policy seed,working-set` | seed: output/min, hits, stayed, longest wait, slowest slot | working-set | ratio of outputs |")
		fmt.Println("|---|---|---|---|")
	}
	for _, r := range rows() {
		if !r.quick && !*wholeTable {
			continue
		}
		seeds := 2
		if r.gain < 1 {
			seeds = 3 // the row allows as little as single runs differ by
		}
		if *wholeTable {
			seeds = max(3, r.runs)
		}
		p := r.play(t, seeds)
		if *wholeTable {
			fmt.Println(r.markdown(p, seeds))
		}
		if mean, low, high := p.gain(); mean < r.gain {
			t.Errorf("%s: %.3f times the output of the seed's rule (%.3f to %.3f), want at least %.2f", r.command(seeds), mean, low, high, r.gain)
		}
		if got := meanOf(p.working, output); got < r.output {
			t.Errorf("%s: %.0f output tokens a minute, want at least %.0f", r.command(seeds), got, r.output)
		}
		if got := meanOf(p.working, hits); got < r.hits {
			t.Errorf("%s: %.1f %% of the prompt from the cache, want at least %.0f %%", r.command(seeds), got, r.hits)
		}
	}
}

// TestDoorWhereReadingIsCheap plays short conversations on engines with a small cache
// that read 3,000 and 100,000 tokens a second, and write in steps of 11 ms. No prompt is as
// long as a step. The door must find out what reading costs: where it costs much, keeping
// caches gives twice the output, and where it costs next to nothing, keeping places for
// who pauses would only leave engines idle.
func TestDoorWhereReadingIsCheap(t *testing.T) {
	for _, one := range []struct {
		rate, gain float64
	}{{3_000, 2}, {100_000, 0.94}} {
		output := map[string]float64{}
		for _, name := range []string{"seed", "working-set"} {
			p, err := FindPolicy(name)
			if err != nil {
				t.Fatal(err)
			}
			cfg := DefaultConfig(p, 16)
			cfg.Box = &engine.Preset{
				Card:  engine.Card{Name: "processor", Memory: 16e9, Bandwidth: 4.8e9, FLOPS: 24e6 * one.rate},
				Model: engine.Model{Name: "small", Architecture: "Qwen3ForCausalLM", Weights: 48e6, LinearFLOP: 24e6, KVBytes: 2048, MaxLen: 4096},
			}
			cfg.Replicas, cfg.MaxNumSeqs, cfg.BlockSize, cfg.CapacityTokens = 2, 8, 32, 6400
			cfg.Load = load.Load{
				Name: "small", Sessions: 16, SharedTokens: 300, First: load.Size{Min: 740, Max: 780},
				Turns: 6, TurnTokens: 40, OutputTokens: 32, Think: load.Fixed(100 * time.Millisecond),
			}
			cfg.Network, cfg.Warmup, cfg.Length = 70*time.Millisecond, 30*time.Second, 4*time.Minute
			r, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			output[name] = r.OutputTokensPerMinute
		}
		gain := output["working-set"] / output["seed"]
		t.Logf("at %.0f tokens a second admission gives %.2f times the output", one.rate, gain)
		if gain < one.gain {
			t.Errorf("at %.0f tokens a second admission gives %.2f times the output, want at least %.2f", one.rate, gain, one.gain)
		}
	}
}

func scenario(t *testing.T, name string) Config {
	t.Helper()
	s, err := FindScenario(name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Config(Policy{})
}
