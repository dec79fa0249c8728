package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// overBoth runs a test over HTTP/1.1 and HTTP/2 with time that is fake; post sends a
// request and reads the whole answer.
func overBoth(t *testing.T, script http.HandlerFunc, f func(t *testing.T, b *box, post func(path, body string) gotReply)) {
	t.Helper()
	for name, version := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, 1, script)
				front := &http.Server{Handler: b.proxy, Protocols: over(version)}
				l := b.net.listen("front")
				go func() { _ = front.Serve(l) }()
				transport := &http.Transport{DialContext: b.net.dial, Protocols: over(version)}
				defer func() {
					transport.CloseIdleConnections()
					_ = front.Close()
				}()
				f(t, b, func(path, body string) gotReply {
					r := b.request(context.Background(), path, body)
					r.URL.Host = "front:80"
					b.client = &http.Client{Transport: transport}
					return b.do(r)
				})
			})
		})
	}
}

// frameAfter sends frames with a silence before each.
func frameAfter(silences []time.Duration, frames ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, f := range frames {
			select {
			case <-time.After(silences[i]):
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, f)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

const (
	responseCreated   = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n"
	responseDelta     = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n"
	responseCompleted = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\"}}\n\n"
)

// A long prefill behind the announcement of a response, and a long silence inside it:
// neither ends the stream, and signs of life come until the first token.
func TestSilenceInsideAStream(t *testing.T) {
	silences := []time.Duration{0, 95 * time.Second, 100 * time.Second}
	overBoth(t, frameAfter(silences, responseCreated, responseDelta, responseCompleted), func(t *testing.T, b *box, post func(string, string) gotReply) {
		got := post("/v1/responses", `{"model":"m","stream":true,"input":"x"}`)
		want := responseCreated + strings.Repeat(": ping\n\n", 9) + responseDelta + responseCompleted
		if got.err != nil || got.body != want {
			t.Errorf("got %v\n%q\nwant\n%q", got.err, got.body, want)
		}
		if r := b.lastRecord(); r.Status != 200 || r.FirstToken != 95*time.Second {
			t.Errorf("recorded as %d %q, first token after %v", r.Status, r.Error, r.FirstToken)
		}
		b.wantIdle()
	})
}

// A sign of life never comes inside a frame.
func TestNoPingInsideAFrame(t *testing.T) {
	half := len(responseCreated) / 2
	silences := []time.Duration{0, 25 * time.Second, 25 * time.Second}
	overBoth(t, frameAfter(silences, responseCreated[:half], responseCreated[half:], responseDelta+responseCompleted), func(t *testing.T, b *box, post func(string, string) gotReply) {
		got := post("/v1/responses", `{"model":"m","stream":true,"input":"x"}`)
		want := responseCreated + strings.Repeat(": ping\n\n", 2) + responseDelta + responseCompleted
		if got.err != nil || strings.ReplaceAll(got.body, ": ping\n\n", "") != responseCreated+responseDelta+responseCompleted || got.body[:len(responseCreated)] != responseCreated {
			t.Errorf("got %v\n%q\nwant\n%q", got.err, got.body, want)
		}
		b.wantIdle()
	})
}

// A whole answer cannot follow the headers of a stream, good or bad: an error event, and
// a broken transfer behind it.
func TestWholeAnswerAfterPing(t *testing.T) {
	for name, c := range map[string]struct {
		status   int
		body     string
		want     string
		recorded int
	}{
		"an answer": {200, chatWhole, "answered a request for a stream with something else", 502},
		"a refusal": {400, `{"error":{"message":"too long"}}`, `data: {"error":{"message":"too long"}}`, 400},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(w http.ResponseWriter, _ *http.Request) {
				<-time.After(15 * time.Second)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}, func(t *testing.T, b *box, post func(string, string) gotReply) {
				got := post("/v1/chat/completions", chat("m", true))
				if got.err == nil || !strings.Contains(got.body, c.want) {
					t.Errorf("got %v %q", got.err, got.body)
				}
				if r := b.lastRecord(); r.Status != c.recorded || r.Error == "" {
					t.Errorf("recorded as %d %q, want %d", r.Status, r.Error, c.recorded)
				}
				b.wantIdle()
			})
		})
	}
}
