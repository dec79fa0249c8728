package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"

	"github.com/lmwarden/lmwarden/bench/report"
	simrun "github.com/lmwarden/lmwarden/sim/run"
)

// TestSimulateJSON prints one object with the figures at its top.
func TestSimulateJSON(t *testing.T) {
	got := lmwarden(t, nil, "", "simulate", "--preset", "a4000/qwen3-4b", "--replicas", "4", "--sessions", "12", "--policy", "seed",
		"--minutes", "2", "--warmup", "0.5", "--runs", "2", "--seed", "7", "-o", "json")
	if got.code != 0 || got.err != "" {
		t.Fatalf("exit code %d: %s", got.code, got.err)
	}
	var row struct {
		report.Row
		Version  string
		Settings simulateSettings
	}
	if err := json.Unmarshal([]byte(got.stdout), &row); err != nil {
		t.Fatal(err)
	}
	if row.Arm != "seed" || row.Sessions != 12 || row.Runs != 2 || *row.OutputTokensPerMinute < 5000 || *row.HitPercent < 50 || *row.TTFBP50Seconds <= 0 {
		t.Errorf("row %+v", row.Row)
	}
	if len(row.PerRun) != 2 || row.PerRun[0].Seed != 7 || row.PerRun[1].Seed != 8 || row.PerRun[0].Seconds != 120 {
		t.Errorf("runs %+v", row.PerRun)
	}
	if s := row.Settings; s.Preset != "a4000/qwen3-4b" || s.CapacityTokens < 45_000 || s.Load.Turns != 6 || s.Minutes != 2 || s.WarmupMinutes != 0.5 || row.Version == "" {
		t.Errorf("settings %+v of version %q", s, row.Version)
	}
}

// TestSimulateForms prints several rows as a table, as CSV and as a page.
func TestSimulateForms(t *testing.T) {
	args := []string{"simulate", "--policy", "off,working_set", "--sessions", "2,4", "--minutes", "1", "--warmup", "0", "-o"}
	for form, want := range map[string][]string{
		"table": {"sessions/h", "prefix hits %", "working-set", "stayed %"},
		"csv":   {"arm,sessions,round,seed,seconds,sessionsPerHour", "\noff,4,1,1,60,"},
		"html":  {"<!doctype html>", "<svg", "max_num_seqs 32", "working-set"},
	} {
		got := lmwarden(t, nil, "", append(args, form)...)
		if got.code != 0 || got.err != "" {
			t.Fatalf("%s: exit code %d: %s", form, got.code, got.err)
		}
		for _, text := range want {
			if !strings.Contains(got.stdout, text) {
				t.Errorf("%s lacks %q:\n%.600s", form, text, got.stdout)
			}
		}
	}
}

// TestSimulateList describes every load and policy.
func TestSimulateList(t *testing.T) {
	got := lmwarden(t, nil, "", "simulate", "--list")
	for _, s := range simrun.Scenarios() {
		if !strings.Contains(got.stdout, s.Name) || !strings.Contains(got.stdout, s.About) {
			t.Errorf("the list lacks %s", s.Name)
		}
	}
	for _, name := range simrun.PolicyNames() {
		if !strings.Contains(got.stdout, name) || simrun.PolicyAbout(name) == "" {
			t.Errorf("the list lacks %s", name)
		}
	}
}

