//go:build vllm

package vllm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/tests/harness"
)

const model = "tiny"

// suite is the one start of the engines that all tests share: a start takes two
// minutes on two cores.
type suite struct {
	*harness.Daemon
}

func TestRealEngine(t *testing.T) {
	engine, clients := os.Getenv("LMWARDEN_VLLM"), os.Getenv("LMWARDEN_CLIENTS")
	if engine == "" || clients == "" {
		t.Fatal("LMWARDEN_VLLM and LMWARDEN_CLIENTS are not set: run make test-vllm")
	}
	s := &suite{harness.Start(t, harness.Options{Config: config(engine)})}

	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"two replicas become ready by a real token and show their KV size", s.becomeReady},
		{"Claude Code: two conversations of three turns stay home", s.claudeCode},
		{"the OpenAI and Anthropic SDKs stream", s.sdks},
		{"the page's figures are the engines' own", s.figures},
		// After the figures: it also asks an engine itself, which no history has.
		{"the daemon answers as the engine does", s.peers},
		{"an engine killed under a stream", s.killUnderStream},
		{"model stop under a stream leaves no process", s.stopUnderStream},
		{"Ctrl-C while engines start leaves no process", s.interrupt},
	} {
		begin := time.Now()
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
		t.Logf("%s: %.1f s", step.name, time.Since(begin).Seconds())
	}
}

// config declares the tiny model as two replicas of the CPU build.
func config(engine string) string {
	return fmt.Sprintf(`
engine:
  command: [%q]
  device: ENGINE_DEVICE_CPU
  drain_timeout: 3s
  pass_env: [LMWARDEN_TEST_MARK]
models:
  - name: %s
    spec:
      source: %s
      replicas: 2
      max_model_len: 65536
      max_num_seqs: 8
      aliases: [%q]
      tool_call_parser: hermes
      # bf16 kernels of the CPU build end some processors with SIGILL at the first token.
      extra_args: [--load-format, dummy, --enforce-eager, --block-size, "32", --dtype, float32]
      env:
        ONEDNN_MAX_CPU_ISA: AVX512_CORE
        VLLM_CPU_KVCACHE_SPACE: "1"
        VLLM_CPU_OMP_THREADS_BIND: nobind
        OMP_NUM_THREADS: "1"
        VLLM_NO_USAGE_STATS: "1"
        HF_HUB_OFFLINE: "1"
`, filepath.Join(engine, "venv/bin/vllm"), model, filepath.Join(engine, "model"), peerAlias)
}

