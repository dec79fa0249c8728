package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

type hurryKey struct{}

// watchSignals returns a context that the first SIGINT, SIGTERM or SIGHUP (a terminal that
// was closed) ends, the polite request to stop. The second one ends the context of [hurry]: a daemon then kills
// what it was still waiting for. The third one ends the process on the spot.
func watchSignals(parent context.Context) (ctx context.Context, stop func()) {
	hurried, hurryUp := context.WithCancelCause(parent)
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, hurryKey{}, hurried))
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup asks for
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		for n := 1; ; n++ {
			select {
			case <-signals:
			case <-done:
				return
			}
			switch n {
			case 1:
				cancel(errInterrupted)
			case 2:
				hurryUp(errInterrupted)
			default:
				os.Exit(exitInterrupted)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
		hurryUp(nil)
	}
}

// hurry returns the context for stopping: alive after the first signal, ended by the
// second. It carries no deadline.
func hurry(ctx context.Context) context.Context {
	if hurried, ok := ctx.Value(hurryKey{}).(context.Context); ok {
		return hurried
	}
	return context.WithoutCancel(ctx)
}
