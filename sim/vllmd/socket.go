package vllmd

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// socket is a bound port without a listener: connections to it are refused, but nobody
// else can listen on it. That is the state of vLLM's port during its start.
type socket struct{ fd int }

// bind takes a port. An empty host means all addresses.
func bind(host string, port int) (*socket, error) {
	if host == "" {
		host = "0.0.0.0"
	}
	ips, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", host)
	if err != nil {
		return nil, fmt.Errorf("look up the host %q: %w", host, err)
	}
	addr := ips[0].Unmap()
	family := unix.AF_INET
	if addr.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	s := &socket{fd}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		s.close()
		return nil, fmt.Errorf("set SO_REUSEADDR: %w", err)
	}
	if err := unix.Bind(fd, sockaddr(addr, port)); err != nil {
		s.close()
		return nil, fmt.Errorf("bind: %w", err)
	}
	return s, nil
}

func sockaddr(addr netip.Addr, port int) unix.Sockaddr {
	if addr.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: addr.As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: addr.As16()}
}

// listen opens the port for connections.
func (s *socket) listen() (*net.TCPListener, error) {
	if err := unix.Listen(s.fd, 2048); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	f := os.NewFile(uintptr(s.fd), "listener")
	s.fd = -1
	defer f.Close() // FileListener works on a copy
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("listen: the socket became a %T", l)
	}
	return tcp, nil
}

// close gives a port back that nobody listens on.
func (s *socket) close() {
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
		s.fd = -1
	}
}
