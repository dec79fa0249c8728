package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	"connectrpc.com/connect/v2"

	"github.com/lmwarden/lmwarden/server"
)

// Exit codes, as printed by the help and in docs/command-line.md.
const (
	exitFailure     = 1   // it did not work
	exitUsage       = 2   // bad input, or the daemon cannot start on this box
	exitUnreachable = 3   // no daemon answers at the address
	exitNotFound    = 4   // no such model, replica, conversation or request
	exitConflict    = 5   // it exists already, was changed meanwhile, or its state forbids it
	exitRefused     = 6   // the token is missing or wrong
	exitInterrupted = 130 // ended by a signal
)

// exitHelp is the part of the help that lists them.
const exitHelp = `Exit codes:
  0    done
  1    it did not work
  2    bad input, or the daemon cannot start (a port is taken, ...)
  3    no daemon answers at the address
  4    no such model, replica, conversation or request
  5    conflict: it exists already, was changed meanwhile, or its state forbids it
  6    the token is missing or wrong
  130  interrupted`

// codeError is an error with an exit code of its own.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }
func (e *codeError) Unwrap() error { return e.err }

// usageErrorf returns an error for input that cannot be meant.
func usageErrorf(format string, args ...any) error {
	return &codeError{exitUsage, fmt.Errorf(format, args...)}
}

// exitCode is the one place that maps errors to exit codes.
func exitCode(err error) int {
	var coded *codeError
	var taken *server.PortTakenError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &taken):
		return exitUsage
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return exitUsage
	case connect.CodeNotFound:
		return exitNotFound
	case connect.CodeAlreadyExists, connect.CodeAborted, connect.CodeFailedPrecondition:
		return exitConflict
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return exitRefused
	case connect.CodeCanceled:
		return exitInterrupted
	}
	return exitFailure
}

// sentence turns the error of a call into what a person can act on. Errors that the
// daemon itself sent are its own sentences, without their code.
func (a *app) sentence(err error) error {
	var rpc *connect.Error
	if !errors.As(err, &rpc) {
		return err
	}
	var dial *net.OpError
	var urlError *url.Error
	switch {
	case rpc.Code() == connect.CodeUnimplemented:
		what := "does not know this call"
		if rpc.Message() != "" {
			what += " (" + rpc.Message() + ")"
		}
		return fmt.Errorf("what answers at %s %s; is it the admin address of a daemon of this version?", a.addr, what)
	case rpc.IsRemote() && rpc.Message() != "":
		return &codeError{exitCode(err), errors.New(rpc.Message())}
	case errors.As(err, &dial) && dial.Op == "dial":
		return &codeError{exitUnreachable, fmt.Errorf("no daemon answers at %s (%w); start one with \"lmwarden serve\", or name another with --addr or LMWARDEN_ADDR", a.addr, dial.Err)}
	case rpc.Code() == connect.CodeCanceled:
		return &codeError{exitInterrupted, errInterrupted}
	case errors.As(err, &urlError) && rpc.Code() == connect.CodeUnavailable:
		return &codeError{exitUnreachable, fmt.Errorf("the daemon at %s broke the call off: %w", a.addr, urlError.Err)}
	case rpc.Message() == "":
		return fmt.Errorf("the daemon at %s gave up without a reason (%s); its log says more", a.addr, rpc.Code())
	default:
		return &codeError{exitCode(err), errors.New(rpc.Message())}
	}
}
