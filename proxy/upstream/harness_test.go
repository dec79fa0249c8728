package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a scripted engine: it does what it is told with each connection.
type engine struct {
	t      *testing.T
	url    string
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	script func(c *engineConn)

	mu    sync.Mutex
	open  []net.Conn
	dials int
	done  sync.WaitGroup
}

// engineConn is an engine's side of a connection.
type engineConn struct {
	net.Conn
	in *bufio.Reader
	n  int // how many connections came before
}

// request reads a request with its body.
func (c *engineConn) request() (*http.Request, string, error) {
	r, err := http.ReadRequest(c.in)
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(r.Body)
	return r, string(body), err
}

// answer reads a request and writes bytes, in pieces of at most n; 0 means all at once.
func (c *engineConn) answer(bytes string, n int) bool {
	if _, _, err := c.request(); err != nil {
		return false
	}
	return c.write(bytes, n)
}

// write writes bytes in pieces.
func (c *engineConn) write(bytes string, n int) bool {
	if n == 0 {
		n = max(len(bytes), 1)
	}
	for len(bytes) > 0 {
		piece := bytes[:min(n, len(bytes))]
		if _, err := io.WriteString(c, piece); err != nil {
			return false
		}
		bytes = bytes[len(piece):]
	}
	return true
}

// take lets the script have a connection.
func (e *engine) take(c net.Conn) {
	e.mu.Lock()
	ec := &engineConn{c, bufio.NewReader(c), e.dials}
	e.open = append(e.open, c)
	e.dials++
	e.mu.Unlock()
	e.done.Go(func() {
		defer c.Close()
		e.script(ec)
	})
}

// connections returns how many were opened.
func (e *engine) connections() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dials
}

// stop ends the engine.
func (e *engine) stop() {
	e.mu.Lock()
	for _, c := range e.open {
		_ = c.Close()
	}
	e.mu.Unlock()
	e.done.Wait()
}

// onPipes starts an engine whose connections are pipes: every write is one read.
func onPipes(t *testing.T, script func(*engineConn)) *engine {
	e := &engine{t: t, url: "http://engine:8000", script: script}
	e.dial = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		e.take(theirs)
		return ours, nil
	}
	t.Cleanup(e.stop)
	return e
}

// onSockets starts an engine on a loopback port.
func onSockets(t *testing.T, script func(*engineConn)) *engine {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, url: "http://" + l.Addr().String(), script: script, dial: dialSmall}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*net.TCPConn).SetReadBuffer(socketBuffer)
			e.take(c)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		accepting.Wait()
		e.stop()
	})
	return e
}

// socketBuffer is the size of the buffers between two sockets, in bytes, so that it is
// known what they do not hold.
const socketBuffer = 64 << 10

// dialSmall connects with small buffers.
func dialSmall(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c, c.(*net.TCPConn).SetWriteBuffer(socketBuffer)
}

// networks are the two kinds of connection that a client treats differently.
var networks = map[string]func(*testing.T, func(*engineConn)) *engine{"pipes": onPipes, "sockets": onSockets}

// client returns a client of the engine that ends with the test. It keeps unused
// connections for longer than any test takes, however slow the machine is.
func (e *engine) client(change ...func(*Options)) *Client {
	o := Options{DialContext: e.dial, IdleTimeout: time.Hour, MaxIdle: 8}
	for _, f := range change {
		f(&o)
	}
	cl := New(o)
	e.t.Cleanup(cl.CloseIdleConnections)
	return cl
}

// request returns a POST with a body.
func (e *engine) request(body string) *Request {
	return &Request{Engine: e.url, Method: http.MethodPost, Path: "/v1/x", Header: http.Header{"A": {"b"}}, Body: []byte(body)}
}

// got is an answer, or why there is none.
type got struct {
	status int
	header http.Header
	body   string
	err    error // of Do
	cut    error // of the body; nil at a clean end
}

// do sends a request and reads the answer.
func (cl *Client) do(ctx context.Context, r *Request) got {
	resp, err := cl.Do(ctx, r)
	if err != nil {
		return got{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return got{status: resp.StatusCode, header: resp.Header, body: string(body), cut: err}
}

// kept returns how many unused connections a client has.
func (cl *Client) unused() int {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return len(cl.idle)
}

// ok is a short answer after which the connection is kept.
const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// answers answers every request the same way.
func answers(bytes string) func(*engineConn) {
	return func(c *engineConn) {
		for c.answer(bytes, 0) { //nolint:revive // all is in the condition
		}
	}
}

// bytesOf returns n bytes.
func bytesOf(n int) string { return strings.Repeat("x", n) }

// isStale says whether an error is a [StaleError].
func isStale(err error) bool {
	var stale *StaleError
	return errors.As(err, &stale)
}
