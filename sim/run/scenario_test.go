package run

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lmwarden/lmwarden/sim/run/load"
)

// TestScenarios plays every named load for a while under two policies: the books must
// add up, the same seed must give the same, and nobody may be forgotten.
func TestScenarios(t *testing.T) {
	for _, s := range Scenarios() {
		if s.About == "" {
			t.Errorf("%s has no description", s.Name)
		}
		for _, name := range []string{"seed", "working-set"} {
			cfg := s.Config(policy(t, name))
			cfg.Warmup, cfg.Length, cfg.Deaths = 10*time.Second, 4*time.Minute, nil
			r := mustRun(t, cfg)
			if diff := cmp.Diff(r, mustRun(t, cfg)); diff != "" {
				t.Errorf("%s, %s: the same seed gave another result:\n%s", s.Name, name, diff)
			}
			if r.FirstTurns.Count+r.LaterTurns.Count != r.Requests || r.Requests == 0 || r.OutputTokensPerMinute <= 0 {
				t.Errorf("%s, %s: %+v", s.Name, name, r)
			}
			if r.LongestWaitSeconds > 320 {
				t.Errorf("%s, %s: a turn waited %.0f s for its first token", s.Name, name, r.LongestWaitSeconds)
			}
		}
	}
	if _, err := FindScenario("nothing"); err == nil || !strings.Contains(err.Error(), "death") {
		t.Errorf("an unknown load gave %v, want the names that exist", err)
	}
}

// TestAgents counts the turns of one conversation with agents: nothing else runs, so
// the times between its turns hold those of the agents.
func TestAgents(t *testing.T) {
	l, err := load.Find("subagents")
	if err != nil {
		t.Fatal(err)
	}
	l.Sessions, l.Think = 1, load.Fixed(time.Hour) // one conversation
	l.Agents.Load.Think, l.Turns, l.Agents.Every = load.Fixed(0), 2, 1
	cfg := DefaultConfig(policy(t, "seed"), 1)
	cfg.Load, cfg.Warmup, cfg.Length = l, 0, time.Hour
	r := mustRun(t, cfg)
	// One first turn of the conversation and three agents of four turns each; the hour
	// of thought leaves the second turn out.
	if r.FirstTurns.Count != 4 || r.LaterTurns.Count != 9 {
		t.Errorf("%d first and %d later turns, want 4 and 9", r.FirstTurns.Count, r.LaterTurns.Count)
	}
	cfg.Length = 3 * time.Hour
	r = mustRun(t, cfg)
	if r.FirstTurns.Count < 8 || r.Sessions < 1 {
		t.Errorf("%d first turns, %d conversations ended: the conversation did not go on after its agents", r.FirstTurns.Count, r.Sessions)
	}
}

// TestBursts checks that conversations begin only when they may.
func TestBursts(t *testing.T) {
	l, err := load.Find("bursts")
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig(policy(t, "seed"), 1)
	cfg.Load, cfg.Warmup, cfg.Length = l, 0, 10*time.Minute-time.Second
	cfg.Load.Sessions = 4
	// A conversation of six turns takes about a minute, so each burst finds all slots.
	if r := mustRun(t, cfg); r.FirstTurns.Count != 4*5 || r.Sessions != 4*5 {
		t.Errorf("%d conversations began and %d ended in five bursts of 4", r.FirstTurns.Count, r.Sessions)
	}
}

// TestTrace plays a trace once and stops at its end.
func TestTrace(t *testing.T) {
	tr, err := load.ReadTrace(strings.NewReader(`
{"at":0,"done":4,"conversation":"a","prompt":10000,"output":256,"shared":"s","sharedTokens":3500}
{"at":5,"done":10,"conversation":"b","prompt":9000,"output":256,"shared":"s","sharedTokens":3500}
{"at":14,"conversation":"a","prompt":10656,"output":256}
{"at":15,"conversation":"c","kind":"side","prompt":400,"output":16}
`))
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig(policy(t, "working-set"), 1)
	cfg.Trace, cfg.Warmup, cfg.Length, cfg.Replicas = tr, 0, time.Hour, 1
	r := mustRun(t, cfg)
	if r.Requests != 4 || r.Sessions != 3 || r.Seconds < 20 || r.Seconds > 40 {
		t.Errorf("%d requests, %d conversations in %.1f s", r.Requests, r.Sessions, r.Seconds)
	}
	// Found: 3,488 of b's prompt (full blocks of the shared part) and 10,240 of a's second.
	if want := 100 * float64(3488+10240) / float64(10000+9000+10656+400); r.HitPercent < want-0.1 || r.HitPercent > want+0.1 {
		t.Errorf("%.2f %% hits, want %.2f", r.HitPercent, want)
	}
	cfg.Warmup = time.Hour
	if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "nothing was measured") {
		t.Errorf("a warm-up longer than the trace gave %v", err)
	}
	cfg.Warmup, cfg.Deaths = 0, []Death{{At: 30 * time.Minute}}
	if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "before replica 0 was to die after 30m0s") {
		t.Errorf("a death after the trace gave %v", err)
	}
	cfg.Deaths[0].At = 2 * time.Hour
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "the run is over after 1h0m0s") {
		t.Errorf("a death after the length gave %v", err)
	}
	cfg.Deaths, cfg.CapacityTokens = nil, 5000
	if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "trace grows to") {
		t.Errorf("a trace too long for the box gave %v", err)
	}
}

func TestParseDeath(t *testing.T) {
	for s, want := range map[string]Death{
		"6m:1":      {Replica: 1, At: 6 * time.Minute},
		"0s:0:1m":   {At: 0, Back: time.Minute},
		"90s:3:30s": {Replica: 3, At: 90 * time.Second, Back: 2 * time.Minute},
	} {
		if d, err := ParseDeath(s); err != nil || d != want {
			t.Errorf("%q reads as %+v, %v", s, d, err)
		}
	}
	for _, s := range []string{"", "6m", "6m:", "6m:x", "1:6m", "-1m:1", "6m:1:0s", "6m:1:1m:2"} {
		if d, err := ParseDeath(s); err == nil {
			t.Errorf("%q reads as %+v", s, d)
		}
	}
	moved := After(3*time.Minute, []Death{{At: time.Minute}, {At: time.Minute, Back: 2 * time.Minute}})
	if moved[0].At != 4*time.Minute || moved[0].Back != 0 || moved[1].Back != 5*time.Minute {
		t.Errorf("moved to %+v", moved)
	}
}
