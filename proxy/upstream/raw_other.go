//go:build !linux

package upstream

import (
	"net"
	"syscall"
)

// rawOf returns nil: sockets are used through package net alone.
func rawOf(net.Conn) syscall.RawConn { return nil }

// quiet knows nothing of a connection.
func quiet(syscall.RawConn) bool { return true }

// writeNow is never called without a socket.
func writeNow(_ syscall.RawConn, _, _ []byte) (int64, error) { return 0, nil }
