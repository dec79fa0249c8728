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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// longEnough measures for a second, and for longer until there was enough in it: how much
// a step sees is a matter of what else the machine does meanwhile.
func longEnough(t *testing.T, measure func(length time.Duration) (enough bool)) {
	t.Helper()
	for length := time.Second; !measure(length); length *= 3 {
		if length > 20*time.Second {
			t.Fatalf("a step of %s did not see enough either", length)
		}
	}
}

// TestBenchSessions measures two arms of a daemon and puts its routing back.
func TestBenchSessions(t *testing.T) {
	var box *fakeBox
	var series struct {
		Settings benchSettings
		Results  []report.Row
	}
	longEnough(t, func(length time.Duration) bool {
		box = newFakeBox(t)
		box.inference = newEndpoint(t)
		got := box.lmwarden(t, "bench", "sessions", "--arms", "off,hash", "--steps", "2", "--duration", length.String(), "-o", "json")
		if got.code != 0 {
			t.Fatalf("exit code %d: %s", got.code, got.err)
		}
		series.Results = nil
		if err := json.Unmarshal([]byte(got.stdout), &series); err != nil {
			t.Fatal(err)
		}
		// A second turn has to be there to have stayed.
		return !slices.ContainsFunc(series.Results, func(row report.Row) bool { return row.StayedPercent == nil })
	})
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
	got := lmwarden(t, nil, "", "bench", "sessions", "--url", newEndpoint(t)+"/v1", "--model", "m", "--steps", "1", "--duration", "1s", "-o", "csv")
	if got.code != 0 || !strings.HasPrefix(got.err, "asking m at http://127.0.0.1:") {
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

// TestBenchWarmup answers in the warm-up what no figure counts. One session sends one
// request after the other, so that each has ended when the next one comes.
func TestBenchWarmup(t *testing.T) {
	longEnough(t, func(length time.Duration) bool {
		var mu sync.Mutex
		var came []time.Time
		endpoint := newEndpointThat(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			came = append(came, time.Now())
			return true
		})
		warm := length / 2
		got := lmwarden(t, nil, "", "bench", "sessions", "--url", endpoint, "--model", "m", "--steps", "1",
			"--warmup", warm.String(), "--duration", length.String(), "--think", "fixed:0.02", "-o", "json")
		var series struct {
			Settings benchSettings
			PerRun   []report.Run
		}
		if err := json.Unmarshal([]byte(got.stdout), &series); err != nil || got.code != 0 || len(series.PerRun) != 1 {
			t.Fatalf("exit code %d, %v: %s%s", got.code, err, got.stdout, got.err)
		}
		if series.Settings.WarmSeconds != warm.Seconds() || series.PerRun[0].Seconds != length.Seconds() {
			t.Errorf("%g s after %g; want %s after %s", series.PerRun[0].Seconds, series.Settings.WarmSeconds, length, warm)
		}
		mu.Lock() // one that was cut may have come just now
		defer mu.Unlock()
		// The first two are of the calibration: the warm-up began between the second and
		// the third. So some ended in it for sure, and others after it.
		warmed, most, least := 0, 0, 0
		for i := 2; i < len(came); i++ {
			ended := i+1 < len(came)
			if ended && came[i+1].Before(came[1].Add(warm)) {
				warmed++
				continue
			}
			most++
			if ended && came[i].After(came[2].Add(warm)) {
				least++
			}
		}
		counted := int(*series.PerRun[0].Requests)
		if counted < least || counted > most {
			t.Errorf("%d of %d requests were counted, want %d to %d: %d were of the warm-up", counted, len(came)-2, least, most, warmed)
		}
		return warmed > 0 && least > 0 || t.Failed()
	})
}
