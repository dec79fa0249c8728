package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/bench"
	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// TestDemo runs the whole demonstration for a few seconds: real engine processes,
// real conversations, one JSON object, and nothing left behind.
func TestDemo(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var report demoReport
	length := 3 * time.Second
	// What four engines get done in that time is a matter of what else the machine does:
	// it is given more until each has answered, and a conversation has gone on.
	for ; ; length *= 3 {
		got := lmwarden(t, nil, "", "demo", "--for", length.String(), "--sessions", "4", "--speed", "20", "-o", "json",
			"--inference-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
		if got.code != 0 {
			t.Fatalf("exit code %d:\n%s", got.code, got.err)
		}
		report = demoReport{}
		if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
			t.Fatalf("%v in %s", err, got.stdout)
		}
		idle := slices.ContainsFunc(report.Replicas, func(row demoReplica) bool { return row.HitPercent == nil })
		if report.Requests >= 8 && !idle || length > time.Minute {
			break
		}
		t.Logf("in %s there were %d requests", length, report.Requests)
	}
	if report.Requests < 8 || report.Errors != 0 || !report.Affinity || report.Sessions != 4 {
		t.Errorf("report %+v", report)
	}
	if report.StickyPercent == nil || *report.StickyPercent != 100 || report.HitPercent == nil || *report.HitPercent < 40 {
		t.Errorf("sticky %v, hits %v", report.StickyPercent, report.HitPercent)
	}
	if report.Seconds > length.Seconds() {
		t.Errorf("the traffic ran %g s, want %s without the start", report.Seconds, length)
	}
	if len(report.Replicas) != demoReplicas {
		t.Fatalf("%d replicas", len(report.Replicas))
	}
	for i, row := range report.Replicas {
		if row.Index != uint32(i) || row.State != "ready" || row.Placed == 0 || row.HitPercent == nil {
			t.Errorf("replica row %+v", row)
		}
	}
	var sent uint64
	for _, row := range report.Replicas {
		sent += row.Requests
	}
	if ended, all := uint64(report.Requests), uint64(report.Requests+report.Errors+report.Cut); sent < ended || sent > all {
		t.Errorf("the rows have %d requests, want %d that ended and not more than %d", sent, ended, all)
	}
	if left := engines(t); len(left) > 0 {
		t.Errorf("engines are left: %v", left)
	}
	if files, err := os.ReadDir(tmp); err != nil || len(files) > 0 {
		t.Errorf("files are left: %v, %v", files, err)
	}
}

// TestDemoInterrupted stops while engines start, and leaves nothing either.
func TestDemoInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // else it would clear what killed demos of others left
	ctx, cancel := context.WithCancelCause(t.Context())
	stderr := &waitFor{text: "replica", found: func() { cancel(errInterrupted) }}
	code := run(ctx, streams{
		in: strings.NewReader(""), out: &waitFor{}, err: stderr, now: time.Now,
		getenv: func(string) string { return "" },
	}, []string{"demo", "--no-traffic", "--inference-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"})
	if code != exitInterrupted && code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := engines(t); len(left) > 0 {
		t.Errorf("engines are left: %v", left)
	}
}

// TestDemoEndsWithItsModel removes the model while traffic runs.
func TestDemoEndsWithItsModel(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var addr string
	var removing sync.WaitGroup
	stderr := &addressOf{found: func(found string) {
		addr = found
		removing.Go(func() {
			if got := lmwarden(t, map[string]string{"LMWARDEN_ADDR": addr}, "", "model", "rm", demoModel); got.code != 0 {
				t.Errorf("the model was not removed: %s", got.err)
			}
		})
	}}
	code := run(t.Context(), streams{
		in: strings.NewReader(""), out: &waitFor{}, err: stderr, now: time.Now,
		getenv: func(string) string { return "" },
	}, []string{"demo", "--sessions", "2", "--speed", "20", "--inference-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"})
	removing.Wait()
	if code != 0 || !strings.Contains(stderr.all.String(), "was removed") {
		t.Errorf("exit code %d: %s", code, stderr.all.String())
	}
}

// addressOf is a writer that calls found once with the address of "try it".
type addressOf struct {
	mu    sync.Mutex
	all   strings.Builder
	found func(string)
}

func (w *addressOf) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Write(p)
	if _, rest, ok := strings.Cut(string(p), "--addr "); ok && w.found != nil {
		w.found(strings.Fields(rest)[0])
		w.found = nil
	}
	return len(p), nil
}

