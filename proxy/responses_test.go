package proxy

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// storing is an engine that announces a response and works on it until it is cancelled.
func storing() http.HandlerFunc {
	cancelled := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"resp_1","object":"response","model":"m","status":"in_progress"}`)
		case strings.HasSuffix(r.URL.Path, "/cancel"):
			close(cancelled)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"resp_1","object":"response","model":"m","status":"cancelled"}`)
		default:
			sendFrames(w, []string{"event: response.created\n" + `data: {"type":"response.created","response":{"id":"resp_1","model":"m","output":[]}}` + "\n\n"}, 0)
			select {
			case <-cancelled:
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, "event: response.incomplete\n"+`data: {"type":"response.incomplete","response":{"id":"resp_1","model":"m","output":[],"usage":{"output_tokens":1}}}`+"\n\n")
		}
	}
}

// A response can be looked at and cancelled while it is being made, before its first
// token: the requests go to the replica that makes it, under the name that the client used.
func TestResponseIsCancelledWhileItIsMade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 3, storing())
		for _, e := range b.engines {
			e.does(storing())
		}
		resp, err := b.client.Do(b.request(context.Background(), "/v1/responses", `{"model":"alias","stream":true,"input":"hi"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		stream := bufio.NewReader(resp.Body)
		start := time.Now()
		if line, err := stream.ReadString('\n'); err != nil || line != "event: response.created\n" {
			t.Fatalf("got %q %v", line, err)
		}
		if waited := time.Since(start); waited > silence {
			t.Errorf("the announcement was kept back for %v", waited)
		}
		maker := resp.Header.Get(headerReplica)
		for _, c := range []struct{ path, body, says string }{
			{"/v1/responses/resp_1", "", `"in_progress"`},
			{"/v1/responses/resp_1/cancel", "{}", `"cancelled"`},
		} {
			got := b.post(c.path, c.body)
			if got.status != 200 || got.header.Get(headerReplica) != maker || !strings.Contains(got.body, c.says) || !strings.Contains(got.body, `"model":"alias"`) {
				t.Errorf("%s: got %d from %s, want %s: %s", c.path, got.status, got.header.Get(headerReplica), maker, got.body)
			}
		}
		if rest, err := io.ReadAll(stream); err != nil || !strings.Contains(string(rest), "response.incomplete") {
			t.Errorf("the stream ended with %v: %s", err, rest)
		}
		b.wantIdle()
	})
}
