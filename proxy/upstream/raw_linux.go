package upstream

import (
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// rawOf returns the socket of a connection, or nil. A connection that only wraps one may
// do something to the bytes.
func rawOf(nc net.Conn) syscall.RawConn {
	var s syscall.Conn
	switch c := nc.(type) {
	case *net.TCPConn:
		s = c
	case *net.UnixConn:
		s = c
	default:
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// isQuiet says whether a socket is as an unused one should be: open, and nothing has come.
func isQuiet(fd int) bool {
	var one [1]byte
	for {
		_, _, err := unix.Recvfrom(fd, one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return err == unix.EAGAIN
		}
	}
}

// writeSocket writes as much as a socket takes without waiting, and returns what is left.
func writeSocket(fd int, out net.Buffers) (net.Buffers, error) {
	for len(out) > 0 {
		n, err := unix.Writev(fd, out)
		switch err {
		case nil:
			out = after(out, int64(n))
		case unix.EINTR:
		case unix.EAGAIN:
			return out, nil
		default:
			return out, err
		}
	}
	return nil, nil
}

// readSocket reads what a socket has. It does not wait: the socket is non-blocking.
func readSocket(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Read(fd, p)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, errNotYet
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}
