package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/lmwarden/lmwarden/bench/report"
)

// countingEngine answers chat completions and counts as a vLLM does: 3,000 prompt
// tokens a second, 25 ms an output token, a token for each four bytes of the body.
type countingEngine struct {
	mu              sync.Mutex
	prompt, made    int
	prefill, decode float64
	requests        int
	running         int
	engines         int
}

func (e *countingEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.URL.Path == "/metrics" {
		for i := range e.engines {
			fmt.Fprintf(w, "vllm:num_requests_running{engine=\"%d\"} %d\nvllm:num_requests_waiting{engine=\"%d\"} 0\n", i, e.running, i)
		}
		fmt.Fprintf(w, "vllm:prompt_tokens_total{engine=\"0\"} %d\nvllm:generation_tokens_total{engine=\"0\"} %d\n", e.prompt, e.made)
		fmt.Fprintf(w, "vllm:prefix_cache_hits_total{engine=\"0\"} 0\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"2500\",engine=\"0\"} 1\n")
		for name, sum := range map[string]float64{"request_prefill_time_seconds": e.prefill, "request_decode_time_seconds": e.decode} {
			fmt.Fprintf(w, "# TYPE vllm:%s histogram\nvllm:%s_bucket{le=\"+Inf\"} %d\nvllm:%s_sum %g\nvllm:%s_count %d\n", name, name, e.requests, name, sum, name, e.requests)
		}
		return
	}
	body, err := io.ReadAll(r.Body)
	var asked struct {
		MaxTokens int `json:"max_tokens"`
	}
	if err != nil || json.Unmarshal(body, &asked) != nil {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	n := len(body) / 4
	e.requests++
	e.prompt += n
	e.made += asked.MaxTokens
	e.prefill += float64(n) / 3000
	e.decode += 0.025 * float64(asked.MaxTokens-1)
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", n, asked.MaxTokens)
}

// TestSimulateCalibrate fits the card to what an engine counts, and refuses one whose
// counters are not about the probes alone.
func TestSimulateCalibrate(t *testing.T) {
	e := &countingEngine{engines: 1}
	server := httptest.NewServer(e)
	defer server.Close()
	args := []string{"simulate", "--calibrate", server.URL, "--model", "m", "--sessions", "2", "--minutes", "1", "--warmup", "0", "-o", "json"}
	got := lmwarden(t, nil, "", args...)
	if got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.err)
	}
	var doc struct{ Settings simulateSettings }
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil {
		t.Fatal(err)
	}
	set := doc.Settings
	if set.Calibrated == nil || math.Abs(float64(set.CapacityTokens)-40_000) > 2 {
		t.Fatalf("settings %+v", set)
	}
	// 8k tokens took as long as at 3,000 a second, so at their mean depth the rate is that.
	if rate := set.Calibrated.Cost(1, 1).PrefillRate(4000); rate < 2950 || rate > 3100 {
		t.Errorf("%.0f tokens a second at 4k of context", rate)
	}
	if step := set.Calibrated.Cost(1, 1).Weights; step < 0.0235 || step > 0.0241 {
		t.Errorf("%.2f ms to read the weights; a step of 25 ms has 1 ms of its own and some context", 1000*step)
	}
	if !strings.Contains(got.err, "40.0k KV tokens") {
		t.Errorf("said %q", got.err)
	}
	for want, change := range map[string]func(){
		"is serving 1 request": func() { e.engines, e.running = 1, 1 },
		"reports 2 engines":    func() { e.engines, e.running = 2, 0 },
	} {
		change()
		if got := lmwarden(t, nil, "", args...); got.code != exitFailure || !strings.Contains(got.err, want) {
			t.Errorf("exit code %d: %s; want %q", got.code, got.err, want)
		}
	}
	if got := lmwarden(t, nil, "", "simulate", "--calibrate", server.URL); got.code != exitUsage || !strings.Contains(got.err, "--model") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

// TestCalibratedSeriesGoesOn takes the engine of a series as it was when the series began,
// also when it cannot be asked any more, and refuses another engine.
func TestCalibratedSeriesGoesOn(t *testing.T) {
	server := httptest.NewServer(&countingEngine{engines: 1})
	defer server.Close()
	file := filepath.Join(t.TempDir(), "series.json")
	run := func(runs, url string) command {
		return lmwarden(t, nil, "", "simulate", "--calibrate", url, "--model", "m", "--sessions", "2", "--minutes", "1", "--warmup", "0",
			"-o", "json", "--resume", file, "--runs", runs)
	}
	var doc struct {
		report.Row
		Settings simulateSettings
	}
	read := func(got command) {
		t.Helper()
		if got.code != 0 {
			t.Fatalf("exit code %d: %s", got.code, got.err)
		}
		if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil {
			t.Fatal(err)
		}
	}
	read(run("1", server.URL))
	first, box := doc.PerRun[0], *doc.Settings.Calibrated
	server.Close()
	again := run("2", server.URL)
	read(again)
	if len(doc.PerRun) != 2 || !reflect.DeepEqual(doc.PerRun[0], first) || !reflect.DeepEqual(*doc.Settings.Calibrated, box) {
		t.Errorf("%d runs, the first %+v, want two and first %+v", len(doc.PerRun), doc.PerRun[0], first)
	}
	if !strings.Contains(again.err, "as it was when "+file+" began") {
		t.Errorf("said %q", again.err)
	}
	other := httptest.NewServer(&countingEngine{engines: 1})
	defer other.Close()
	if got := run("2", other.URL); got.code != exitUsage || !strings.Contains(got.err, "other settings") {
		t.Errorf("another engine: exit code %d: %s", got.code, got.err)
	}
}
