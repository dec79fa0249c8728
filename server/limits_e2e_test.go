package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
)

// talkingEngine is an engine of somebody else that answers at once with 20 tokens of prompt
// and 5 of answer, as a stream where that is asked for; a stream of "stay" stays open.
type talkingEngine struct {
	url string

	mu   sync.Mutex
	last string // body of the last chat
}

func newTalkingEngine(t *testing.T) *talkingEngine {
	t.Helper()
	e := &talkingEngine{}
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `vllm:num_requests_running{engine="0"} 0.0`)
	})
	mux.HandleFunc("/v1/completions", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"choices":[{"text":"x"}]}`)
	})
	mux.HandleFunc("/v1/chat/completions", e.chat)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	e.url = srv.URL
	return e
}

func (e *talkingEngine) chat(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	e.last = string(text)
	e.mu.Unlock()
	const usage = `"usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}`
	if !strings.Contains(string(text), `"stream":true`) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],`+usage+`}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, word := range []string{"Hel", "lo"} {
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", word)
		w.(http.Flusher).Flush()
	}
	if strings.Contains(string(text), "stay") {
		<-r.Context().Done()
		return
	}
	fmt.Fprint(w, "data: {\"choices\":[],"+usage+"}\n\ndata: [DONE]\n\n")
}

