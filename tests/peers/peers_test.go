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
		"an unknown arm": {"-peers DIR -arms carrier-pigeon", `no arm "carrier-pigeon"`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := readSettings(strings.Fields(c.args), io.Discard)
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
