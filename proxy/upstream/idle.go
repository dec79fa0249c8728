package upstream

import "time"

// kept returns the kept connection that was used last, or nil. Those that the engine has
// closed, or has sent something on, are dropped on the way.
func (cl *Client) kept(to *address) *conn {
	for {
		cl.mu.Lock()
		n := len(cl.idle) - 1
		if n < 0 {
			cl.mu.Unlock()
			return nil
		}
		c := cl.idle[n]
		cl.idle[n] = nil
		cl.idle = cl.idle[:n]
		cl.mu.Unlock()
		if c.to.text == to.text && time.Since(c.since) < cl.options.IdleTimeout && c.usable() {
			return c
		}
		c.abort()
	}
}

// keep takes a connection that is unused from now on.
func (cl *Client) keep(c *conn) {
	c.since = time.Now()
	cl.mu.Lock()
	if c.epoch != cl.epoch || len(cl.idle) >= cl.options.MaxIdle {
		cl.mu.Unlock()
		c.abort()
		return
	}
	cl.idle = append(cl.idle, c)
	if cl.timer == nil {
		cl.timer = time.AfterFunc(cl.options.IdleTimeout, cl.expire)
	}
	cl.mu.Unlock()
}

// expire closes the connections that have been unused for too long. It runs as long as
// there are any.
func (cl *Client) expire() {
	now := time.Now()
	var old []*conn
	defer func() { abortAll(old) }() // outside of the lock
	cl.mu.Lock()
	defer cl.mu.Unlock()
	n := 0
	for n < len(cl.idle) && now.Sub(cl.idle[n].since) >= cl.options.IdleTimeout {
		n++
	}
	old = append(old, cl.idle[:n]...)
	left := copy(cl.idle, cl.idle[n:])
	clear(cl.idle[left:])
	cl.idle = cl.idle[:left]
	switch {
	case cl.timer == nil: // all were closed meanwhile
	case left == 0:
		cl.timer = nil
	default:
		cl.timer.Reset(cl.options.IdleTimeout - now.Sub(cl.idle[0].since))
	}
}

// CloseIdleConnections closes all kept connections, and keeps none of those that are in
// use now: the engine behind the address is another one, or nobody will ask again.
func (cl *Client) CloseIdleConnections() {
	cl.mu.Lock()
	old := cl.idle
	cl.idle = nil
	cl.epoch++
	if cl.timer != nil {
		cl.timer.Stop()
		cl.timer = nil
	}
	cl.mu.Unlock()
	abortAll(old)
}

// abortAll closes connections.
func abortAll(all []*conn) {
	for _, c := range all {
		c.abort()
	}
}
