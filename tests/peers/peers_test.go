package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/bench"
	"github.com/lmwarden/lmwarden/bench/report"
	"github.com/lmwarden/lmwarden/sim/engine"
	"github.com/lmwarden/lmwarden/tests/harness"
)

func TestSettings(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		says string // of the error; empty when there is none
	}{
		"as they are":    {"-peers DIR", ""},
		"no peers":       {"", "-peers is missing"},
		"bad steps":      {"-peers DIR -steps 8,many", `-steps has "many"`},
		"no step":        {"-peers DIR -steps 0", `-steps has "0"`},
		"too short":      {"-peers DIR -duration 1ms", "a step needs 1s"},
		"no speed":       {"-peers DIR -speed 0", "-speed is 0"},
		"not a speed":    {"-peers DIR -speed NaN", "-speed is NaN"},
		"no finalists":   {"-peers DIR -finalists -1", "-finalists is -1"},
		"none of ours":   {"-own -arms nginx", `no arm "nginx"`},
		"only peers":     {"-own -arms nginx\u00a0hash", "-own leaves no arm"},
		"an unknown arm": {"-peers DIR -arms carrier-pigeon", `no arm "carrier-pigeon"`},
	} {
		t.Run(name, func(t *testing.T) {
			args := strings.FieldsFunc(c.args, func(r rune) bool { return r == ' ' })
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "\u00a0", " ")
			}
			s, err := readSettings(args, io.Discard)
			if c.says == "" {
				if err != nil || len(s.arms) != len(arms()) || s.Load.Think.String() != "fixed:0.1" {
					t.Errorf("got %d arms, pauses %s, %v", len(s.arms), s.Load.Think.String(), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v; want one with %q", err, c.says)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	chosen, err := choose("lmwarden seed, nginx hash", nil)
	if err != nil || len(chosen) != 2 || chosen[0].name != "lmwarden seed" || chosen[1].name != "nginx hash" {
		t.Fatalf("chose %v, %v", chosen, err)
	}
}

// testBox stands for two engines.
func testBox(t *testing.T) box {
	t.Helper()
	preset, err := engine.FindPreset("a4000/qwen3-4b")
	if err != nil {
		t.Fatal(err)
	}
	return box{
		front: "127.0.0.1:40001", admin: "127.0.0.1:40002", urls: []string{"http://127.0.0.1:40003", "http://127.0.0.1:40004"},
		dir: t.TempDir(), binary: "/opt/lmwarden", peers: "/opt/peers", preset: preset, speed: 4,
	}
}

// TestArms checks that each arm listens at the front and knows all engines, by its
// command line or by a file that it wrote, and that tables say nothing of the machine.
func TestArms(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range arms() {
		t.Run(a.name, func(t *testing.T) {
			if seen[a.name] {
				t.Error("there is another arm of that name")
			}
			seen[a.name] = true
			if (a.version == "") == (a.ask == nil) {
				t.Error("its version is neither pinned nor asked for, or both")
			}
			b := testBox(t)
			args, err := a.command(b)
			if err != nil {
				t.Fatal(err)
			}
			all := strings.Join(args, " ")
			files, err := filepath.Glob(filepath.Join(b.dir, "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				all += string(data)
			}
			for _, want := range []string{"40001", "40003", "40004"} {
				if !strings.Contains(all, want) {
					t.Errorf("nothing says %s:\n%s", want, all)
				}
			}
			s := &series{box: b}
			if plain := s.plain(b, args); strings.Contains(plain, "4000") || strings.Contains(plain, b.dir) || strings.Contains(plain, "/opt") {
				t.Errorf("the command in the table tells of this machine: %s", plain)
			}
		})
	}
}

// TestPrograms checks the figures that program scheduling is told against the engine's
// own: a prompt of 7,000 tokens, and the room of its cache.
func TestPrograms(t *testing.T) {
	b := testBox(t)
	b.speed = 1
	p, cost := b.programs(), b.preset.Cost(1, 1)
	var exact float64
	for depth := range 7000 {
		exact += 1 / cost.PrefillRate(depth)
	}
	if told := p.Prefill.Intercept + 7*p.Prefill.Linear + 49*p.Prefill.Quadratic; told < 0.98*exact || told > 1.02*exact {
		t.Errorf("a prompt of 7,000 tokens is said to take %.3f s, the engine takes %.3f s", told, exact)
	}
	if p.Capacity < 40_000 || p.Capacity > 50_000 {
		t.Errorf("the capacity is %d tokens; the card holds about 46,000", p.Capacity)
	}
	b.speed = 4
	if fast := b.programs(); fast.Prefill.Linear*4 != p.Prefill.Linear || fast.Decode.Fixed*4 != p.Decode.Fixed || fast.Capacity != p.Capacity {
		t.Errorf("four times faster it is %+v, at its own speed %+v", fast, p)
	}
}

func TestTable(t *testing.T) {
	ledger, err := report.OpenLedger("", nil)
	if err != nil {
		t.Fatal(err)
	}
	p50 := 1.25
	for round := 1; round <= 2; round++ {
		step := bench.Step{Arm: "nginx hash", Sessions: 8, Round: round, Errors: 1, FirstError: "the endpoint answered 502: no", TTFB: bench.Quantiles{P50: &p50}}
		if err := ledger.Add(report.Of(step, 1)); err != nil {
			t.Fatal(err)
		}
	}
	b := testBox(t)
	s := &series{
		settings: settings{Replicas: 2, Speed: 4, Rounds: 2, Duration: time.Minute, arms: arms()},
		box:      b, engines: &engines{binary: "/opt/lmwarden"}, ledger: ledger,
		commands: map[string]string{"nginx hash": "nginx -c DIR/nginx.conf"}, versions: map[string]string{"nginx hash": "1.2.3"},
		problems: []string{"sglang-router is not installed"},
	}
	text := s.table(true)
	for _, want := range []string{
		"| nginx hash | 8 |", "1.25 ± 0.00", "Not measured: sglang-router is not installed.", "rows are missing",
		"first error: the endpoint answered 502: no.", "| nginx hash | 1.2.3 | `nginx -c DIR/nginx.conf` |", "2 rounds",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table does not say %q:\n%s", want, text)
		}
	}
}

func TestReplaceMarked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.md")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n" + markBegin + "old\n" + markEnd + "after\n")
	if err := replaceMarked(path, "new\n"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + markBegin + "new\n" + markEnd + "after\n"; string(data) != want {
		t.Errorf("it is %q, want %q", data, want)
	}
	write("no marks\n")
	if err := replaceMarked(path, "new\n"); err == nil || !strings.Contains(err.Error(), "has no lines") {
		t.Errorf("a document without marks gave %v", err)
	}
}

// TestProcessEndsItsChildren starts a shell with a child and checks that the group is
// gone after stop.
func TestProcessEndsItsChildren(t *testing.T) {
	dir := t.TempDir()
	p, err := start(dir, "shell", nil, []string{"/bin/sh", "-c", `sleep 600 & echo started; wait`})
	if err != nil {
		t.Fatal(err)
	}
	err = p.ready(t.Context(), func(context.Context) error {
		data, err := os.ReadFile(p.log)
		if err == nil && !strings.Contains(string(data), "started") {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p.stop()
	harness.Within(t, patience, func() error { // a killed process takes its moment to be gone
		if left := harness.Group(p.cmd.Process.Pid); len(left) > 0 {
			return fmt.Errorf("there are still %v", left)
		}
		return nil
	})
}

func TestProcessThatEndsAtItsStart(t *testing.T) {
	p, err := start(t.TempDir(), "shell", nil, []string{"/bin/sh", "-c", "echo the port is taken; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	err = p.ready(t.Context(), func(context.Context) error { return io.EOF })
	if err == nil || !strings.Contains(err.Error(), "the port is taken") {
		t.Errorf("the error is %v; want its last words", err)
	}
}

// measured is a series with one row for each output, in tokens a minute, at 24 sessions.
func measured(t *testing.T, outputs map[string]float64) *series {
	t.Helper()
	ledger, err := report.OpenLedger("", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, output := range outputs {
		if err := ledger.Add(report.Of(bench.Step{Arm: name, Sessions: 24, Round: 1, OutputTokensPerMinute: output}, 1)); err != nil {
			t.Fatal(err)
		}
	}
	return &series{settings: settings{Steps: []int{24}, Finalists: 2, arms: arms()}, ledger: ledger}
}

// TestStarters keeps our own arms and the best peers after the first round.
func TestStarters(t *testing.T) {
	s := measured(t, map[string]float64{
		"nginx hash": 300, "vllm-router programs": 500, "vllm-router random": 100, "nginx least_conn": 400, ownSeed: 50, ownBest: 600,
	})
	if n := len(s.starters(0, 24)); n != len(arms()) {
		t.Errorf("the first round has %d arms of %d", n, len(arms()))
	}
	var names []string
	for _, a := range s.starters(1, 24) {
		names = append(names, a.name)
	}
	if got := strings.Join(names, ", "); got != "nginx least_conn, vllm-router programs, lmwarden off, lmwarden seed, lmwarden working set" {
		t.Errorf("the second round has %s", got)
	}
	s.Finalists = 0
	if n := len(s.starters(1, 24)); n != len(arms()) {
		t.Errorf("without finalists the second round has %d arms of %d", n, len(arms()))
	}
}

// TestVerdict compares with the best peer and with the seed's rule.
func TestVerdict(t *testing.T) {
	s := measured(t, map[string]float64{"nginx hash": 1500, "vllm-router programs": 2000, ownSeed: 1400, ownBest: 2100})
	text := s.verdict()
	for _, want := range []string{"1.50 times that of lmwarden seed", "1.4 times: met", "1.05 times that of the best peer, vllm-router programs (2,000 tokens/min"} {
		if !strings.Contains(text, want) {
			t.Errorf("the verdict does not say %q: %s", want, text)
		}
	}
	if text := measured(t, map[string]float64{ownSeed: 2000, ownBest: 2100}).verdict(); !strings.Contains(text, "not met") || strings.Contains(text, "best peer") {
		t.Errorf("a gain of 5 %% without a peer: %s", text)
	}
	if text := measured(t, map[string]float64{"nginx hash": 1500}).verdict(); text != "" {
		t.Errorf("there is a verdict without us: %s", text)
	}
}

// TestBeside plays what was measured in virtual time and finds it in the terms of the
// card, whatever the speed.
func TestBeside(t *testing.T) {
	s := &series{settings: settings{
		Steps: []int{4}, Preset: "a4000/qwen3-4b", Replicas: 4, Speed: 2, Duration: 30 * time.Second, Seed: 1, arms: arms(),
	}}
	exact, err := s.play(t.Context(), "seed", 4, 2)
	if err != nil || exact.output < 3000 || exact.hits < 50 {
		t.Fatalf("virtual time gives %+v, %v", exact, err)
	}
	for factor, want := range map[float64]string{1: "0.0 % of the output apart, wanted are 10 %: met", 1.2: "20.0 % of the output apart, wanted are 10 %: not met"} {
		ledger, err := report.OpenLedger("", nil)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 2 {
			step := bench.Step{
				Arm: ownSeed, Sessions: 4, Round: round + 1, OutputTokensPerMinute: factor * exact.output * s.Speed,
				HitPercent: &exact.hits, TTFB: bench.Quantiles{P50: &exact.p50, Mean: &exact.mean},
			}
			if err := ledger.Add(report.Of(step, 1)); err != nil {
				t.Fatal(err)
			}
		}
		s.ledger = ledger
		text, err := s.beside(t.Context())
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%g times the output: %v\n%s", factor, err, text)
		}
	}
}
