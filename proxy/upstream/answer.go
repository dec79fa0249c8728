package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// headLimit is the most that the headers of an answer may take, with those of interim
// answers before it, in bytes.
const headLimit = 1 << 20

// maxInterim is how many interim answers (1xx) an engine may send before the answer.
const maxInterim = 5

// What an engine can do wrong.
var (
	errHeadTooLong = errors.New("the headers of the answer are over the limit of 1 MiB")
	errInterim     = errors.New("the engine sent too many interim answers")
	errSwitching   = errors.New("the engine switches protocols, which nobody asked for")
)

// headRequest makes the parser expect an answer without a body.
var headRequest = &http.Request{Method: http.MethodHead}

// receive waits for the answer and reads its headers.
func (c *conn) receive(method string) (*http.Response, error) {
	resp, err := c.readHead(method)
	if err != nil {
		if sending := c.sendError(); sending != nil {
			err = fmt.Errorf("the request could not be sent: %w", sending)
		}
		return nil, err
	}
	c.wait.mu.Lock()
	c.wait.over = true
	if c.wait.set && c.sendError() == nil {
		_ = c.nc.SetReadDeadline(time.Time{}) // as below
	}
	c.wait.mu.Unlock()
	c.room = noBound
	if resp.Body == http.NoBody {
		c.release(!resp.Close)
		return resp, nil
	}
	resp.Body = &Body{c: c, from: resp.Body, keep: !resp.Close}
	return resp, nil
}

// readHead reads the headers of the answer, past those of interim ones.
func (c *conn) readHead(method string) (*http.Response, error) {
	var request *http.Request
	if method == http.MethodHead {
		request = headRequest
	}
	for range maxInterim + 1 {
		c.await()
		resp, err := http.ReadResponse(&c.in, request)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode < 100:
			return nil, fmt.Errorf("the engine answered with status %d", resp.StatusCode)
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errSwitching
		case resp.StatusCode >= http.StatusOK:
			return resp, nil
		}
	}
	return nil, errInterim
}

// Body is the body of an answer. It ends the exchange: at its last byte the connection
// is kept or closed, before it is closed.
type Body struct {
	from io.Reader
	keep bool // the connection may be used again behind it

	mu      sync.Mutex // guards what follows; not held while from is read
	c       *conn      // nil when the exchange has ended
	reading bool
	closed  bool
	err     error // what ended it
}

// Await returns when there is something to be read, or never will be, which Read then
// tells. Whoever waits here needs no buffer of his own meanwhile.
func (b *Body) Await() {
	if c := b.begin(); c != nil {
		c.await()
		_ = b.done(nil) // Read tells
	}
}

// Buffered returns how many bytes have come, with those that frame the answer, and are
// not read yet. It is for whoever reads.
func (b *Body) Buffered() int {
	c := b.begin()
	if c == nil {
		return 0
	}
	n := c.in.Buffered()
	_ = b.done(nil) // the next read tells
	return n
}

// Read reads on. Only io.EOF means that the answer is whole as far as HTTP can tell; one
// without a length ends with its connection, whole or not.
func (b *Body) Read(p []byte) (int, error) {
	c := b.begin()
	if c == nil {
		return 0, b.ended()
	}
	n, err := b.from.Read(p)
	return n, b.done(err)
}

// begin begins to read, and returns the connection; nil when the exchange has ended.
func (b *Body) begin() *conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil || b.closed {
		return nil
	}
	b.reading = true
	return b.c
}

// done is called behind what was begun, with what came of it. It ends the exchange when
// that was the end, or when it was closed meanwhile.
func (b *Body) done(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if err == nil && !b.closed {
		return nil
	}
	if !b.closed {
		b.err = err
	}
	b.end(err == io.EOF && !b.closed) //nolint:errorlint // a wrapped one would be no clean end
	return b.err
}

// ended returns what ended the exchange.
func (b *Body) ended() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// end ends the exchange. The caller holds mu.
func (b *Body) end(whole bool) {
	if whole {
		b.c.release(b.keep)
	} else {
		b.c.close()
	}
	b.c = nil
}

// Close ends the exchange. A connection whose answer was not read to its end is closed,
// under a Read that waits too, which then fails.
func (b *Body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil || b.closed {
		return nil
	}
	b.closed, b.err = true, http.ErrBodyReadAfterClose
	if b.reading {
		b.c.abort() // the reader does the rest
	} else {
		b.end(false)
	}
	return nil
}