func (s *suite) replicas(t *testing.T) []*lmwardenv1.Replica {
	t.Helper()
	answer, err := s.Replicas.ListReplicas(t.Context(), &lmwardenv1.ListReplicasRequest{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetReplicas()
}

// waitReady waits until both replicas are ready.
func (s *suite) waitReady(t *testing.T, patience time.Duration) {
	t.Helper()
	harness.Within(t, patience, func() error {
		replicas := s.replicas(t)
		if len(replicas) != 2 {
			return fmt.Errorf("%d replicas, want 2", len(replicas))
		}
		for _, r := range replicas {
			if r.GetState() == lmwardenv1.ReplicaState_REPLICA_STATE_FAILED {
				t.Fatalf("replica %d failed: %s", r.GetIndex(), r.GetMessage())
			}
			if r.GetState() != lmwardenv1.ReplicaState_REPLICA_STATE_READY {
				return fmt.Errorf("replica %d is %s (%s), last line %q", r.GetIndex(), r.GetState(), r.GetPhase(), r.GetLastLogLine())
			}
		}
		return nil
	})
}

func (s *suite) becomeReady(t *testing.T) {
	s.waitReady(t, 6*time.Minute)
	for _, r := range s.replicas(t) {
		// 1 GiB of cache at 1,024 B a token of the tiny model is a million tokens.
		if r.GetCapacityTokens() < 65536 {
			t.Errorf("replica %d shows a KV size of %d tokens; the engine holds at least one request of 65,536", r.GetIndex(), r.GetCapacityTokens())
		}
		if !strings.HasPrefix(r.GetEngineVersion(), "0.32.0") {
			t.Errorf("replica %d reports version %q, want 0.32.0", r.GetIndex(), r.GetEngineVersion())
		}
	}
}

// records returns the history of the model since a moment, oldest first.
func (s *suite) records(t *testing.T, since time.Time) []*lmwardenv1.RequestRecord {
	t.Helper()
	answer, err := s.Stats.ListRequests(t.Context(), &lmwardenv1.ListRequestsRequest{Model: model, PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var found []*lmwardenv1.RequestRecord
	for _, r := range answer.GetRequests() {
		if r.GetArrived().AsTime().After(since) {
			found = append([]*lmwardenv1.RequestRecord{r}, found...)
		}
	}
	return found
}

// counter reads one counter of an engine's own metrics.
func counter(t *testing.T, url, name string) float64 {
	t.Helper()
	answer, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `\{[^}]*\} (\S+)$`).FindSubmatch(text)
	if match == nil {
		t.Fatalf("%s has no %s", url, name)
	}
	value, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func (s *suite) figures(t *testing.T) {
	replicas := s.replicas(t)
	// Engine figures are read once a second; two readings after the last request
	// they are the engines' own.
	var prompt, cached float64
	harness.Within(t, 15*time.Second, func() error {
		answer, err := s.Routing.GetRouting(t.Context(), &lmwardenv1.GetRoutingRequest{Model: model})
		if err != nil {
			return err
		}
		prompt, cached = 0, 0
		for i, row := range answer.GetCard().GetReplicas() {
			url := replicas[i].GetUrl()
			hits, queries := counter(t, url, "vllm:prefix_cache_hits_total"), counter(t, url, "vllm:prefix_cache_queries_total")
			if queries == 0 {
				return fmt.Errorf("replica %d served nothing", i)
			}
			if math.Abs(row.GetPrefixHitRate()-hits/queries) > 1e-9 {
				return fmt.Errorf("replica %d: the card shows a hit rate of %v, the engine counts %v of %v", i, row.GetPrefixHitRate(), hits, queries)
			}
			prompt += counter(t, url, "vllm:prompt_tokens_total")
			cached += counter(t, url, "vllm:prompt_tokens_cached_total")
		}
		return nil
	})

	// What the history adds up to is what the engines counted, beside the readiness
	// requests of a few tokens each.
	var ours, ourCached uint64
	for _, r := range s.records(t, time.Time{}) {
		ours += r.GetPromptTokens()
		ourCached += r.GetCachedTokens()
	}
	if missing := prompt - float64(ours); missing < 0 || missing > 200 {
		t.Errorf("the history has %d prompt tokens, the engines counted %.0f; they may differ by the readiness requests only", ours, prompt)
	}
	if missing := cached - float64(ourCached); missing < 0 || missing > 200 {
		t.Errorf("the history has %d cached tokens, the engines counted %.0f", ourCached, cached)
	}
}

// stream is a long answer that is being read.
type stream struct {
	replica int
	done    chan struct{}
	text    string
	err     error
}

// openStream starts a long stream of a conversation on the replica that has the
// given index, and returns once its first event came. It ends by itself after
// tokens tokens.
func (s *suite) openStream(t *testing.T, session string, replica, tokens int) *stream {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":%d,"ignore_eos":true,"min_tokens":%d,"messages":[{"role":"user","content":"count"}]}`, model, tokens, tokens)
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, s.InferenceURL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Session-Id", session)
	request.Header.Set("X-Data-Parallel-Rank", strconv.Itoa(replica))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s: %s", answer.Status, text)
	}
	if got := answer.Header.Get("x-lmwarden-decision"); got != "client_pinned" {
		t.Fatalf("the decision is %q, want client_pinned", got)
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(answer.Body, first); err != nil {
		t.Fatal(err)
	}
	st := &stream{replica: replica, done: make(chan struct{})}
	go func() {
		defer close(st.done)
		defer answer.Body.Close()
		rest, err := io.ReadAll(answer.Body)
		st.text, st.err = string(first)+string(rest), err
	}()
	return st
}

func (st *stream) wait(t *testing.T, patience time.Duration) {
	t.Helper()
	select {
	case <-st.done:
	case <-time.After(patience):
		t.Fatalf("the stream on replica %d did not end within %s", st.replica, patience)
	}
}

func (s *suite) killUnderStream(t *testing.T) {
	before := s.replicas(t)
	tree := descendants(int(before[0].GetPid()))
	if len(tree) < 2 {
		t.Fatalf("the engine of replica 0 has %d descendants, want its EngineCore and its Worker", len(tree))
	}
	victim := s.openStream(t, "victim-conversation-1", 0, 20000)
	bystander := s.openStream(t, "bystander-conversation-1", 1, 1500)

	if err := syscall.Kill(int(before[0].GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	victim.wait(t, 30*time.Second)
	if strings.Contains(victim.text, "[DONE]") {
		t.Error("the cut stream ended as if it were whole")
	}
	if victim.err == nil && !strings.Contains(victim.text, `"error"`) {
		t.Errorf("the cut stream tells its client nothing; it ends with %q", tail(victim.text))
	}
	bystander.wait(t, 3*time.Minute)
	if bystander.err != nil || !strings.HasSuffix(bystander.text, "data: [DONE]\n\n") {
		t.Errorf("the other conversation was disturbed: %v, ends with %q", bystander.err, tail(bystander.text))
	}
	harness.Within(t, 20*time.Second, func() error {
		for _, pid := range tree {
			if alive(pid) {
				return fmt.Errorf("process %d of the dead engine is still there", pid)
			}
		}
		return nil
	})
	s.waitReady(t, 5*time.Minute)
	after := s.replicas(t)
	if after[0].GetIncarnation() <= before[0].GetIncarnation() {
		t.Errorf("the incarnation of the new engine is %d, was %d", after[0].GetIncarnation(), before[0].GetIncarnation())
	}
	if after[1].GetPid() != before[1].GetPid() {
		t.Error("the healthy replica was restarted too")
	}
}

func (s *suite) stopUnderStream(t *testing.T) {
	open := s.openStream(t, "stopped-conversation-1", 1, 20000)
	begin := time.Now()
	if _, err := s.Models.StopModel(t.Context(), &lmwardenv1.StopModelRequest{Name: model, Wait: true}); err != nil {
		t.Fatal(err)
	}
	// The drain time is 3 s; a vLLM that gets SIGTERM under a stream never ends.
	if took := time.Since(begin); took > 40*time.Second {
		t.Errorf("stopping took %s", took)
	}
	open.wait(t, 20*time.Second)
	if strings.Contains(open.text, "[DONE]") {
		t.Error("the cut stream ended as if it were whole")
	}
	s.noEngines(t)
}

func (s *suite) interrupt(t *testing.T) {
	if _, err := s.Models.StartModel(t.Context(), &lmwardenv1.StartModelRequest{Name: model}); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, 30*time.Second, func() error {
		for _, r := range s.replicas(t) {
			if r.GetPid() == 0 {
				return errors.New("an engine has no process yet")
			}
		}
		return nil
	})
	if code := s.Stop(60 * time.Second); code != 0 {
		t.Errorf("the daemon ended with %d after Ctrl-C, want 0", code)
	}
	s.noEngines(t)
}

// noEngines fails the test while a process other than the daemon carries its mark.
func (s *suite) noEngines(t *testing.T) {
	t.Helper()
	for pid, command := range harness.Processes("LMWARDEN_TEST_MARK", s.Mark) {
		if pid != s.PID() {
			t.Errorf("process %d is left over: %s", pid, command)
		}
	}
}

func tail(text string) string { return text[max(0, len(text)-300):] }
