package upstream

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// When the context ends, the engine sees its connection close, in every phase: while the
// request is sent, before the answer, and inside it.
func TestCancelClosesTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		size   int
		script func(c *engineConn) // what the engine does until it is to see the end
		begins bool                // the answer begins
	}{
		"while the request is sent": {large, func(c *engineConn) { _, _ = http.ReadRequest(c.in) }, false},
		"before the answer":         {10, func(c *engineConn) { _, _, _ = c.request() }, false},
		"behind an interim answer":  {10, func(c *engineConn) { c.answer("HTTP/1.1 100 Continue\r\n\r\n", 0) }, false},
		"inside the headers":        {10, func(c *engineConn) { c.answer("HTTP/1.1 200 OK\r\nA:", 0) }, false},
		"inside the answer":         {10, func(c *engineConn) { c.answer(chunked+"2\r\nab\r\n", 0) }, true},
	} {
		for network, start := range networks {
			t.Run(name+" on "+network, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				there, saw := make(chan struct{}), make(chan struct{})
				e := start(t, func(ec *engineConn) {
					c.script(ec)
					close(there)
					_, _ = io.Copy(io.Discard, ec.in) // until the connection is closed
					close(saw)
				})
				cl := e.client()
				if c.begins {
					resp, err := cl.Do(ctx, e.request(bytesOf(c.size)))
					if err != nil {
						t.Fatal(err)
					}
					<-there
					cancel()
					<-saw
					if body, err := io.ReadAll(resp.Body); err == nil {
						t.Errorf("got %q with a clean end", body)
					}
					_ = resp.Body.Close()
				} else {
					go func() {
						<-there
						cancel()
					}()
					if got := cl.do(ctx, e.request(bytesOf(c.size))); !errors.Is(got.err, context.Canceled) {
						t.Errorf("got %d %v", got.status, got.err)
					}
					<-saw
				}
				if n := cl.unused(); n != 0 {
					t.Errorf("%d connections are kept", n)
				}
			})
		}
	}
}

// A dialer that takes its time is given up with the context.
func TestCancelWhileDialing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cl := New(Options{IdleTimeout: time.Second, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	var dial *DialError
	got := cl.do(ctx, &Request{Engine: "http://engine", Method: "GET", Path: "/"})
	if !errors.Is(got.err, context.Canceled) || !errors.As(got.err, &dial) {
		t.Errorf("got %v", got.err)
	}
	if got := cl.do(ctx, &Request{Engine: "http://engine", Method: "GET", Path: "/"}); !errors.Is(got.err, context.Canceled) {
		t.Errorf("with a context that is over: got %v", got.err)
	}
}

// Closing the body closes the connection, under a read of another goroutine too; behind
// the last byte it changes nothing.
func TestCloseOfTheBody(t *testing.T) {
	for network, start := range networks {
		t.Run(network, func(t *testing.T) {
			saw := make(chan struct{}, 4)
			e := start(t, func(c *engineConn) {
				c.answer(chunked+"2\r\nab\r\n", 0)
				_, _ = c.in.ReadByte()
				saw <- struct{}{}
			})
			cl := e.client()
			for _, reads := range []bool{false, true} {
				resp, err := cl.Do(t.Context(), e.request("body"))
				if err != nil {
					t.Fatal(err)
				}
				var reading sync.WaitGroup
				if _, err := io.ReadFull(resp.Body, make([]byte, 2)); err != nil {
					t.Fatal(err)
				}
				if reads {
					reading.Go(func() {
						if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
							t.Errorf("the read under which it was closed: %d %v", n, err)
						}
					})
				}
				_ = resp.Body.Close()
				<-saw
				reading.Wait()
				if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
					t.Errorf("a read behind it: %d %v", n, err)
				}
				if cl.unused() != 0 {
					t.Error("the connection is kept")
				}
			}
		})
	}
}

// Requests that are given up at random moments leave no connection in use, and never let
// another request have a part of their answer.
func TestAbortsAtRandom(t *testing.T) {
	for network, start := range networks {
		t.Run(network, func(t *testing.T) {
			e := start(t, func(c *engineConn) {
				for {
					r, body, err := c.request()
					if err != nil || r.Header.Get("A") != "b" {
						return
					}
					c.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n"+body[:4]+"\r\n", 0)
					c.write("4\r\n"+body[:4]+"\r\n0\r\n\r\n", 0)
				}
			})
			cl := e.client()
			var all sync.WaitGroup
			for g := range 8 {
				rng := rand.New(rand.NewPCG(uint64(g), 7))
				all.Go(func() {
					for i := range 30 {
						mine := string([]byte{'0' + byte(g), '0' + byte(i%10), '0' + byte(i/10), '!'})
						after := time.Hour // every second one is not given up
						if i%2 > 0 {
							after = time.Duration(rng.IntN(3000)) * time.Microsecond
						}
						ctx, cancel := context.WithTimeout(t.Context(), after)
						got := cl.do(ctx, e.request(mine+bytesOf(rng.IntN(20_000))))
						cancel()
						whole := got.err == nil && got.cut == nil
						if want := mine + mine; got.body != want[:len(got.body)] || whole && got.body != want {
							t.Errorf("got %q, want %q or a beginning of it", got.body, want)
						}
						if !whole && i%2 == 0 {
							t.Errorf("a request that was not given up failed: %v %v", got.err, got.cut)
						}
					}
				})
			}
			all.Wait()
			if got := cl.do(t.Context(), e.request("last")); got.body != "lastlast" {
				t.Errorf("afterwards: got %q %v", got.body, got.err)
			}
		})
	}
}