// shortTrace writes a trace of one conversation, and returns its path.
func shortTrace(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, []byte(`{"at":0,"done":3,"conversation":"a","prompt":9000,"output":50}
{"at":5,"conversation":"a","prompt":9400,"output":50}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSimulateTrace plays a file to its end, and lets replicas die in it: their times count
// from its beginning.
func TestSimulateTrace(t *testing.T) {
	path := shortTrace(t)
	got := lmwarden(t, nil, "", "simulate", "--trace", path, "-o", "csv")
	lines := strings.Split(got.stdout, "\n")
	if got.code != 0 || len(lines) < 2 || !strings.HasPrefix(lines[1], "seed,1,1,1,") {
		t.Errorf("exit code %d: %s%s", got.code, got.err, got.stdout)
	}
	got = lmwarden(t, nil, "", "simulate", "--trace", path, "--replicas", "1", "--death", "5s:0:500ms", "-o", "json")
	var doc struct {
		report.Row
		Settings simulateSettings
	}
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || got.code != 0 {
		t.Fatalf("exit code %d, %v: %s", got.code, err, got.err)
	}
	if deaths := strings.Join(doc.Settings.Deaths, "; "); deaths != "replica 0 at 5s, back at 5.5s" || *doc.HitPercent != 0 || *doc.Errors != 0 {
		t.Errorf("with %q %.0f %% hits, %.0f errors; want none between the turns at 5s", deaths, *doc.HitPercent, *doc.Errors)
	}
	got = lmwarden(t, nil, "", "simulate", "--trace", path, "--death", "1m:1")
	if got.code != exitFailure || !strings.Contains(got.err, "before replica 1 was to die after 1m0s") || got.stdout != "" {
		t.Errorf("a death after the end: exit code %d: %s%s", got.code, got.err, got.stdout)
	}
}

// TestSimulateResume stops in the middle and goes on; the rows are those of a series
// that was never stopped.
func TestSimulateResume(t *testing.T) {
	flags := simulateFlags{
		preset: "a4000/qwen3-4b", replicas: 4, policies: []string{"off", "seed"}, sessions: []int{4}, load: "seed",
		minutes: 1, runs: 2, seed: 1, seqs: 32, batched: 2048, resume: filepath.Join(t.TempDir(), "series.json"),
	}
	s, err := flags.series(only("minutes", "warmup"))
	if err != nil {
		t.Fatal(err)
	}
	a := &app{streams: streams{err: new(strings.Builder), out: new(strings.Builder), getenv: func(string) string { return "" }}, output: outputTable}
	ledger, err := report.OpenLedger(flags.resume, s.settings)
	if err != nil {
		t.Fatal(err)
	}
	first := s
	first.runs = 1
	if _, err := a.playSeries(t.Context(), first, ledger); err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if runs, err := a.playSeries(stopped, s, ledger); !errors.Is(err, context.Canceled) || len(runs) != 1 {
		t.Fatalf("stopped after %d runs with %v; the first was done before", len(runs), err)
	}
	if err := a.simulate(stopped, flags, only("minutes", "warmup")); exitCode(err) != exitInterrupted {
		t.Errorf("an interrupt ends with %v", err)
	}
	ledger, err = report.OpenLedger(flags.resume, s.settings)
	if err != nil || len(ledger.Runs()) != 2 {
		t.Fatalf("%d runs were kept, %v", len(ledger.Runs()), err)
	}
	resumed, err := a.playSeries(t.Context(), s, ledger)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := report.OpenLedger("", s.settings)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := a.playSeries(t.Context(), s, memory)
	if err != nil {
		t.Fatal(err)
	}
	one, _ := json.Marshal(resumed)
	other, _ := json.Marshal(whole)
	if len(whole) != 4 || string(one) != string(other) {
		t.Errorf("resumed:\n%s\nwhole:\n%s", one, other)
	}
	flags.minutes = 2
	if err := a.simulate(t.Context(), flags, only("minutes", "warmup")); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("other settings on the same file: %v", err)
	}
}

// only says that these flags were given.
func only(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

// TestSimulateRefusals turns what cannot be into a sentence, before anything is played.
func TestSimulateRefusals(t *testing.T) {
	trace := shortTrace(t)
	for want, args := range map[string][]string{
		"no policy":            {"--policy", "best"},
		"names no policy":      {"--policy", ""},
		"no load":              {"--load", "heavy"},
		"no simulated box":     {"--preset", "h100"},
		"replicas is 0":        {"--replicas", "0"},
		"0 sessions":           {"--sessions", "4,0"},
		"0 minutes":            {"--minutes", "0"},
		"above 0":              {"--warmup", "-1"},
		"0 runs":               {"--runs", "0"},
		"think time":           {"--think", "often"},
		"death":                {"--death", "now"},
		"only 4":               {"--death", "1m:4"},
		"dead then":            {"--death", "1m:1:9m,2m:1"},
		"names seed twice":     {"--policy", "seed,hash,seed"},
		"seed-recent twice":    {"--policy", "seed_recent,seed-recent"},
		"names 24 twice":       {"--sessions", "24,8,24"},
		"threshold is -5":      {"--spill-threshold", "-5"},
		"give --calibrate too": {"--model", "m"},
		"run is over after":    {"--trace", trace, "--death", "1000h:1"},
		"leave --sessions out": {"--trace", trace, "--sessions", "4"},
		"leave --load out":     {"--trace", trace, "--load", "bursts"},
		"leave --think out":    {"--trace", trace, "--think", "exp:5"},
		"leave --stagger out":  {"--trace", trace, "--stagger", "5s"},
		"holds 5000":           {"--capacity", "5000"},
		"computes at once":     {"--max-num-seqs", "0"},
		"trace cannot be read": {"--trace", "/nonexistent"},
		"not a form":           {"-o", "pdf"},
		"no form \"yaml\"":     {"-o", "yaml"},
		"leave --output json":  {"--list", "-o", "json"},
		"unknown flag":         {"--speed", "5"},
		"grows to":             {"--load", "farm-27b", "--preset", "a4000/qwen3-4b"},
	} {
		got := lmwarden(t, nil, "", append([]string{"simulate"}, args...)...)
		if want == "not a form" {
			want = "does not exist"
		}
		if got.code != exitUsage || !strings.Contains(got.err, want) || got.stdout != "" {
			t.Errorf("%v: exit code %d: %s%s; want a sentence with %q", args, got.code, got.err, got.stdout, want)
		}
	}
}

// TestArms holds every arm to what it changes, and to what it leaves as it was.
func TestArms(t *testing.T) {
	threshold := uint32(3)
	own := &lmwardenv1.RoutingSettings{SpillThreshold: &threshold, Spill: lmwardenv1.SpillRule_SPILL_RULE_PRICED, Admission: lmwardenv1.Admission_ADMISSION_WORKING_SET}
	for arm, want := range map[string]string{
		"off":         "false/unknown/priced/3/working set",
		"on":          "true/unknown/priced/3/working set",
		"hash":        "true/hash/count/4096/none",
		"blind":       "true/least loaded/count/3/none",
		"lopsided:.2": "true/least loaded/count/3/none",
		"round robin": "true/round robin/count/3/none",
		"random":      "true/random/count/3/none",
		"seed":        "true/least loaded/count/3/none",
		"priced":      "true/least loaded/priced/3/none",
		"working_set": "true/least loaded/count/3/working set",
	} {
		s, err := armSettings(arm, own)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join([]string{
			map[bool]string{true: "true", false: "false"}[s.GetAffinity()], enumWord(s.GetPolicy()), enumWord(s.GetSpill()),
			count(s.GetSpillThreshold()), enumWord(s.GetAdmission()),
		}, "/")
		if got != want {
			t.Errorf("%s sets %s, want %s", arm, got, want)
		}
	}
	if _, err := armSettings("lopsided:7", own); err == nil {
		t.Error("an arm leans by 7")
	}
	ranks, seen := blindRanks("blind", 1, 3), map[int]bool{}
	for range 100 {
		seen[ranks()] = true
	}
	if len(seen) != 3 || !seen[0] || !seen[2] || blindRanks("seed", 1, 3) != nil {
		t.Errorf("blind names the replicas %v, seed must name none", seen)
	}
	if own.Affinity != nil {
		t.Error("an arm changed the model's own settings")
	}
	for _, name := range simrun.PolicyNames() {
		p, err := simrun.FindPolicy(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := armSettings(name, nil); (err != nil) != p.OnlySimulated() {
			t.Errorf("the policy %s of simulate as an arm: %v", name, err)
		}
	}
}
