package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// once lets the first request have one script and the later ones another.
func once(first, later http.HandlerFunc) http.HandlerFunc {
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-turn:
			first(w, r)
		default:
			later(w, r)
		}
	}
}

// cutAfter streams frames and then cuts the connection.
func cutAfter(frames []string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		sendFrames(w, frames, 0)
		panic(http.ErrAbortHandler)
	}
}

// A cut upstream is never a clean end: an error in the API's own shape, no end marker,
// and a broken transfer. It is not tried again: the client has part of the answer.
func TestCutMidStreamIsNoCleanEnd(t *testing.T) {
	message := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":4}}}\n\n"
	for path, c := range map[string]struct {
		frames []string
		want   string
	}{
		"/v1/chat/completions": {chatChunks(3)[:3], `data: {"error":{"message":"The replica closed the connection`},
		"/v1/messages":         {[]string{message}, "event: error\ndata: {\"type\":\"error\""},
		"/v1/responses":        {[]string{"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\"}\n\n"}, "event: error\ndata: {\"type\":\"error\""},
		"/v1/completions":      {[]string{chatChunks(1)[1], "data: {\"half"}, "\n\ndata: {\"error\""},
	} {
		bubble(t, func(t *testing.T) {
			b := newBox(t, 2, cutAfter(c.frames))
			// Who asks for usage gets every byte as it comes, also half a frame.
			got := b.post(path, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`)
			sent := strings.Join(c.frames, "")
			if got.err == nil {
				t.Errorf("%s: the transfer ended cleanly", path)
			}
			if !strings.HasPrefix(got.body, sent) || !strings.Contains(got.body[len(sent):], c.want) {
				t.Errorf("%s: got %q", path, got.body)
			}
			if strings.Contains(got.body, "[DONE]") || strings.Contains(got.body, "message_stop") {
				t.Errorf("%s: the stream looks complete: %q", path, got.body)
			}
			if n := len(b.engines[0].requests()) + len(b.engines[1].requests()); n != 1 {
				t.Errorf("%s: %d upstream attempts, want 1", path, n)
			}
			b.wantIdle()
			if r := b.records.all()[0]; r.Status != http.StatusBadGateway || r.Error == "" {
				t.Errorf("%s: recorded as %d %q", path, r.Status, r.Error)
			}
		})
	}
}

// The stream of a stored response that is cut ends with an error event too, numbered
// behind the last event that came.
func TestCutLookAtStoredAnswerIsNoCleanEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		event := "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\",\"sequence_number\":4}\n\n"
		b := newBox(t, 1, once(storesResponses(), cutAfter([]string{event})))
		b.post("/v1/responses", `{"model":"m","input":"x"}`)
		got := b.post("/v1/responses/resp_1?stream=true", "")
		want := event + `event: error` + "\n" + `data: {"type":"error","code":"BadGatewayError","message":"The replica closed the connection`
		if got.status != 200 || got.err == nil || !strings.HasPrefix(got.body, want) || !strings.HasSuffix(got.body, `"sequence_number":5}`+"\n\n") {
			t.Errorf("got %d %v %q", got.status, got.err, got.body)
		}
		b.wantIdle()
		if r := b.lastRecord(); r.Status != http.StatusBadGateway || r.Error == "" {
			t.Errorf("recorded as %d %q", r.Status, r.Error)
		}
	})
}

// dead answers as vLLM's front end does when its engine is dead.
func dead(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = io.WriteString(w, `{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","code":500}}`)
}

// deadStream does so when the headers of a stream are already out.
func deadStream(w http.ResponseWriter, _ *http.Request) {
	sendFrames(w, []string{`data: {"error":{"message":"EngineCore encountered an issue.","code":500}}` + "\n\n", doneFrame}, 0)
}

// status answers with a status and an error.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"error":{"message":"engine","code":0}}`)
	}
}

// Before the first byte a request is tried once more on the other replica, with its
// body intact, and no more than once.
func TestSecondAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		first    http.HandlerFunc
		replicas int
		status   int
		attempts int
	}{
		"cut before the headers":          {breaks, 2, 200, 2},
		"cut behind the headers":          {cutAfter(nil), 2, 200, 2},
		"dead engine":                     {dead, 2, 200, 2},
		"dead engine, stream":             {deadStream, 2, 200, 2},
		"unavailable":                     {status(503), 2, 200, 2},
		"cut, and nobody else":            {breaks, 1, 502, 1},
		"dead engine, and nobody else":    {dead, 1, 500, 1},
		"unavailable, and nobody else":    {status(503), 1, 503, 1},
		"an error of the engine":          {status(500), 2, 500, 1},
		"a refusal of the engine":         {status(400), 2, 400, 1},
		"too many requests at the engine": {status(429), 2, 429, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, c.replicas, once(c.first, answers(2)))
				body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("long ", 100_000) + `"}]}`
				for _, e := range b.engines[1:] {
					e.does(b.engines[0].script) // one turn for all
				}
				got := b.post("/v1/chat/completions", body)
				if got.status != c.status {
					t.Errorf("got %d %s, want %d", got.status, got.body, c.status)
				}
				if c.status == 503 && got.header.Get("Retry-After") != "7" {
					t.Error("the engine's Retry-After is lost")
				}
				b.wantIdle()
				if r := b.records.all()[0]; r.Attempts != c.attempts {
					t.Errorf("%d attempts, want %d", r.Attempts, c.attempts)
				}
				for _, e := range b.engines {
					for _, r := range e.requests() {
						if len(r.body) < len(body) {
							t.Errorf("%s got a body of %d bytes, want %d", e.host, len(r.body), len(body))
						}
					}
				}
			})
		})
	}
}

