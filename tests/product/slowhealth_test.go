package product

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/tests/harness"
)

// burst is an engine whose health takes 12 s to answer while it streams.
type burst struct {
	open   atomic.Int64  // streams
	late   chan struct{} // one for each health that took its time
	enough chan struct{} // closed to end the streams
}

func (e *burst) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/completions": // the probe's one token
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"text":"Hi"}]}`)
	case "/health":
		if e.open.Load() == 0 {
			return
		}
		select {
		case <-time.After(12 * time.Second):
			select {
			case e.late <- struct{}{}:
			default:
			}
		case <-r.Context().Done():
		}
	case "/v1/chat/completions":
		e.stream(w, r)
	default:
		http.NotFound(w, r)
	}
}

// stream sends a token every 100 ms until there were enough.
func (e *burst) stream(w http.ResponseWriter, r *http.Request) {
	e.open.Add(1)
	defer e.open.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, _ = io.WriteString(w, `data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"t"},"finish_reason":null}]}`+"\n\n")
		_ = flush()
		select {
		case <-e.enough:
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
			return
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// TestSlowHealthUnderABurst has 200 streams run on an engine that is too busy to say
// that it is well: the streams go on to their ends, and the replica is suspect at most,
// so that it gets new requests too.
func TestSlowHealthUnderABurst(t *testing.T) {
	const streams = 200
	e := &burst{late: make(chan struct{}, 1), enough: make(chan struct{})}
	server := httptest.NewServer(e)
	defer server.Close()
	end := sync.OnceFunc(func() { close(e.enough) })
	defer end() // before the server's end, which waits for them
	d := harness.Start(t, harness.Options{Config: fmt.Sprintf("models:\n  - name: %s\n    spec:\n      replica_mode: remote\n      remote_urls: [%q]\n", model, server.URL)})
	waitReady(t, d, 1)
	var open sync.WaitGroup
	for i := range streams {
		open.Go(func() { wholeStream(t.Context(), t, d, i) })
	}
	harness.Within(t, 60*time.Second, func() error {
		if n := e.open.Load(); n != streams {
			return fmt.Errorf("%d streams are open, want %d", n, streams)
		}
		return nil
	})
	suspect, patience := false, time.After(2*time.Minute)
	for answered := false; !answered || !suspect; {
		select {
		case <-e.late:
			answered = true
		case <-time.After(200 * time.Millisecond):
		case <-patience:
			t.Fatalf("a health that took 12 s was answered: %t; the replica was suspect: %t", answered, suspect)
		}
		switch state := replicasOf(t, d)[0].GetState(); state {
		case lmwardenv1.ReplicaState_REPLICA_STATE_READY:
		case lmwardenv1.ReplicaState_REPLICA_STATE_SUSPECT:
			suspect = true
		default:
			t.Fatalf("the replica is %s, want suspect at most", state)
		}
	}
	end()
	open.Wait()
	wholeStream(t.Context(), t, d, streams)
	waitReady(t, d, 1)
}

// wholeStream reads a stream to its end.
func wholeStream(ctx context.Context, t *testing.T, d *harness.Daemon, i int) {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":"hello %d"}]}`, model, i)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.InferenceURL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	r.Header.Set("X-Session-Id", fmt.Sprintf("conversation-number-%d", i))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Errorf("stream %d: %v", i, err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
		t.Errorf("stream %d: %s, %v, and it ends with %q", i, resp.Status, err, text[max(0, len(text)-100):])
	}
}
