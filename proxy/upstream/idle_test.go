package upstream

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// waitNews waits until something has come on the oldest unused connection, its end or more.
func (cl *Client) waitNews() {
	for quiet := true; quiet; runtime.Gosched() {
		cl.mu.Lock()
		quiet = cl.idle[0].usable()
		cl.mu.Unlock()
	}
}

// A connection that the engine has closed while it was unused is not used again: the
// request does not even meet it.
func TestClosedConnectionIsNoticed(t *testing.T) {
	e := onSockets(t, func(c *engineConn) { c.answer(ok, 0) })
	cl := e.client()
	for i := range 20 {
		if got := cl.do(t.Context(), e.request("body")); got.err != nil || got.body != "ok" {
			t.Fatalf("request %d: got %q %v", i, got.body, got.err)
		}
		if cl.unused() != 1 {
			t.Fatal("the connection was not kept: the test shows nothing")
		}
		cl.waitNews()
	}
	if n := e.connections(); n != 20 {
		t.Errorf("%d connections, want a new one for each of 20 requests", n)
	}
}

// Bytes that nobody asked for are no answer to the next request.
func TestUnaskedAnswerIsNoAnswer(t *testing.T) {
	more := make(chan struct{})
	e := onSockets(t, func(c *engineConn) {
		if c.n > 0 {
			answers(ok)(c)
			return
		}
		c.answer(ok, 0)
		<-more
		c.write("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", 0)
		_, _ = c.in.ReadByte()
	})
	cl := e.client()
	cl.do(t.Context(), e.request("body"))
	close(more)
	cl.waitNews()
	if got := cl.do(t.Context(), e.request("body")); got.status != 200 || e.connections() != 2 {
		t.Errorf("got %d on connection %d, want 200 on the second", got.status, e.connections())
	}
}

// A kept connection that breaks as the request is sent says so, unless a byte of an
// answer had come; a new one that breaks is broken.
func TestStaleErrors(t *testing.T) {
	for name, c := range map[string]struct {
		second string // what comes on the kept connection before it breaks
		stale  bool
	}{
		"silent":   {"", true},
		"a byte":   {"H", false},
		"interim":  {"HTTP/1.1 100 Continue\r\n\r\n", false},
		"a header": {"HTTP/1.1 200 OK\r\nA: b", false},
	} {
		for network, start := range networks {
			for _, size := range []int{4, 1 << 20} {
				e := start(t, func(ec *engineConn) {
					ec.answer(ok, 0)
					if _, err := http.ReadRequest(ec.in); err == nil {
						ec.write(c.second, 0)
					}
				})
				cl := e.client()
				cl.do(t.Context(), e.request("body"))
				got := cl.do(t.Context(), e.request(bytesOf(size)))
				if got.err == nil || isStale(got.err) != c.stale {
					t.Errorf("%s on %s: got %v, stale must be %t", name, network, got.err, c.stale)
				}
			}
			e := start(t, func(ec *engineConn) { _, _, _ = ec.request() })
			if got := e.client().do(t.Context(), e.request("body")); got.err == nil || isStale(got.err) {
				t.Errorf("a new connection: got %v", got.err)
			}
		}
	}
}

// begin sends a request that is answered later, and returns the end of it.
func begin(t *testing.T, cl *Client, r *Request) func() got {
	t.Helper()
	resp, err := cl.Do(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return func() got {
		body, err := io.ReadAll(resp.Body)
		return got{status: resp.StatusCode, body: string(body), cut: err}
	}
}

// The connection that was used last is used next, so that the others grow old; as many
// are kept as may be.
func TestLastUsedFirst(t *testing.T) {
	used := make(chan int, 10)
	e := onPipes(t, func(c *engineConn) {
		for c.answer(ok, 0) {
			used <- c.n
		}
	})
	cl := e.client(func(o *Options) { o.MaxIdle = 2 })
	ends := []func() got{begin(t, cl, e.request("0")), begin(t, cl, e.request("1")), begin(t, cl, e.request("2"))}
	for range ends {
		<-used
	}
	for _, i := range []int{1, 0, 2} {
		ends[i]()
	}
	if n := cl.unused(); n != 2 {
		t.Errorf("%d connections are kept, want 2", n)
	}
	for range 3 {
		cl.do(t.Context(), e.request("again"))
		if n := <-used; n != 0 {
			t.Errorf("connection %d was used, want the one that was used last of those kept", n)
		}
	}
}

// An unused connection is closed after its time, not when the next request comes.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan time.Time, 2)
		e := onPipes(t, func(c *engineConn) {
			answers(ok)(c)
			closed <- time.Now()
		})
		cl := e.client(func(o *Options) { o.IdleTimeout = 3 * time.Second })
		start := time.Now()
		ends := []func() got{begin(t, cl, e.request("0")), begin(t, cl, e.request("1"))}
		ends[0]()
		<-time.After(2 * time.Second)
		ends[1]()
		for i, want := range []time.Duration{3 * time.Second, 5 * time.Second} {
			if got := (<-closed).Sub(start); got != want {
				t.Errorf("connection %d was closed after %v, want %v", i, got, want)
			}
		}
		if cl.timer != nil || cl.unused() != 0 {
			t.Error("something is left of the list")
		}
		// A request at the very end of the time does not get the old one either.
		cl.do(t.Context(), e.request("2"))
		<-time.After(2999 * time.Millisecond)
		cl.do(t.Context(), e.request("3"))
		if n := e.connections(); n != 3 {
			t.Errorf("%d connections, want 3", n)
		}
	})
}

// When the engine is another one, no connection to the old one is used again: neither
// those kept nor those in use at the time.
func TestCloseIdleConnections(t *testing.T) {
	e := onPipes(t, answers(ok))
	cl := e.client()
	end := begin(t, cl, e.request("busy"))
	cl.do(t.Context(), e.request("idle"))
	cl.CloseIdleConnections()
	if n := cl.unused(); n != 0 {
		t.Errorf("%d connections are kept", n)
	}
	if got := end(); got.body != "ok" || got.cut != nil {
		t.Errorf("the exchange in progress: got %q %v", got.body, got.cut)
	}
	if n := cl.unused(); n != 0 {
		t.Errorf("a connection that was in use is kept")
	}
	if got := cl.do(t.Context(), e.request("new")); got.body != "ok" || e.connections() != 3 {
		t.Errorf("got %q on %d connections", got.body, e.connections())
	}
}

// An engine that has moved is not asked at its old place.
func TestAnotherAddress(t *testing.T) {
	old, moved := onSockets(t, answers(ok)), onSockets(t, answers(strings.Replace(ok, "\r\n\r\nok", "\r\n\r\nno", 1)))
	cl := old.client()
	for _, c := range []struct {
		e    *engine
		want string
	}{{old, "ok"}, {moved, "no"}, {old, "ok"}} {
		if got := cl.do(context.Background(), c.e.request("body")); got.body != c.want {
			t.Errorf("got %q %v, want %q", got.body, got.err, c.want)
		}
	}
}
