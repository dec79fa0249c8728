package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// memNet is a network in memory, so that time can be fake: hosts by name, connections
// by net.Pipe.
type memNet struct {
	mu    sync.Mutex
	hosts map[string]*memListener
	dials atomic.Int64
}

func newMemNet() *memNet { return &memNet{hosts: make(map[string]*memListener)} }

// dial connects to a host; one that does not listen refuses.
func (n *memNet) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.dials.Add(1)
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	l := n.hosts[host]
	n.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	client, server := net.Pipe()
	select {
	case l.accepted <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listen makes a host reachable.
func (n *memNet) listen(host string) *memListener {
	l := &memListener{net: n, host: host, accepted: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[host] = l
	return l
}

// memListener is a host that listens.
type memListener struct {
	net      *memNet
	host     string
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		if l.net.hosts[l.host] == l {
			delete(l.net.hosts, l.host)
		}
	})
	return nil
}

func (l *memListener) Addr() net.Addr { return &net.UnixAddr{Name: l.host, Net: "mem"} }
