package upstream

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// large is more than the buffers between two sockets hold.
const large = 4 << 20

// Bodies of any size arrive whole, and the connection is kept behind them.
func TestBodiesArriveWhole(t *testing.T) {
	for network, start := range networks {
		for _, size := range []int{0, 1, 4096, 100_000, 1 << 20} {
			body := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			e := start(t, func(c *engineConn) {
				for {
					_, got, err := c.request()
					if err != nil {
						return
					}
					if got != string(body) {
						t.Errorf("%s: %d bytes arrived, want %d", network, len(got), size)
					}
					c.write(ok, 0)
				}
			})
			cl := e.client()
			for range 2 {
				if got := cl.do(t.Context(), e.request(string(body))); got.err != nil || got.body != "ok" {
					t.Fatalf("%s, %d bytes: got %q %v", network, size, got.body, got.err)
				}
			}
			if n := e.connections(); n != 1 {
				t.Errorf("%s, %d bytes: %d connections, want 1", network, size, n)
			}
		}
	}
}

// An engine may answer before it has read the body, and read no more of it, with the
// connection open or closed. The answer is read all the same, and nothing waits.
func TestEarlyAnswers(t *testing.T) {
	const tooLarge = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nlarge"
	for name, then := range map[string]func(c *engineConn, over <-chan struct{}){
		"stays":         func(_ *engineConn, over <-chan struct{}) { <-over },
		"closes":        func(*engineConn, <-chan struct{}) {},
		"reads on":      func(c *engineConn, _ <-chan struct{}) { _, _ = io.Copy(io.Discard, c.in) },
		"reads a while": func(c *engineConn, _ <-chan struct{}) { _, _ = io.CopyN(io.Discard, c.in, 1<<20) },
	} {
		for network, start := range networks {
			t.Run(name+" on "+network, func(t *testing.T) {
				over := make(chan struct{})
				e := start(t, func(c *engineConn) {
					if _, err := http.ReadRequest(c.in); err != nil {
						t.Error(err)
					}
					c.write(tooLarge, 0)
					then(c, over)
				})
				cl := e.client()
				got := cl.do(t.Context(), e.request(bytesOf(large)))
				close(over)
				if got.err != nil || got.cut != nil || got.status != 413 || got.body != "large" {
					t.Errorf("got %d %q %v %v, want 413", got.status, got.body, got.err, got.cut)
				}
				if n := cl.unused(); n != 0 && name != "reads on" { // then it may have got all of it
					t.Error("a connection with half a request on it is kept")
				}
			})
		}
	}
}

// A body that is not lent is the caller's when Do has returned, whenever the engine reads it.
func TestLentBodies(t *testing.T) {
	for network, start := range networks {
		for _, size := range []int{1000, large} {
			changed := make(chan struct{})
			e := start(t, func(c *engineConn) {
				r, err := http.ReadRequest(c.in)
				if err != nil {
					t.Error(err)
					return
				}
				c.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 0)
				<-changed
				if got, err := io.ReadAll(r.Body); err != nil || string(got) != bytesOf(size) {
					t.Errorf("%s: the engine got %d bytes, others than the %d that were sent (%v)", network, len(got), size, err)
				}
				c.write("2\r\nok\r\n0\r\n\r\n", 0)
			})
			r := e.request(bytesOf(size))
			resp, err := e.client().Do(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			// A pipe holds nothing: the engine has not taken what it has not read.
			if want := network == "pipes" || size == large; r.Lent != want {
				t.Errorf("%s, %d bytes: lent is %t", network, size, r.Lent)
			}
			if !r.Lent {
				clear(r.Body)
			}
			close(changed)
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ok" {
				t.Errorf("%s, %d bytes: got %q %v", network, size, body, err)
			}
			_ = resp.Body.Close()
		}
	}
}
