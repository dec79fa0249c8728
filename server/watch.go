package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
)

// watchInterval is the shortest time between two messages of a watch. Figures change
// all the time, so that looking once a second finds every change.
const watchInterval = time.Second

// watch sends what look returns now and whenever it changed, until ctx ends or one of
// the two fails. The end of ctx is no failure: it is how a watcher leaves.
func watch[T proto.Message](ctx context.Context, look func() (T, error), send func(T) error) error {
	var last T
	first := true
	return everySecond(ctx, func() error {
		now, err := look()
		if err != nil || !first && proto.Equal(now, last) {
			return err
		}
		first, last = false, now
		return send(now)
	})
}

// everySecond calls f now and once a second until ctx ends, without an error then, or
// f fails.
func everySecond(ctx context.Context, f func() error) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		if err := f(); err != nil {
			return unlessLeft(ctx, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// unlessLeft returns the error of a stream, or nil when it came because the caller
// left.
func unlessLeft(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
