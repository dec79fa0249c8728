package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// cleanups is a stack of named steps that undo a start, last in first out.
type cleanups struct{ steps []cleanup }

type cleanup struct {
	name string
	f    func(context.Context) error
}

func (c *cleanups) push(name string, f func(context.Context) error) {
	c.steps = append(c.steps, cleanup{name, f})
}

// run undoes every step, also after one failed, and forgets them. A step that
// outlives ctx is left behind and named in the error: nothing may keep the daemon
// from ending.
func (c *cleanups) run(ctx context.Context) error {
	steps := c.steps
	c.steps = nil
	var errs []error
	for _, step := range slices.Backward(steps) {
		if err := bounded(ctx, step.f); err != nil {
			errs = append(errs, fmt.Errorf("stopping the %s: %w", step.name, err))
		}
	}
	return errors.Join(errs...)
}

// stepGrace is how long each step may take once ctx is over, so that the later ones
// still get their turn. The longest is that of the engines, which kills them then and
// waits up to 20 s for the kernel to give their memory back.
const stepGrace = 25 * time.Second

func bounded(ctx context.Context, f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(stepGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
		return context.Cause(ctx)
	}
}
