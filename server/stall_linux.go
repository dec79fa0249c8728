package server

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// clientStall is how long a client may take nothing of what is sent to it.
const clientStall = time.Minute

// limitStalls returns the control of a listener whose connections end when the other
// side acknowledges nothing, or has no room, for so long. A deadline of a write begins
// only when the buffers of the kernel are full, which a slow stream needs minutes for;
// the kernel sees at once that nobody reads. Accepted connections take the limit over
// from their listener.
func limitStalls(d time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		broken := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
		})
		if broken != nil {
			return broken
		}
		if err != nil {
			return fmt.Errorf("the time for clients that take nothing cannot be limited: %w", err)
		}
		return nil
	}
}
