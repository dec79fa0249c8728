package upstream

import (
	"bufio"
	"errors"
	"math"
	"sync"
)

// readBuffer is the size of the buffer that is read into, in bytes. It costs little,
// because an exchange has one only while there is something in it.
const readBuffer = 16 << 10

// buffers are those that nobody uses.
var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }}

// reader is the reading side of an exchange.
type reader struct {
	in     bufio.Reader  // what the parsers read from; empty without a buffer
	buffer *bufio.Reader // that in is a copy of; nil when it has none
	heard  bool          // a byte of the answer has come
	room   int64         // bytes that may still be read
	failed error         // what ended the connection; a socket tells it once
}

// noBound lets everything be read.
const noBound = math.MaxInt64

// errNotYet says that nothing has come yet.
var errNotYet = errors.New("nothing to be read yet")

// takeBuffer gives the exchange a buffer to read into, if it has none.
func (c *conn) takeBuffer() {
	if c.buffer == nil {
		c.buffer = buffers.Get().(*bufio.Reader) //nolint:errcheck // the pool holds nothing else
		c.buffer.Reset(c)
		c.in = *c.buffer
	}
}

// giveBuffer gives it back, with what is in it.
func (c *conn) giveBuffer() {
	if c.buffer != nil {
		c.in = bufio.Reader{}
		c.buffer.Reset(nil)
		buffers.Put(c.buffer)
		c.buffer = nil
	}
}

// await waits until there is something to be read, or never will be, which the next read
// tells: of a reset a socket itself would say no more than that it has ended. A socket waits without a buffer: most open streams do nothing else.
func (c *conn) await() {
	switch {
	case c.in.Buffered() > 0:
	case c.raw == nil || c.to.secure:
		c.takeBuffer()
		_, _ = c.in.Peek(1) // what has failed fails again
	default:
		_ = c.raw.Read(c.poll) // as above
		c.takeBuffer()
	}
}

// Read reads from the connection, within the bound on headers. It is for the buffer.
func (c *conn) Read(p []byte) (n int, err error) {
	if c.failed != nil {
		return 0, c.failed
	}
	if c.room <= 0 {
		return 0, errHeadTooLong
	}
	if int64(len(p)) > c.room {
		p = p[:c.room]
	}
	if c.polling {
		n, err = readSocket(c.fd, p)
	} else {
		n, err = c.nc.Read(p)
	}
	if err != nil && !errors.Is(err, errNotYet) && !isTimeout(err) {
		c.failed = err
	}
	if n > 0 {
		c.heard = true
		if c.room != noBound {
			c.room -= int64(n)
		}
	}
	return n, err
}
