//go:build !vllm

package contract

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lmwarden/lmwarden/supervisor/vllm"
	"github.com/lmwarden/lmwarden/tests/harness"
)

// The releases of vLLM that the simulated engine plays: 0.19 and so on.
const (
	oldestRelease = 19
	newestRelease = 33
)

// phases are the steps of a start that the supervisor must find in a log, in this order.
var phases = []string{
	"reading the configuration", "starting the engine", "connecting the cards", "loading weights", "weights loaded",
	"compiling", "sizing the KV cache", "capturing CUDA graphs", "engine is up", "opening the server", "answering",
}

// TestReaderByRelease lets the supervisor's reader of metrics and logs read what each
// release writes.
func TestReaderByRelease(t *testing.T) {
	t.Parallel()
	for r := oldestRelease; r <= newestRelease; r++ {
		deployments := []int{1}
		if slices.Contains([]int{oldestRelease, 27, newestRelease}, r) {
			deployments = append(deployments, 2)
		}
		for _, ranks := range deployments {
			t.Run(fmt.Sprintf("0.%d, %d ranks", r, ranks), func(t *testing.T) {
				p := simulated(t, 40)
				p.env = append(p.env, fmt.Sprintf("LMWARDEN_SIM_VERSION=0.%d", r))
				e := startWith(t, p, "--no-enforce-eager", "--data-parallel-size", fmt.Sprint(ranks))
				e.waitReady(t)
				readsRelease(t, e, r, ranks)
			})
		}
	}
}

func readsRelease(t *testing.T, e *engine, r, ranks int) {
	for rank := range ranks {
		for range 2 { // the second finds the first one's blocks
			got, err := exchange{
				path: "/v1/completions", header: []string{"X-Data-Parallel-Rank", fmt.Sprint(rank)},
				body: `{"model":"tiny","prompt":[` + strings.Repeat("5,", 99) + `5],"max_tokens":3,"ignore_eos":true}`,
			}.send(t.Context(), e.url)
			if err != nil || got.status != http.StatusOK {
				t.Fatalf("a request gave %+v, %v", got, err)
			}
		}
	}
	n := float64(ranks)
	page, err := exchange{method: http.MethodGet, path: "/metrics"}.send(t.Context(), e.url)
	if err != nil {
		t.Fatal(err)
	}
	f, err := vllm.ParseMetrics([]byte(page.body))
	if err != nil {
		t.Fatal(err)
	}
	number := func(v float64) *float64 { return &v }
	capacity := int64(blocks * blockSize * ranks)
	want := vllm.Figures{
		CapacityTokens: &capacity, Running: number(0), Waiting: number(0), KVUsed: number(0),
		PrefixQueries: number(200 * n), PrefixHits: number(96 * n), PromptTokens: number(200 * n), CachedTokens: number(96 * n),
		GenerationTokens: number(6 * n), Preemptions: number(0), Steps: number(6 * n),
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("figures of 0.%d (-want +got):\n%s", r, diff)
	}
	var log []byte
	harness.Within(t, soon, func() error { // the page may be there before the last line
		if log, err = os.ReadFile(e.log); err != nil {
			return err
		}
		if !strings.Contains(string(log), "Application startup complete") {
			return fmt.Errorf("the log does not say that the start is complete")
		}
		return nil
	})
	readsLog(t, string(log), r)
	got, err := exchange{method: http.MethodGet, path: "/version"}.send(t.Context(), e.url)
	if err != nil || got.body != fmt.Sprintf(`{"version":"0.%d.0"}`, r) {
		t.Errorf("the version is %s, %v", got.body, err)
	}
}

// readsLog checks the sizes and the phases that the log of a start tells.
func readsLog(t *testing.T, log string, r int) {
	t.Helper()
	var facts vllm.Figures
	seen := map[string]bool{}
	var order []string
	for line := range strings.SplitSeq(log, "\n") {
		vllm.Facts(line, &facts)
		name, shows := vllm.Phase(line)
		name, _, _ = strings.Cut(name, ",")
		if shows && !seen[name] {
			seen[name] = true
			order = append(order, name)
		}
	}
	if diff := cmp.Diff(phases, order); diff != "" {
		t.Errorf("phases of 0.%d (-want +got):\n%s", r, diff)
	}
	size := func(n int64) *int64 { return &n }
	want := vllm.Figures{
		MaxModelLen: size(maxModelLen), MaxNumSeqs: size(maxNumSeqs), MaxBatchedTokens: size(2048), CapacityTokens: size(blocks * blockSize),
	}
	if diff := cmp.Diff(want, facts); diff != "" {
		t.Errorf("facts of 0.%d (-want +got):\n%s", r, diff)
	}
}

// TestFlagOfAnotherRelease checks how an engine that does not know a flag ends, and that
// the supervisor can say why.
func TestFlagOfAnotherRelease(t *testing.T) {
	t.Parallel()
	p := simulated(t, 40)
	p.env = append(p.env, "LMWARDEN_SIM_VERSION=0.28")
	e := startWith(t, p, "--sse-keep-alive-interval", "5")
	if code := e.exitCode(t, soon); code != 2 {
		t.Errorf("the exit code is %d, want 2", code)
	}
	log, err := os.ReadFile(e.log)
	if err != nil {
		t.Fatal(err)
	}
	var d vllm.Diagnosis
	for line := range strings.SplitSeq(string(log), "\n") {
		d.Add(line)
	}
	cause, found := d.Cause()
	if want := "unrecognized arguments: --sse-keep-alive-interval"; !found || !strings.Contains(cause.Sentence, want) {
		t.Errorf("the diagnosis of %q is %+v, want %q", log, cause, want)
	}
}
