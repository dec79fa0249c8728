package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a client.
type Options struct {
	// DialContext connects to the engine; required.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// HeaderTimeout is how long the engine may take for the headers of its answer, from
	// the moment that it was sent the whole request; 0 means without limit.
	HeaderTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. It must be positive, and
	// less than the time after which the engine closes it.
	IdleTimeout time.Duration
	// MaxIdle is how many unused connections are kept; 0 keeps none.
	MaxIdle int
	// TLS is for engines whose address begins with https; nil means the defaults.
	TLS *tls.Config
}

// handshakeTimeout is how long the TLS handshake may take.
const handshakeTimeout = 10 * time.Second

// Client sends requests to one engine. It is safe for concurrent use. It has no
// goroutine of its own, and none in an exchange but for the rest of a request that the
// engine does not take at once.
type Client struct {
	options Options
	address atomic.Pointer[address] // latest that was asked for, taken apart

	mu    sync.Mutex // guards what follows
	idle  []*conn    // latest used last
	epoch uint64     // grows when all connections so far are to be forgotten
	timer *time.Timer
}

// New returns a client without connections.
func New(o Options) *Client { return &Client{options: o} }

// RequestError is a request that cannot be sent to any engine, or an address that is
// none: nothing was tried.
type RequestError struct{ Err error }

// Error returns the cause.
func (e *RequestError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RequestError) Unwrap() error { return e.Err }

// DialError is what went wrong before a connection stood: nothing was sent.
type DialError struct{ Err error }

// Error returns the cause.
func (e *DialError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }

// StaleError is a kept connection that broke before a byte of the answer had come. When
// that is at once, the engine has closed it as idle and never read the request.
type StaleError struct{ Err error }

// Error returns the cause.
func (e *StaleError) Error() string { return "the kept connection broke: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StaleError) Unwrap() error { return e.Err }

// Do sends a request and returns the answer once its headers are there. The caller reads
// the body to its end or closes it; closing may interrupt a read of another goroutine.
// When ctx ends, before Do returns or while the body is read, the connection is closed and
// what waits for it fails; the error is then that of ctx or of the connection.
func (cl *Client) Do(ctx context.Context, r *Request) (*http.Response, error) {
	to, err := cl.resolve(r.Engine)
	if err != nil {
		return nil, &RequestError{err}
	}
	head := takeHead()
	defer func() { head.put() }()
	if head.b, err = r.appendHead(head.b, to); err != nil {
		return nil, &RequestError{err}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := cl.kept(to)
	reused := c != nil
	if !reused {
		if c, err = cl.dial(ctx, to); err != nil {
			return nil, err
		}
	}
	c.stop = context.AfterFunc(ctx, c.abort)
	if c.send(head.b, r.Body) {
		head = nil // the sender has it
	}
	beside := c.sender
	resp, err := c.receive(r.Method)
	if err == nil {
		r.Lent = beside.sends()
		return resp, nil
	}
	silent := !c.heard
	c.close()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case reused && silent && !isTimeout(err):
		return nil, &StaleError{err}
	}
	return nil, err
}

// isTimeout says whether an error is a deadline that has passed.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// conn is a connection to an engine, and the exchange that it is used for.
type conn struct {
	client *Client
	to     *address
	epoch  uint64
	nc     net.Conn
	socket
	since time.Time // when it became idle

	// Of the present exchange.
	reader
	stop   func() bool // ends the watch on the context
	sender *sender     // sends the rest of the request; nil when all was sent at once
	wait   headWait
}

// dial opens a connection. All its errors are [DialError].
func (cl *Client) dial(ctx context.Context, to *address) (*conn, error) {
	cl.mu.Lock()
	epoch := cl.epoch
	cl.mu.Unlock()
	nc, err := cl.options.DialContext(ctx, "tcp", to.dial)
	if err != nil {
		return nil, &DialError{err}
	}
	c := &conn{client: cl, to: to, epoch: epoch, nc: nc}
	c.useSocket(rawOf(nc))
	if !to.secure {
		return c, nil
	}
	config := &tls.Config{}
	if cl.options.TLS != nil {
		config = cl.options.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = to.name
	}
	config.NextProtos = []string{"http/1.1"}
	secure := tls.Client(nc, config)
	hands, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := secure.HandshakeContext(hands); err != nil {
		_ = nc.Close() // it is of no use any more
		return nil, &DialError{fmt.Errorf("the TLS handshake failed: %w", err)}
	}
	c.nc = secure
	return c, nil
}

// abort ends the exchange from outside: every read and write fails.
func (c *conn) abort() { _ = c.nc.Close() }

// close ends the connection. Afterwards nothing of the exchange is running.
func (c *conn) close() {
	c.stop()
	_ = c.nc.Close() // it may be closed already
	if c.sender != nil {
		<-c.sender.done
		c.sender = nil
	}
	c.giveBuffer()
}

// release ends the exchange behind the last byte of its answer. The connection is kept
// when another request may follow on it.
func (c *conn) release(keep bool) {
	sent := c.finishSending()
	if !c.stop() || !sent || !keep || c.failed != nil || c.in.Buffered() > 0 {
		c.close()
		return
	}
	c.giveBuffer()
	c.client.keep(c)
}