// Both replicas fail: the second attempt is the last.
func TestNoThirdAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, breaks)
		if got := b.post("/v1/chat/completions", chat("m", true)); got.status != http.StatusBadGateway {
			t.Errorf("got %d %s, want 502", got.status, got.body)
		}
		n := 0
		for _, e := range b.engines {
			n += len(e.requests())
		}
		if n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
		b.wantIdle()
	})
}

// A replica that is killed is left at once; its clients notice only those whose answer
// had begun. It gets traffic again when it is back, without any help.
func TestKilledReplicaComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(1))
		b.engines[0].kill()
		for i := range 20 {
			got := b.post("/v1/chat/completions", chat("m", false), session(fmt.Sprintf("conversation-number-%d", i))...)
			if got.status != 200 || got.header.Get(headerReplica) != "m/1" {
				t.Fatalf("request %d: got %d from %s", i, got.status, got.header.Get(headerReplica))
			}
		}
		if n := b.net.dials.Load(); n > 10 {
			t.Errorf("%d connections were tried: the dead replica attracts traffic", n)
		}
		b.engines[0].start()
		<-time.After(2 * longestPause)
		back := false
		for i := range 20 {
			got := b.post("/v1/chat/completions", chat("m", false), session(fmt.Sprintf("another-conversation-%d", i))...)
			back = back || got.header.Get(headerReplica) == "m/0"
		}
		if !back {
			t.Error("the replica that came back gets no traffic")
		}
		b.wantIdle()
	})
}

// A lone replica is never shut out: the first request after its return is served.
func TestLoneReplicaRecoversAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		b.engines[0].kill()
		for range 20 {
			if got := b.post("/v1/chat/completions", chat("m", false)); got.status != http.StatusBadGateway {
				t.Fatalf("got %d %s, want 502", got.status, got.body)
			}
		}
		b.engines[0].start()
		if got := b.post("/v1/chat/completions", chat("m", false)); got.status != 200 {
			t.Errorf("got %d %s, want 200", got.status, got.body)
		}
		b.wantIdle()
	})
}

// A replica that answers every request with 500 at once has the lowest load; it must
// not get everything.
func TestFastFailingReplicaIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(1))
		b.engines[0].does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		failed := 0
		for i := range 100 {
			if got := b.post("/v1/chat/completions", chat("m", false), session(fmt.Sprintf("conversation-number-%d", i))...); got.status != 200 {
				failed++
			}
		}
		if failed > strikesToTip {
			t.Errorf("%d of 100 requests failed, want at most %d", failed, strikesToTip)
		}
	})
}

// The engine closes idle connections after 5 s, and sometimes at the very moment that
// the next request is sent. No request is lost, and none is computed twice.
func TestIdleConnectionsDoNotLoseRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		const turns = 10_000
		for i := range turns {
			if got := b.post("/v1/chat/completions", chat("m", i%2 == 0), session("conversation-number-one")...); got.status != 200 || got.err != nil {
				t.Fatalf("turn %d: got %d %v", i, got.status, got.err)
			}
			<-time.After(4900*time.Millisecond + time.Duration(i%5)*50*time.Millisecond)
		}
		if n := len(b.engines[0].requests()); n != turns {
			t.Errorf("the engine got %d requests, want %d", n, turns)
		}
	})
}

