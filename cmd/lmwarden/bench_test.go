package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lmwarden/lmwarden/bench/report"
	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// newEndpoint answers messages at once, with a token for each four bytes.
func newEndpoint(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Lmwarden-Replica", "qwen3-4b/1")
		fmt.Fprint(w, "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"hello\"}}\n\n")
		fmt.Fprintf(w, "data: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":%d,\"output_tokens\":1,\"cache_read_input_tokens\":0}}\n\n", n/4)
		fmt.Fprint(w, "data: {\"type\":\"message_stop\"}\n\n")
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestBenchSessions measures two arms of a daemon and puts its routing back.
func TestBenchSessions(t *testing.T) {
	box := newFakeBox(t)
	box.inference = newEndpoint(t)
	got := box.lmwarden(t, "bench", "sessions", "--arms", "off,hash", "--steps", "2", "--duration", "1s", "-o", "json")
	if got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.err)
	}
	var series struct {
		Settings benchSettings
		Results  []report.Row
	}
	if err := json.Unmarshal([]byte(got.stdout), &series); err != nil {
		t.Fatal(err)
	}
	if set := series.Settings; set.URL != box.inference || set.Model != "qwen3-4b" || set.Load.BytesPerToken < 3.9 || set.Load.BytesPerToken > 4.1 || set.Load.Turns != 6 {
		t.Errorf("settings %+v", set)
	}
	if len(series.Results) != 2 || series.Results[0].Arm != "off" || series.Results[1].Arm != "hash" {
		t.Fatalf("rows %+v", series.Results)
	}
	for _, row := range series.Results {
		if *row.Requests == 0 || *row.Errors != 0 || row.StayedPercent == nil || *row.StayedPercent != 100 {
			t.Errorf("row %+v", row)
		}
	}
	var arms []string
	for _, call := range box.calls {
		if r, ok := call.(*lmwardenv1.UpdateRoutingRequest); ok {
			arms = append(arms, fmt.Sprintf("%t %s", r.GetSettings().GetAffinity(), enumWord(r.GetSettings().GetPolicy())))
		}
	}
	if got := strings.Join(arms, ", "); got != "false unknown, true hash, true unknown" {
		t.Errorf("the routing was changed to %s; the last must be what was before", got)
	}
}

// TestBenchURL measures an endpoint without a daemon, as one arm.
func TestBenchURL(t *testing.T) {
	got := lmwarden(t, nil, "", "bench", "sessions", "--url", newEndpoint(t), "--model", "m", "--steps", "1", "--duration", "1s", "-o", "csv")
	if got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.err)
	}
	rows, err := csv.NewReader(strings.NewReader(got.stdout)).ReadAll()
	if err != nil || len(rows) != 2 || rows[1][0] != "as is" || rows[1][1] != "1" {
		t.Errorf("rows %v, %v", rows, err)
	}
	// An endpoint that is none: the sentence says what it answered.
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	got = lmwarden(t, nil, "", "bench", "sessions", "--url", page.URL, "--model", "m")
	if got.code != exitFailure || !strings.Contains(got.err, "cannot be measured") || !strings.Contains(got.err, "404") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

// newEndpointThat is newEndpoint, which is asked before each request whether it answers; a
// request that it does not is refused with 503.
func newEndpointThat(t *testing.T, answers func() bool) string {
	t.Helper()
	behind, err := url.Parse(newEndpoint(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answers() {
			http.Error(w, "full", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestBenchWarmup answers in the warm-up what no figure counts.
func TestBenchWarmup(t *testing.T) {
	var requests atomic.Int32
	endpoint := newEndpointThat(t, func() bool { requests.Add(1); return true })
	got := lmwarden(t, nil, "", "bench", "sessions", "--url", endpoint, "--model", "m", "--steps", "1",
		"--warmup", "500ms", "--duration", "1s", "--think", "fixed:0.02", "-o", "json")
	var series struct {
		Settings benchSettings
		PerRun   []report.Run
	}
	if err := json.Unmarshal([]byte(got.stdout), &series); err != nil || got.code != 0 || len(series.PerRun) != 1 {
		t.Fatalf("exit code %d, %v: %s%s", got.code, err, got.stdout, got.err)
	}
	if series.Settings.WarmSeconds != 0.5 || series.PerRun[0].Seconds != 1 {
		t.Errorf("%g s after %g; want 1 after 0.5", series.PerRun[0].Seconds, series.Settings.WarmSeconds)
	}
	// Two are of the calibration, and one may be cut at the end.
	if counted, sent := int(*series.PerRun[0].Requests), int(requests.Load())-2; counted < 1 || counted > sent-2 {
		t.Errorf("%d of %d requests were counted; those of the warm-up must not", counted, sent)
	}
}
