//go:build !linux

package server

import (
	"syscall"
	"time"
)

// clientStall is how long a client may take nothing of what is sent to it.
const clientStall = time.Minute

// limitStalls does nothing here: the deadline of each write has to do.
func limitStalls(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