func (e *talkingEngine) lastChat() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// startTalking starts a daemon with the model "m" on a talking engine and waits until it
// serves.
func startTalking(t *testing.T, cfg *lmwardenv1.Config) (*Server, *talkingEngine) {
	t.Helper()
	e := newTalkingEngine(t)
	cfg.Models = []*lmwardenv1.DeclaredModel{{Name: "m", Spec: &lmwardenv1.ModelSpec{ReplicaMode: lmwardenv1.ReplicaMode_REPLICA_MODE_REMOTE, RemoteUrls: []string{e.url}}}}
	s, err := start(t, Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	models := lmwardenv1connect.NewModelServiceClient(connect.NewClient(s.Transport()))
	eventually(t, "the model serves", func() bool {
		m, err := models.GetModel(t.Context(), &lmwardenv1.GetModelRequest{Name: "m"})
		return err == nil && m.GetModel().GetStatus().GetState() == lmwardenv1.ModelState_MODEL_STATE_READY
	})
	// It answers after a pass, when the proxy knows of it too.
	if _, err := models.StartModel(t.Context(), &lmwardenv1.StartModelRequest{Name: "m"}); err != nil {
		t.Fatal(err)
	}
	return s, e
}

// chatBody is a chat of the model "m" with further members, `"stream":true,`.
func chatBody(members, content string) string {
	return fmt.Sprintf(`{"model":"m",%s"messages":[{"role":"user","content":%q}]}`, members, content)
}

// limitedBox is a daemon whose clients have keys.
type limitedBox struct {
	*talkingEngine
	t    *testing.T
	url  string
	keys lmwardenv1connect.KeyServiceClient
}

// ask sends a chat of a key.
func (b *limitedBox) ask(ctx context.Context, path, key, body string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", jsonType)
	if path == "/v1/messages" {
		req.Header.Set("X-Api-Key", key)
	} else {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp
}

// status sends a short chat and returns the status of its answer.
func (b *limitedBox) status(key string) int {
	resp := b.ask(b.t.Context(), "/v1/chat/completions", key, chatBody("", "Hi"))
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// set changes one limit of a key.
func (b *limitedBox) set(key string, l *lmwardenv1.KeyLimits, path string) {
	b.t.Helper()
	if _, err := b.keys.UpdateKey(b.t.Context(), &lmwardenv1.UpdateKeyRequest{Name: key, Limits: l, UpdateMask: mask(path)}); err != nil {
		b.t.Fatal(err)
	}
}

// wantRefused checks the shape of a refusal on both APIs.
func (b *limitedBox) wantRefused(key string, status int, openAI, anthropic, sentence, body string) {
	b.t.Helper()
	for path, kind := range map[string]string{"/v1/chat/completions": openAI, "/v1/messages": anthropic} {
		resp := b.ask(b.t.Context(), path, key, body)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var got struct {
			Type  string
			Error struct{ Type, Message string }
		}
		if err != nil || json.Unmarshal(text, &got) != nil || resp.StatusCode != status || got.Error.Type != kind || !strings.Contains(got.Error.Message, sentence) {
			b.t.Errorf("%s: %s %s; want %d of type %s with %q", path, resp.Status, text, status, kind, sentence)
		}
		if path == "/v1/messages" && got.Type != "error" {
			b.t.Errorf("%s: type %q of the whole, want error: %s", path, got.Type, text)
		}
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); status == http.StatusTooManyRequests && (err != nil || seconds < 1 || seconds > 60) {
			b.t.Errorf("%s: Retry-After %q; want whole seconds from 1 to 60", path, resp.Header.Get("Retry-After"))
		}
	}
}

// What a limited client sees of the whole daemon, and what a change through the API does to
// its next request.
func TestLimitedClient(t *testing.T) {
	cfg := testConfig(t)
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("sk-one # alice\nsk-two # bob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.InferenceAuth = &lmwardenv1.InferenceAuth{KeysFile: file}
	s, e := startTalking(t, cfg)
	b := &limitedBox{
		talkingEngine: e, t: t, url: "http://" + s.InferenceAddr().String(),
		keys: lmwardenv1connect.NewKeyServiceClient(connect.NewClient(s.Transport())),
	}
	const tooMany, tooManyMessages = "RateLimitError", "rate_limit_error"

	// Requests at once: the one that is open counts, though it came before the limit; its
	// place is free when its client has left.
	ctx, leave := context.WithCancel(t.Context())
	open := b.ask(ctx, "/v1/chat/completions", "sk-one", chatBody(`"stream":true,`, "stay"))
	if open.StatusCode != http.StatusOK {
		t.Fatalf("the stream got %s", open.Status)
	}
	b.set("alice", &lmwardenv1.KeyLimits{MaxConcurrentRequests: proto.Uint32(1)}, "max_concurrent_requests")
	b.wantRefused("sk-one", 429, tooMany, tooManyMessages, "The key of alice is limited to 1 request at once", chatBody("", "Hi"))
	if got := b.status("sk-two"); got != 200 {
		t.Errorf("bob got %d", got)
	}
	leave()
	open.Body.Close()
	eventually(t, "the place of who left is free", func() bool { return b.status("sk-one") == 200 })
	b.set("alice", &lmwardenv1.KeyLimits{}, "max_concurrent_requests")

	// Requests a minute.
	b.set("alice", &lmwardenv1.KeyLimits{MaxRequestsPerMinute: proto.Uint32(1)}, "max_requests_per_minute")
	if got := b.status("sk-one"); got != 200 {
		t.Errorf("the first request of the minute got %d", got)
	}
	b.wantRefused("sk-one", 429, tooMany, tooManyMessages, "The key of alice is limited to 1 request a minute", chatBody("", "Hi"))
	b.set("alice", &lmwardenv1.KeyLimits{}, "max_requests_per_minute")

	// Tokens a minute: charged when the answer has ended.
	b.set("alice", &lmwardenv1.KeyLimits{MaxTokensPerMinute: proto.Uint32(1)}, "max_tokens_per_minute")
	if got := b.status("sk-one"); got != 200 {
		t.Errorf("the first tokens of the minute got %d", got)
	}
	eventually(t, "the tokens are charged", func() bool { return b.status("sk-one") == 429 })
	b.wantRefused("sk-one", 429, tooMany, tooManyMessages, "The key of alice is limited to 1 token a minute", chatBody("", "Hi"))
	b.set("alice", &lmwardenv1.KeyLimits{}, "max_tokens_per_minute")

	// The body, and the length of the answer.
	b.set("*", &lmwardenv1.KeyLimits{MaxBodyBytes: proto.Uint64(2048)}, "max_body_bytes")
	b.wantRefused("sk-one", 413, "RequestTooLargeError", "request_too_large", "over the limit of 2 KiB of the key of alice", chatBody("", strings.Repeat("long ", 500)))
	b.set("bob", &lmwardenv1.KeyLimits{MaxAnswerTokens: proto.Uint32(7)}, "max_answer_tokens")
	if got := b.status("sk-two"); got != 200 || !strings.Contains(b.lastChat(), `"max_completion_tokens":7`) {
		t.Errorf("bob got %d, the engine %s", got, b.lastChat())
	}
	if got := b.status("sk-one"); got != 200 || strings.Contains(b.lastChat(), "max_") {
		t.Errorf("alice got %d, the engine %s", got, b.lastChat())
	}
}
