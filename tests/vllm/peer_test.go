//go:build vllm

package vllm

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// peerAlias is another name of the model.
const peerAlias = "gpt-of-peers"

// peerRequests are a path and a body each, of every API: whole and streamed, good and
// refused. A stream is one token long: an engine may put two tokens into one event, or
// not.
var peerRequests = [][2]string{
	{"/v1/chat/completions", `{"model":%q,"temperature":0,"max_tokens":4,"messages":[{"role":"user","content":"Grüezi ☀"}]}`},
	{"/v1/chat/completions", `{"model":%q,"temperature":0,"max_tokens":4,"logprobs":true,"top_logprobs":2,"n":1,"messages":[{"role":"system","content":"Speak."},{"role":"user","content":"hi"}]}`},
	{"/v1/chat/completions", `{"model":%q,"temperature":0,"max_tokens":4,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"auto"}`},
	{"/v1/chat/completions", `{"model":%q,"temperature":0,"max_tokens":1,"stream":true,"messages":[{"role":"user","content":"hi"}]}`},
	{"/v1/chat/completions", `{"model":%q,"temperature":0,"max_tokens":1,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`},
	{"/v1/chat/completions", `{"model":%q,"temperature":0,"max_tokens":1,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"messages":[{"role":"user","content":"hi"}]}`},
	{"/v1/chat/completions", `{"model":%q,"temperature":0,"max_tokens":1,"stream":true,"stream_options":{"include_usage":false},"messages":[{"role":"user","content":"hi"}]}`},
	{"/v1/chat/completions", `{"model":%q,"temperature":0,"max_tokens":1,"stream":true,"stream_options":{"continuous_usage_stats":true},"messages":[{"role":"user","content":"hi"}]}`},
	{"/v1/chat/completions", `{"model":%q,"temperature":0,"max_tokens":1,"stream":true,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`},
	{"/v1/completions", `{"model":%q,"temperature":0,"max_tokens":4,"prompt":"def f"}`},
	{"/v1/completions", `{"model":%q,"temperature":0,"max_tokens":2,"prompt":"def f","echo":true,"logprobs":1}`},
	{"/v1/completions", `{"model":%q,"temperature":0,"max_tokens":1,"prompt":[300,301],"stream":true}`},
	{"/v1/responses", `{"model":%q,"temperature":0,"max_output_tokens":4,"input":"hi"}`},
	{"/v1/responses", `{"model":%q,"temperature":0,"max_output_tokens":1,"input":"hi","stream":true}`},
	{"/v1/messages", `{"model":%q,"temperature":0,"max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`},
	{"/v1/messages?beta=true", `{"model":%q,"temperature":0,"max_tokens":1,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`},
	{"/v1/messages/count_tokens", `{"model":%q,"messages":[{"role":"user","content":"hi"}]}`},
	{"/tokenize", `{"model":%q,"prompt":"def f"}`},
	{"/detokenize", `{"model":%q,"tokens":[300,301]}`},
	{"/v1/embeddings", `{"model":%q,"input":"hi"}`},
	{"/v1/rerank", `{"model":%q,"query":"a","documents":["b"]}`},
	{"/v1/score", `{"model":%q,"text_1":"a","text_2":"b"}`},
	{"/v1/chat/completions", `{"model":%q}`},
	{"/v1/chat/completions", `{"model":%q,"messages":[{"role":"user","content":"hi"}],"temperature":-1}`},
	{"/v1/chat/completions", `{"model":%q,"messages":[{"role":"user","content":"hi"}],"max_tokens":9000000}`},
	{"/v1/chat/completions", `{"model":%q,"messages":"hi","stream":true}`},
	{"/v1/chat/completions", `{"model":%q,"messages":[{"role":"user","content":"hi"}],"tools":[],"tool_choice":"required"}`},
	{"/v1/completions", `{"model":%q,"prompt":"hi","n":0}`},
	{"/v1/responses", `{"model":%q}`},
	{"/v1/responses", `{"model":%q,"input":"hi","previous_response_id":3}`},
	{"/v1/messages", `{"model":%q,"messages":[]}`},
	{"/v1/messages", `{"model":%q,"max_tokens":4,"stream":true,"messages":[{"role":"user","content":[{"type":"nothing"}]}]}`},
	{"/tokenize", `{"model":%q}`},
}

// peerAnswer is an answer less what differs from one to the next.
type peerAnswer struct {
	Status int
	Header http.Header
	Body   string
}

// What two answers to one request may differ in: ids, times, and what the first left in
// the engine's cache.
var passing = regexp.MustCompile(`"[a-z_]*cached?_[a-z_]*tokens":[0-9]+|[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}[-0-9a-f]*|[0-9a-f]{16}|"created(_at)?":[0-9.]+|"completed_at":[0-9.]+`)

// ask sends a request under one of the model's names.
func (s *suite) ask(t *testing.T, url string, request [2]string, name string, header ...string) peerAnswer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+request[0], strings.NewReader(fmt.Sprintf(request[1], name)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", request[0], request[1], err)
	}
	for name := range answer.Header {
		if name == "Date" || name == "Content-Length" || strings.HasPrefix(name, "X-Lmwarden-") {
			answer.Header.Del(name)
		}
	}
	return peerAnswer{answer.StatusCode, answer.Header, passing.ReplaceAllString(string(body), "…")}
}

// engineKey returns the key that the daemon made for the present life of an engine.
func engineKey(t *testing.T, pid int) string {
	t.Helper()
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut("\x00"+string(env), "\x00VLLM_API_KEY=")
	if !ok {
		t.Fatalf("the environment of process %d has no key for the engine", pid)
	}
	key, _, _ := strings.Cut(rest, "\x00")
	return key
}

// peers sends each request to a real engine and through the daemon to the same one: the
// answers are the same, and by an alias only the model's name differs.
func (s *suite) peers(t *testing.T) {
	replica := s.replicas(t)[0]
	engine, key := replica.GetUrl(), engineKey(t, int(replica.GetPid()))
	for _, request := range peerRequests {
		want := s.ask(t, engine, request, model, "Authorization", "Bearer "+key)
		if want.Status == http.StatusUnauthorized {
			t.Fatalf("the engine does not take its own key: %s", want.Body)
		}
		got := s.ask(t, s.InferenceURL, request, model, "X-Data-Parallel-Rank", "0")
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s %s (-engine +daemon):\n%s", request[0], request[1], d)
		}
		want.Body = strings.ReplaceAll(want.Body, `"model":"`+model+`"`, `"model":"`+peerAlias+`"`)
		got = s.ask(t, s.InferenceURL, request, peerAlias, "X-Data-Parallel-Rank", "0")
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s %s by an alias (-engine +daemon):\n%s", request[0], request[1], d)
		}
		t.Logf("%s: %d, %d bytes", request[0], want.Status, len(want.Body))
	}
}