// A connection that was unused for longer than idleConnTimeout is not used again: the
// engine may be closing it. One that was used a second ago is kept.
func TestConnectionsAreGivenUpBeforeTheEngineClosesThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		turn := func() int64 {
			before := b.net.dials.Load()
			if got := b.post("/v1/chat/completions", chat("m", false), session("conversation-number-one")...); got.status != 200 {
				t.Fatalf("got %d %v", got.status, got.err)
			}
			return b.net.dials.Load() - before
		}
		turn()
		<-time.After(time.Second)
		if n := turn(); n != 0 {
			t.Errorf("after 1 s %d connections were opened, want the kept one", n)
		}
		<-time.After(4 * time.Second)
		if n := turn(); n != 1 {
			t.Errorf("after 4 s %d connections were opened, want a new one to the engine", n)
		}
	})
}

// closingConn is a kept connection that its server closes the moment the second
// request arrives, without reading it.
type closingConn struct {
	net.Conn
	wrote bool // the first request was answered
}

func (c *closingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.wrote = true
	}
	return n, err
}

func (c *closingConn) Write(p []byte) (int, error) {
	if c.wrote && bytes.HasPrefix(p, []byte("POST")) {
		_ = c.Close()
		return len(p), nil // the bytes are in the kernel, and nobody reads them
	}
	return c.Conn.Write(p)
}

func TestRequestThatMeetsTheClosingOfItsConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1), func(o *Options, _ *Snapshot) {
			dial := o.DialContext
			o.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return &closingConn{Conn: c}, nil
			}
		})
		const turns = 50
		for i := range turns {
			if got := b.post("/v1/chat/completions", chat("m", false)); got.status != 200 {
				t.Fatalf("turn %d: got %d %s", i, got.status, got.body)
			}
		}
		if n := len(b.engines[0].requests()); n != turns {
			t.Errorf("the engine got %d requests, want %d", n, turns)
		}
		b.wantIdle()
		again := 0
		for _, r := range b.records.all() {
			again += r.Attempts - 1
		}
		if again == 0 {
			t.Error("no request met the closing of its connection: the test shows nothing")
		}
	})
}

// Unknown errors are hidden from clients; ours are sentences.
func TestRefusalOf(t *testing.T) {
	for _, r := range refusals {
		got := refusalOf(fmt.Errorf("context: %w", r.err), "id")
		if got.status != r.refusal.status || got.status < 400 {
			t.Errorf("%v: status %d", r.err, got.status)
		}
		if !strings.HasSuffix(got.message, ".") && !strings.HasSuffix(got.message, "/v1/models.") {
			t.Errorf("%v: %q is no sentence", r.err, got.message)
		}
		if r.refusal.retryAfter > 60 {
			t.Errorf("%v: Retry-After over 60 makes clients give up", r.err)
		}
	}
	got := refusalOf(errors.New("secret detail"), "id7")
	if got.status != 500 || strings.Contains(got.message, "secret") || !strings.Contains(got.message, "id7") {
		t.Errorf("unknown error: %+v", got)
	}
	if got := refusalOf(errClientStuck, ""); got.status != statusClientGone {
		t.Errorf("stuck client: %+v", got)
	}
}

func TestHeaderTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, silentUntilGone, func(o *Options, _ *Snapshot) { o.HeaderTimeout = time.Minute })
		if got := b.post("/v1/chat/completions", chat("m", false)); got.status != http.StatusGatewayTimeout {
			t.Errorf("got %d %s, want 504", got.status, got.body)
		}
		synctest.Wait()
		if r := b.records.all()[0]; r.Attempts != 1 {
			t.Errorf("%d attempts, want 1: the engine may still be at work", r.Attempts)
		}
	})
}

// A replica that the client names and that only its breaker keeps from work is shown as
// ready elsewhere; the refusal must not say the opposite.
func TestNamedReplicaWithOpenBreaker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(1))
		b.engines[0].does(breaks)
		var got gotReply
		for range 4 {
			got = b.post("/v1/chat/completions", chat("m", false), headerRank, "0")
		}
		if got.status != http.StatusServiceUnavailable || strings.Contains(got.body, "not ready") ||
			!strings.Contains(got.body, "failed the last requests that it got") {
			t.Errorf("with an open breaker: %d %s", got.status, got.body)
		}
		b.change(func(m *Model) { m.Replicas[0].Route.Ready = false })
		got = b.post("/v1/chat/completions", chat("m", false), headerRank, "0")
		if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "is not ready") {
			t.Errorf("when it does not run: %d %s", got.status, got.body)
		}
		b.wantIdle()
	})
}
