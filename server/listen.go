package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// PortTakenError says that an address is in use. It is the fault of the box, not of
// the daemon: cmd ends with a code of its own.
type PortTakenError struct {
	// Field of the configuration that holds the address: "admin_listen".
	Field string
	// Addr is the address that is taken.
	Addr string
	// Holder is the process that holds it, "nginx (pid 812)", or empty when not known.
	Holder string
	err    error
}

// Error returns a sentence with the holder and the fix.
func (e *PortTakenError) Error() string {
	holder := "another process"
	if e.Holder != "" {
		holder = e.Holder
	}
	return fmt.Sprintf("%s %s is taken by %s; stop it or choose another address", e.Field, e.Addr, holder)
}

// Unwrap returns the error of the system.
func (e *PortTakenError) Unwrap() error { return e.err }

// listen opens a TCP listener. The error is a *PortTakenError when the address is in
// use.
func listen(ctx context.Context, field, addr string) (net.Listener, error) {
	if err := checkAddress(field, addr); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: limitStalls(clientStall)}
	l, err := lc.Listen(ctx, "tcp", addr)
	if err == nil {
		return l, nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		_, text, _ := net.SplitHostPort(addr)
		port, _ := strconv.Atoi(text)
		return nil, &PortTakenError{Field: field, Addr: addr, Holder: portHolder("/proc", port), err: err}
	}
	return nil, fmt.Errorf("%s %s cannot be opened: %w", field, addr, err)
}
