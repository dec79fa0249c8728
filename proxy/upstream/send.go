package upstream

import (
	"net"
	"sync"
	"time"
)

// An engine may answer before it has read all of a request, and may then read no more: a
// body that is too large, a key that is wrong. Whoever only writes until all is sent, and
// only then reads, waits for ever. So what the socket takes without waiting is written by
// the exchange itself, which is nearly always everything, and the rest by a goroutine
// beside it that ends with the exchange at the latest.

// sender sends the rest of a request.
type sender struct {
	done chan struct{} // closed when all was sent, or nothing more can be
	err  error         // why not all was sent; to be read behind done
}

// sends says whether the sender may still read the request; nil does not.
func (s *sender) sends() bool {
	if s == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// brokenWait is how long an engine that takes no more of a request may take to say why.
const brokenWait = time.Second

// send sends a request without waiting for the engine. It says whether head is still in
// use. An error shows when the answer is read.
func (c *conn) send(head, body []byte) (busy bool) {
	c.heard, c.room = false, headLimit
	c.wait.over, c.wait.set = false, false
	rest := net.Buffers{head, body}
	if len(body) == 0 {
		rest = rest[:1]
	}
	var err error
	if c.raw != nil && !c.to.secure {
		rest, err = c.sendNow(rest)
		if err == nil && len(rest) == 0 {
			c.deadline(c.client.options.HeaderTimeout)
			return false
		}
	}
	s := &sender{done: make(chan struct{})}
	c.sender = s
	if err != nil {
		s.err = err
		c.deadline(brokenWait)
		close(s.done)
		return false
	}
	timeout := c.client.options.HeaderTimeout
	go func() {
		defer close(s.done)
		if _, s.err = rest.WriteTo(c.nc); s.err != nil {
			c.deadline(brokenWait)
		} else {
			c.deadline(timeout)
		}
	}()
	return true
}

// after returns what is left of buffers behind n bytes.
func after(rest net.Buffers, n int64) net.Buffers {
	for len(rest) > 0 && n >= int64(len(rest[0])) {
		n -= int64(len(rest[0]))
		rest = rest[1:]
	}
	if len(rest) > 0 {
		rest[0] = rest[0][n:]
	}
	return rest
}

// finishSending ends the sending of a request whose answer is complete, and says whether
// the engine was sent all of it.
func (c *conn) finishSending() bool {
	s := c.sender
	if s == nil {
		return true
	}
	select {
	case <-s.done:
	default:
		_ = c.nc.SetWriteDeadline(longAgo) // a write that waits ends; then the connection is closed
		<-s.done
		_ = c.nc.SetWriteDeadline(time.Time{}) // fails on a connection that is closed next
	}
	c.sender = nil
	return s.err == nil
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// sendError returns why the request could not be sent whole, as far as that is known.
func (c *conn) sendError() error {
	if c.sender == nil || c.sender.sends() {
		return nil
	}
	return c.sender.err
}

// headWait is the bound on the time until the headers of an answer.
type headWait struct {
	mu   sync.Mutex
	over bool // the headers are there
	set  bool // the connection has a deadline
}

// deadline bounds the wait for the headers from now on; 0 does not. It does nothing when
// they are there: the sender may be later than the answer.
func (c *conn) deadline(d time.Duration) {
	if d <= 0 {
		return
	}
	c.wait.mu.Lock()
	defer c.wait.mu.Unlock()
	if !c.wait.over {
		c.wait.set = true
		_ = c.nc.SetReadDeadline(time.Now().Add(d)) // fails on a connection that is closed: then nothing waits
	}
}
