package upstream

import (
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

// quiet says whether an unused connection is as it should be: open, and nothing has come.
// Of a connection that is no socket nothing is known.
func quiet(raw syscall.RawConn) bool {
	if raw == nil {
		return true
	}
	var again bool
	err := raw.Read(func(fd uintptr) bool {
		var one [1]byte
		for {
			_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
			if err == unix.EINTR {
				continue
			}
			again = err == unix.EAGAIN
			return true // it must not wait
		}
	})
	return err == nil && again
}

// writeNow writes as much as the socket takes without waiting, head first, and returns
// how much that was.
func writeNow(raw syscall.RawConn, head, body []byte) (sent int64, err error) {
	out := [][]byte{head, body}
	if len(body) == 0 {
		out = out[:1]
	}
	failed := raw.Write(func(fd uintptr) bool {
		for len(out) > 0 {
			n, errno := unix.Writev(int(fd), out)
			switch errno {
			case nil:
				sent += int64(n)
				out = after(out, int64(n))
			case unix.EINTR:
			case unix.EAGAIN:
				return true // it must not wait
			default:
				err = errno
				return true
			}
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return sent, err
}
