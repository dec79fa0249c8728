package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// firstBodyBuffer is the most memory that a stated Content-Length makes the proxy take
// before the bytes are there.
const firstBodyBuffer = 1 << 20

// readBody reads the request body whole. It is bounded in size, and each read is
// bounded in time; a body that is too large is refused before it is asked for.
func (x *exchange) readBody() error {
	limit := x.p.options.MaxBodyBytes
	if x.r.ContentLength > limit {
		return &bodyTooLargeError{limit}
	}
	if e := x.r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return errBodyEncoded
	}
	buf := make([]byte, 0, min(max(x.r.ContentLength, 511), firstBodyBuffer)+1)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		x.readDeadline(x.p.options.BodyReadTimeout)
		n, err := x.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return &bodyTooLargeError{limit}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return x.bodyError(err)
		}
	}
	x.readDeadline(0)
	x.body = buf
	return nil
}

// readDeadline bounds the next read of the request; 0 lifts the bound, without which
// the server could not notice later that the client leaves.
func (x *exchange) readDeadline(d time.Duration) {
	var t time.Time
	if d > 0 {
		t = time.Now().Add(d)
	}
	_ = x.reply.ctl.SetReadDeadline(t) // not supported by a recorder in a test: then unbounded
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

// bodyFor returns the body for an attempt: a new reader each time.
func bodyFor(body []byte) (io.Reader, int64) {
	if len(body) == 0 {
		return http.NoBody, 0
	}
	return bytes.NewReader(body), int64(len(body))
}
