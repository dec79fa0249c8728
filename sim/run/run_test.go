package run

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func policy(t testing.TB, name string) Policy {
	t.Helper()
	p, err := FindPolicy(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustRun(t testing.TB, cfg Config) Result {
	t.Helper()
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestKnownFigures holds the four-card box to the figures of an earlier, separately
// written study of the same load: throughput within 10 %, hits within 5 points, and the
// median time to first byte of overloaded boxes within 15 %. Below the cliff the median
// is a fraction of a second and an absolute bound says more.
func TestKnownFigures(t *testing.T) {
	for _, c := range []struct {
		policy            string
		sessions          int
		output, hits, p50 float64
	}{
		{"blind", 24, 9_775, 33.5, 13.7},
		{"seed", 8, 11_691, 86.9, 0.43},
		{"seed", 16, 16_674, 84.9, 0.69},
		{"seed", 24, 11_246, 37.6, 12.7},
		{"seed", 32, 10_496, 27.9, 27.2},
		{"working-set", 8, 11_689, 86.9, 0.43},
		{"working-set", 16, 16_995, 85.7, 0.47},
		{"working-set", 24, 17_022, 84.9, 0.79},
		{"working-set", 32, 16_885, 83.3, 0.69},
	} {
		r := mustRun(t, DefaultConfig(policy(t, c.policy), c.sessions))
		if r.OutputTokensPerMinute < 0.9*c.output || r.OutputTokensPerMinute > 1.1*c.output {
			t.Errorf("%s at %d: %.0f output tokens a minute, want %.0f", c.policy, c.sessions, r.OutputTokensPerMinute, c.output)
		}
		if r.HitPercent < c.hits-5 || r.HitPercent > c.hits+5 {
			t.Errorf("%s at %d: %.1f %% hits, want %.1f", c.policy, c.sessions, r.HitPercent, c.hits)
		}
		if within := max(0.3, 0.15*c.p50); r.TTFB.P50 < c.p50-within || r.TTFB.P50 > c.p50+within {
			t.Errorf("%s at %d: median time to first byte %.2f s, want %.2f", c.policy, c.sessions, r.TTFB.P50, c.p50)
		}
	}
}

// short is a run that takes some milliseconds.
func short(t testing.TB, name string) Config {
	cfg := DefaultConfig(policy(t, name), 12)
	cfg.Warmup, cfg.Length = 10*time.Second, 2*time.Minute
	return cfg
}

func TestSameSeedSameResult(t *testing.T) {
	for _, name := range PolicyNames() {
		cfg := short(t, name)
		first := mustRun(t, cfg)
		if diff := cmp.Diff(first, mustRun(t, cfg)); diff != "" {
			t.Errorf("%s: the same seed gave another result:\n%s", name, diff)
		}
		cfg.Seed++
		if cmp.Equal(first, mustRun(t, cfg)) {
			t.Errorf("%s: another seed gave the same result", name)
		}
	}
}

// pinned is true for policies under which the client names the replica.
func pinned(p Policy) bool { return p.Blind || p.OnlySimulated() }

// TestBooks checks that the parts of a result add up.
func TestBooks(t *testing.T) {
	for _, name := range PolicyNames() {
		cfg := short(t, name)
		cfg.Warmup = 0
		r := mustRun(t, cfg)
		if r.FirstTurns.Count+r.LaterTurns.Count != r.Requests || r.Requests == 0 {
			t.Errorf("%s: %d first and %d later turns of %d", name, r.FirstTurns.Count, r.LaterTurns.Count, r.Requests)
		}
		if r.AnsweredTokensPerMinute > r.OutputTokensPerMinute || r.AnsweredTokensPerMinute < 0.7*r.OutputTokensPerMinute {
			t.Errorf("%s: %.0f tokens a minute of answers that ended, %.0f in all", name, r.AnsweredTokensPerMinute, r.OutputTokensPerMinute)
		}
		decided := r.Placed + r.Sticky + r.Spilled + r.Rehomed
		switch {
		case (name == "off" || pinned(policy(t, name))) && decided != 0:
			t.Errorf("%s: %d keyed decisions", name, decided)
		case name != "off" && !pinned(policy(t, name)) && (decided < r.Requests || decided > r.Requests+cfg.Load.Sessions):
			// Those that were decided and have no first token yet are at most one a slot.
			t.Errorf("%s: %d decisions for %d first tokens", name, decided, r.Requests)
		}
		if r.HitPercent <= 0 || r.HitPercent >= 100 || r.ReplicasBusy <= 0 || r.ReplicasBusy > 4 || r.SlowestSlotSeconds < r.TTFB.Mean {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestFirstTurnCost checks one lonely conversation against arithmetic: a first turn
// reads everything, and each later one only what is new.
func TestFirstTurnCost(t *testing.T) {
	cfg := DefaultConfig(policy(t, "seed"), 1)
	cfg.Replicas, cfg.Warmup, cfg.Length = 1, 0, 55*time.Second
	r := mustRun(t, cfg)
	if r.Sessions != 1 {
		t.Fatalf("%d conversations ended, want 1", r.Sessions)
	}
	// About 10,850 tokens at rates between 3,080 (7k deep) and 4,600 (at the beginning).
	if got := r.FirstTurns.Mean; got < 2.2 || got > 3.6 {
		t.Errorf("the first turn took %.2f s", got)
	}
	if got := r.LaterTurns.P50; got < 0.28 || got > 0.38 {
		t.Errorf("later turns took %.2f s; 400 new tokens and the network take about 0.33", got)
	}
}

// TestDeath lets one of four replicas die in the middle of a run. Less is done, the
// conversations that lived there go on elsewhere, and a replica that comes back takes
// part again.
func TestDeath(t *testing.T) {
	for _, name := range []string{"seed", "working-set", "off"} {
		cfg := DefaultConfig(policy(t, name), 16)
		whole := mustRun(t, cfg)
		cfg.Deaths = []Death{{Replica: 1, At: 9 * time.Minute}}
		dead := mustRun(t, cfg)
		if diff := cmp.Diff(dead, mustRun(t, cfg)); diff != "" {
			t.Errorf("%s: the same death gave another result:\n%s", name, diff)
		}
		cfg.Deaths[0].Back = cfg.Deaths[0].At + 30*time.Second
		back := mustRun(t, cfg)
		if dead.OutputTokensPerMinute >= back.OutputTokensPerMinute || dead.OutputTokensPerMinute >= 0.97*whole.OutputTokensPerMinute {
			t.Errorf("%s: %.0f tokens a minute with four replicas, %.0f with a death, %.0f with a return", name, whole.OutputTokensPerMinute, dead.OutputTokensPerMinute, back.OutputTokensPerMinute)
		}
		if name != "off" && dead.Rehomed == 0 {
			t.Errorf("%s: nobody was rehomed", name)
		}
		if dead.ReplicasBusy >= 3.7 || back.ReplicasBusy <= dead.ReplicasBusy {
			t.Errorf("%s: %.2f replicas busy with a death, %.2f with a return", name, dead.ReplicasBusy, back.ReplicasBusy)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"box":       func(c *Config) { c.Preset = "nothing" },
		"replicas":  func(c *Config) { c.Replicas = 0 },
		"sessions":  func(c *Config) { c.Load.Sessions = 0 },
		"length":    func(c *Config) { c.Length = 0 },
		"first":     func(c *Config) { c.Load.First.Max = c.Load.First.Min - 1 },
		"capacity":  func(c *Config) { c.CapacityTokens = 10_000 },
		"death":     func(c *Config) { c.Deaths = []Death{{Replica: 4}} },
		"dead then": func(c *Config) { c.Deaths = []Death{{At: time.Minute, Back: 9 * time.Minute}, {At: time.Second * 30}} },
		"is over":   func(c *Config) { c.Deaths = []Death{{At: time.Hour}} },
		"one step":  func(c *Config) { c.MaxBatchedTokens = -1 },
		"return":    func(c *Config) { c.Deaths = []Death{{At: time.Minute, Back: time.Second}} },
		"seqs":      func(c *Config) { c.MaxNumSeqs = 0 },
		"network":   func(c *Config) { c.Network = -1 },
	} {
		cfg := short(t, "seed")
		change(&cfg)
		if _, err := Run(t.Context(), cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := FindPolicy("nothing"); err == nil || !strings.Contains(err.Error(), "working-set") {
		t.Errorf("an unknown policy gave %v, want the names that exist", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, short(t, "seed")); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run gave %v", err)
	}
}

// BenchmarkQuarterHour runs 24 conversations on four replicas for 15 minutes.
func BenchmarkQuarterHour(b *testing.B) {
	for _, name := range []string{"seed", "working-set"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				mustRun(b, DefaultConfig(policy(b, name), 24))
			}
		})
	}
}

// TestRank holds a blind choice to the shares that it states.
func TestRank(t *testing.T) {
	luck := rand.New(rand.NewPCG(1, 2))
	for name, want := range map[string][]float64{
		"blind":      {0.25, 0.25, 0.25, 0.25},
		"lopsided":   {0.375, 0.25 + 0.5/12, 0.25 - 0.5/12, 0.125},
		"lopsided:1": {0.5, 1.0 / 3, 1.0 / 6, 0},
	} {
		const draws = 100_000
		var got [4]float64
		for range draws {
			got[policy(t, name).Rank(luck, len(got))] += 1.0 / draws
		}
		for i := range got {
			if math.Abs(got[i]-want[i]) > 0.01 {
				t.Errorf("%s: replica %d gets %.3f of the turns, want %.3f", name, i, got[i], want[i])
			}
		}
		if got := policy(t, name).Rank(luck, 1); got != 0 {
			t.Errorf("%s: the only replica is %d", name, got)
		}
	}
	for _, name := range []string{"lopsided:", "lopsided:2", "lopsided:NaN", "blind:0.2"} {
		if _, err := FindPolicy(name); err == nil {
			t.Errorf("%s is taken for a policy", name)
		}
	}
}