// TestServeSaysWhatIsMissing starts on a box without an engine, and is hung up on.
func TestServeSaysWhatIsMissing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stderr := &waitFor{text: "problem with the engine command: /nonexistent/vllm cannot be run", found: func() { cancel(errInterrupted) }}
	watchdog := time.AfterFunc(30*time.Second, func() { cancel(errors.New("the problem was not told")) })
	defer watchdog.Stop()
	code := run(ctx, streams{
		in: strings.NewReader(""), out: &waitFor{}, err: stderr, now: time.Now,
		getenv: func(string) string { return "" },
	}, []string{
		"serve", "--data-dir", t.TempDir(), "--engine-command", "/nonexistent/vllm", "--engine-device", "cpu",
		"--inference-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
	})
	if !errors.Is(context.Cause(ctx), errInterrupted) {
		t.Errorf("exit code %d: %v", code, context.Cause(ctx))
	}
}

// waitFor is a writer that calls found once when a text was written.
type waitFor struct {
	text  string
	found func()
}

func (w *waitFor) Write(p []byte) (int, error) {
	if w.found != nil && strings.Contains(string(p), w.text) {
		w.found()
		w.found = nil
	}
	return len(p), nil
}

// engines returns the process ids of engines that this test started.
func engines(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && strings.HasPrefix(string(data), self+"\x00"+vllmdVerb) {
			left = append(left, strings.Split(file, "/")[2])
		}
	}
	return left
}

// TestFreeAddress leaves a free address alone and avoids a taken one.
func TestFreeAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if got := freeAddress(t.Context(), address); got != "127.0.0.1:0" {
		t.Errorf("%s is taken and %s was chosen", address, got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := freeAddress(t.Context(), address); got != address {
		t.Errorf("%s is free and %s was chosen", address, got)
	}
}

// TestLocalURL turns the address of a listener into one that can be opened.
func TestLocalURL(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:8001":   "http://127.0.0.1:8001",
		"0.0.0.0:8001":     "http://127.0.0.1:8001",
		"[::]:8001":        "http://127.0.0.1:8001",
		"[::1]:8001":       "http://[::1]:8001",
		"192.168.1.5:8001": "http://192.168.1.5:8001",
	} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := localURL("http", tcp); got != want {
			t.Errorf("%s gave %s, want %s", addr, got, want)
		}
	}
}

// TestSimulationEnv passes on our own variables and no secret of anybody.
func TestSimulationEnv(t *testing.T) {
	got := simulationEnv([]string{"PATH=/bin", "LMWARDEN_SIM_FAULT=hang", "LMWARDEN_TOKEN=secret", "LMWARDEN_TEST_MARK=1", "HF_TOKEN=x"})
	if strings.Join(got, " ") != "LMWARDEN_SIM_FAULT LMWARDEN_TEST_MARK" {
		t.Errorf("passed on %v", got)
	}
}

// TestDemoCards follows which cards work.
func TestDemoCards(t *testing.T) {
	cards := newDemoCards()
	if cards.load("GPU-0") != -1 {
		t.Error("a card without an engine is busy")
	}
	replicas := []*lmwardenv1.Replica{{Index: 0, Pid: 1, Gpus: []string{"GPU-0"}}, {Index: 1, Pid: 2, Gpus: []string{"GPU-1"}}, {Index: 2, Gpus: []string{"GPU-2"}}}
	for range 10 {
		cards.update(replicas, map[uint32]bool{0: true})
	}
	if busy := cards.load("GPU-0"); busy < 0.9 || busy > 1 {
		t.Errorf("a card that computes is %g busy", busy)
	}
	if cards.load("GPU-1") != 0 || cards.load("GPU-2") != -1 {
		t.Errorf("an idle engine's card is %g busy, one without %g", cards.load("GPU-1"), cards.load("GPU-2"))
	}
	cards.update(nil, nil)
	if cards.load("GPU-0") != -1 {
		t.Error("a card whose engine ended is still busy")
	}
}

// TestStatusLine says what happened since the last line only.
func TestStatusLine(t *testing.T) {
	live := newLiveStatus()
	live.add(bench.Turn{Number: 1, Answer: bench.Answer{FirstToken: 400 * time.Millisecond, Usage: bench.Usage{Prompt: 100, Cached: 25}}})
	live.add(bench.Turn{Number: 2, Before: 0, Answer: bench.Answer{FirstToken: 200 * time.Millisecond, Usage: bench.Usage{Prompt: 100, Cached: 75}}})
	live.add(bench.Turn{Number: 1, Err: errors.New("refused")})
	live.add(bench.Turn{Number: 1, Err: context.Canceled, Cut: true})
	want := "12:00:00  2 turns, first token p50 0.20 s, 50% of the prompt from cache, 100% stayed, 1 error, the last: refused"
	if got := live.line(noon); got != want {
		t.Errorf("line %q, want %q", got, want)
	}
	if got := live.line(noon); got != "12:00:00  the turns are still being answered" {
		t.Errorf("the next line is %q", got)
	}
}
