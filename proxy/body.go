package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/lmwarden/lmwarden/proxy/wire"
)

// firstBodyBuffer is the most memory that a stated Content-Length makes the proxy take
// before the bytes are there. Later it is four times what has come.
const firstBodyBuffer = 64 << 10

// budget bounds a sum over all requests. It is safe for concurrent use.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take adds n to the sum; false when that would be over the limit.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// give takes n off the sum.
func (b *budget) give(n int64) { b.used.Add(-n) }

// readBody reads the request body whole. It is bounded in size, by itself and together
// with those of all other requests, and in time, each read and all of it; a body that is
// too large is refused before it is asked for.
func (x *exchange) readBody() error {
	limit, whose := x.bodyLimit()
	if x.r.ContentLength > limit {
		return &bodyTooLargeError{limit, whose}
	}
	if e := x.r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return errBodyEncoded
	}
	var buf []byte
	end := time.Now().Add(x.p.options.BodyTimeout)
	for {
		if len(buf) == cap(buf) {
			var ok bool
			if buf, ok = x.grow(buf); !ok {
				return errBodiesFull
			}
		}
		x.readDeadline(min(x.p.options.BodyReadTimeout, time.Until(end)))
		n, err := x.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return &bodyTooLargeError{limit, whose}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return x.bodyError(err)
		}
		if !time.Now().Before(end) {
			return errBodyTimeout
		}
	}
	x.noReadDeadline()
	x.body = buf
	return nil
}

// grow returns the body with room for more; false when all bodies together would take
// too much. One byte more than stated is room enough to see the end.
func (x *exchange) grow(buf []byte) ([]byte, bool) {
	stated := max(x.r.ContentLength, 511) + 1
	size := min(stated, firstBodyBuffer)
	if have := int64(cap(buf)); have > 0 {
		size = 2 * have
		if x.r.ContentLength >= have { // what has come is copied: the fewer steps the better
			size = min(4*have, stated)
		}
		size = min(size, x.p.options.MaxBodyBytes+1)
	}
	_, size = blockClass(size)
	more := size - int64(cap(buf))
	if !x.p.bodies.take(more) {
		return nil, false
	}
	x.buffered += more
	larger := takeBlock(size)
	buf = append(larger.b, buf...)
	x.block.give()
	x.block = larger
	return buf, true
}

// dropBody lets go of the body, and of what refers to it.
func (x *exchange) dropBody() {
	x.p.bodies.give(x.buffered)
	x.buffered = 0
	x.scan = wire.Scan{}
	if x.body != nil {
		x.body = []byte{} // it was read
	}
	x.ownBlock().give()
}

// ownBlock takes the memory of the body away from the exchange, for somebody to give back;
// nil when nobody may: an engine may still be reading it.
func (x *exchange) ownBlock() *block {
	k := x.block
	x.block = nil
	if x.lent {
		return nil
	}
	return k
}

// readDeadline bounds the next read of the request.
func (x *exchange) readDeadline(d time.Duration) {
	_ = x.reply.ctl.SetReadDeadline(time.Now().Add(d)) // not supported by a recorder in a test: then unbounded
}

// noReadDeadline lifts the bound, under which the server could not notice later that the
// client leaves.
func (x *exchange) noReadDeadline() {
	_ = x.reply.ctl.SetReadDeadline(time.Time{}) // as in readDeadline
}

// bodyError says why a request body could not be read.
func (x *exchange) bodyError(err error) error {
	var ne net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		return errBodyTimeout
	case x.r.Context().Err() != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return errClientGone
	default:
		return errors.Join(errBodyBroken, err)
	}
}

// Bounds on what is read of a body after it was refused, so that its client gets to
// read the refusal instead of a connection reset.
const (
	drainTime  = 5 * time.Second
	drainBytes = 1 << 30
)

// drainBody reads and drops what the client still sends of a body that was refused. A
// client that waits to be asked for it is not asked.
func (x *exchange) drainBody() {
	if x.r.ContentLength == 0 || x.r.Header.Get("Expect") != "" {
		return
	}
	_ = x.reply.ctl.SetReadDeadline(time.Now().Add(drainTime))       // not supported by a recorder in a test
	_, _ = io.Copy(io.Discard, io.LimitReader(x.r.Body, drainBytes)) // best effort
}
