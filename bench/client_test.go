package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const messagesStream = `event: message_start
data: {"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":900,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}

: a comment
event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Hello"},"index":0}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"text_delta","text":" you"},"index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":60,"output_tokens":2,"cache_creation_input_tokens":40,"cache_read_input_tokens":800}}

`

const messagesEnd = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

const chatStream = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}

data: {"choices":[{"index":0,"delta":{"reasoning_content":"Hm."}}]}

data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}

data: {"choices":[],"usage":{"prompt_tokens":900,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":800}}}

`

// TestSend reads both APIs, and tells a whole answer from one that broke off.
func TestSend(t *testing.T) {
	tests := []struct {
		name    string
		api     API
		stream  string
		text    string
		usage   Usage
		wantErr string
	}{
		{"messages", Messages, messagesStream + messagesEnd, "Hello you", Usage{900, 800, 2}, ""},
		{"messages cut", Messages, messagesStream, "Hello you", Usage{900, 800, 2}, ErrCut.Error()},
		{"chat", Chat, chatStream + "data: [DONE]\n\n", "Hello", Usage{900, 800, 3}, ""},
		{"chat with CRLF", Chat, strings.ReplaceAll(chatStream+"data: [DONE]\n\n", "\n", "\r\n"), "Hello", Usage{900, 800, 3}, ""},
		{"chat cut", Chat, chatStream, "Hello", Usage{900, 800, 3}, ErrCut.Error()},
		{"no cached tokens", Chat, `data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}` + "\n\ndata: [DONE]\n\n", "a", Usage{5, -1, 1}, ""},
		{"error inside", Messages, "data: {\"type\":\"error\",\"error\":{\"message\":\"engine is gone\"}}\n\n", "", Usage{}, "engine is gone"},
		{"not JSON", Messages, "data: hello\n\n", "", Usage{}, "not JSON"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				w.Header().Set("x-lmwarden-replica", "qwen3-4b/3")
				w.Header().Set("x-lmwarden-decision", "sticky")
				io.WriteString(w, test.stream)
			}))
			defer server.Close()
			client := Client{BaseURL: server.URL, Model: "m", API: test.api, HTTP: server.Client()}
			answer, err := client.Send(t.Context(), Ask{Conversation: "0123", History: []Message{{"user", "hi"}}, MaxTokens: 5})
			if test.wantErr == "" && err != nil || test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
				t.Fatalf("error %v, want %q", err, test.wantErr)
			}
			if answer.Text != test.text || answer.Usage != test.usage && test.usage != (Usage{}) {
				t.Errorf("answer %q with %+v, want %q with %+v", answer.Text, answer.Usage, test.text, test.usage)
			}
			if answer.Replica != 3 || answer.Decision != "sticky" {
				t.Errorf("replica %d, decision %q", answer.Replica, answer.Decision)
			}
			if (answer.FirstToken > 0) != (test.text != "") {
				t.Errorf("first token after %s with text %q", answer.FirstToken, test.text)
			}
		})
	}
}

// TestLateHeaders reads where a stream came from behind its body, as LM Warden says it of
// one that waited.
func TestLateHeaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("Trailer", "X-Lmwarden-Replica, X-Lmwarden-Decision")
		w.Header().Set("X-Lmwarden-Replica", "qwen3-4b/1") // which died before it answered
		io.WriteString(w, messagesStream+messagesEnd)
		w.(http.Flusher).Flush()
		w.Header().Set("X-Lmwarden-Replica", "qwen3-4b/3")
		w.Header().Set("X-Lmwarden-Decision", "placed")
	}))
	defer server.Close()
	client := Client{BaseURL: server.URL, Model: "m", API: Messages, HTTP: server.Client()}
	answer, err := client.Send(t.Context(), Ask{Conversation: "0123", History: []Message{{"user", "hi"}}, MaxTokens: 5})
	if err != nil || answer.Replica != 3 || answer.Decision != "placed" || answer.Text != "Hello you" {
		t.Errorf("got %+v, %v", answer, err)
	}
}

// TestRequestShape holds both requests to what agents send.
func TestRequestShape(t *testing.T) {
	ask := Ask{
		Conversation: "aabbccdd-0000-4000-8000-000000000000",
		System:       "be brief",
		History:      []Message{{"user", "one"}, {"assistant", "two"}, {"user", "three"}},
		MaxTokens:    256,
	}
	read := func(t *testing.T, api API) (*http.Request, map[string]any) {
		client := Client{BaseURL: "http://box:8000/", Model: "qwen", Key: "k1", API: api, Rank: func() int { return 3 }}
		req, err := client.request(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		if body["model"] != "qwen" || body["stream"] != true || body["max_tokens"] != 256.0 {
			t.Errorf("body %v", body)
		}
		if got := req.Header.Get("Authorization"); got != "Bearer k1" {
			t.Errorf("authorization %q", got)
		}
		if got := req.Header.Get("X-Data-Parallel-Rank"); got != "3" {
			t.Errorf("the named replica is %q", got)
		}
		return req, body
	}
	t.Run("messages", func(t *testing.T) {
		req, body := read(t, Messages)
		if req.URL.String() != "http://box:8000/v1/messages?beta=true" || req.Header.Get("X-Claude-Code-Session-Id") != ask.Conversation {
			t.Errorf("%s with headers %v", req.URL, req.Header)
		}
		system := body["system"].([]any)
		if first := system[0].(map[string]any)["text"].(string); !strings.HasPrefix(first, "x-anthropic-billing-header:") {
			t.Errorf("the first system block is %q", first)
		}
		if second := system[1].(map[string]any)["text"]; second != "be brief" {
			t.Errorf("the second system block is %q", second)
		}
		if user := body["metadata"].(map[string]any)["user_id"].(string); !strings.Contains(user, ask.Conversation) {
			t.Errorf("metadata.user_id %q", user)
		}
		if n := len(body["messages"].([]any)); n != 3 {
			t.Errorf("%d messages, want 3", n)
		}
	})
	t.Run("chat", func(t *testing.T) {
		req, body := read(t, Chat)
		if req.URL.Path != "/v1/chat/completions" || req.Header.Get("X-Session-Id") != ask.Conversation {
			t.Errorf("%s with headers %v", req.URL, req.Header)
		}
		if n := len(body["messages"].([]any)); n != 4 {
			t.Errorf("%d messages, want 4 with the system prompt", n)
		}
	})
}

// TestSendRefused prints the server's own sentence, whatever shape it has.
func TestSendRefused(t *testing.T) {
	tests := []struct {
		name   string
		status int
		kind   string
		body   string
		want   string
	}{
		{"anthropic", 401, "application/json", `{"type":"error","error":{"type":"authentication_error","message":"no key"}}`, "answered 401: no key"},
		{"openai", 404, "application/json", `{"error":{"message":"no model x","code":404}}`, "answered 404: no model x"},
		{"no such path", 404, "application/json", `{"detail":"Not Found"}`, "answered 404: it has no /v1/messages"},
		{"text", 502, "text/plain", "bad gateway\n", "answered 502: bad gateway"},
		{"long", 500, "text/plain", strings.Repeat("x", 1000), "…"},
		{"a web page", 200, "text/html", "<html>", `"text/html" where a stream`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			}))
			defer server.Close()
			client := Client{BaseURL: server.URL, HTTP: server.Client()}
			_, err := client.Send(t.Context(), Ask{Conversation: "0123"})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one with %q", err, test.want)
			}
			var status *StatusError
			if got := errors.As(err, &status); got != (test.status != 200) {
				t.Errorf("a StatusError: %t", got)
			}
		})
	}
}

// TestCalibrate finds the ratio of an endpoint whose template adds to each prompt.
func TestCalibrate(t *testing.T) {
	const bytesPerToken, template = 5, 37
	counting := func(tokens func(text int) int) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var body messagesRequest
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":%d}}\n\n%s",
				tokens(len(body.Messages[0].Content[0].Text)), messagesEnd)
		}))
	}
	server := counting(func(text int) int { return template + text/bytesPerToken })
	defer server.Close()
	client := Client{BaseURL: server.URL, HTTP: server.Client()}
	got, err := client.Calibrate(context.Background(), 1)
	if err != nil || got != bytesPerToken {
		t.Fatalf("%g bytes per token, %v; want %d", got, err, bytesPerToken)
	}

	silent := counting(func(int) int { return 0 })
	defer silent.Close()
	client.BaseURL = silent.URL
	if _, err := client.Calibrate(context.Background(), 1); err == nil || !strings.Contains(err.Error(), "cannot be sized") {
		t.Fatalf("an endpoint without usage: error %v", err)
	}
}
