package upstream

import (
	"errors"
	"net"
	"syscall"
)

// socket is the socket under a connection, for what package net cannot: to look whether
// something has come, and to read and write without waiting. Its functions are made once,
// since making them costs more than calling them.
type socket struct {
	raw syscall.RawConn // nil when the connection is no socket

	probe func(fd uintptr) bool // is the connection quiet
	quiet bool                  // what probe found

	push func(fd uintptr) bool // send what the socket takes
	out  net.Buffers           // what push has left
	err  error                 // of push

	poll    func(fd uintptr) bool // read what has come
	polling bool                  // a read must not wait
	fd      int                   // of the socket, while polling
}

// useSocket makes the functions for a socket; nil for none.
func (c *conn) useSocket(raw syscall.RawConn) {
	if raw == nil {
		return
	}
	c.raw = raw
	c.probe = func(fd uintptr) bool {
		c.quiet = isQuiet(int(fd))
		return true // it must not wait
	}
	c.push = func(fd uintptr) bool {
		c.out, c.err = writeSocket(int(fd), c.out)
		return true // as above
	}
	c.poll = func(fd uintptr) bool {
		c.takeBuffer()
		c.polling, c.fd = true, int(fd)
		_, err := c.in.Peek(1)
		c.polling = false
		if errors.Is(err, errNotYet) {
			c.giveBuffer()
			return false // it waits, and is called again when something has come
		}
		return true
	}
}

// usable says whether an unused connection is as it should be: open, and nothing has come.
// Of a connection that is no socket nothing is known.
func (c *conn) usable() bool {
	if c.raw == nil {
		return true
	}
	c.quiet = false
	return c.raw.Read(c.probe) == nil && c.quiet
}

// sendNow sends what the socket takes without waiting, and returns what is left.
func (c *conn) sendNow(out net.Buffers) (net.Buffers, error) {
	c.out = out
	err := c.raw.Write(c.push)
	if err == nil {
		err = c.err
	}
	out = c.out
	c.out, c.err = nil, nil
	return out, err
}
