package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// RampOptions says which steps are run, and how an arm is switched on.
type RampOptions struct {
	// Arms by name, in the order in which the first step runs them; the next step and
	// the next round run them the other way round, so that neither always comes second.
	Arms []string
	// Steps are numbers of sessions at the same time.
	Steps []int
	// Rounds is how often each step of each arm is run; 0 means 1.
	Rounds int
	// Duration of a step, without its warm-up.
	Duration time.Duration
	// Step holds what all steps share; arm, sessions, duration and salt are set here.
	Step StepOptions
	// SamePrompts lets all arms send the same texts, so that later arms may find
	// them cached by earlier ones. Without it each step has texts of its own.
	SamePrompts bool
	// Done, if set, tells which steps were measured before; they are left out.
	Done func(arm string, sessions, round int) bool
	// Switch makes an arm the one in force; nil when there is nothing to switch.
	Switch func(ctx context.Context, arm string) error
	// OnStep, if set, hears before each step begins.
	OnStep func(arm string, sessions, round int)
	// OnResult, if set, hears of each step that ended, also of one without a request that
	// succeeded, which ends the ramp.
	OnResult func(Step)
}

// Validate returns an error that names every option out of range, or nil.
func (o RampOptions) Validate() error {
	var errs []error
	if len(o.Arms) == 0 {
		errs = append(errs, errors.New("there is no arm to measure"))
	}
	if len(o.Steps) == 0 {
		errs = append(errs, errors.New("there is no step to run"))
	}
	for i, arm := range o.Arms {
		if slices.Index(o.Arms, arm) < i {
			errs = append(errs, fmt.Errorf("the arm %s is named twice; name it once, and more rounds to repeat it", arm))
		}
	}
	for i, n := range o.Steps {
		if slices.Index(o.Steps, n) < i {
			errs = append(errs, fmt.Errorf("the step of %d sessions is named twice; name it once, and more rounds to repeat it", n))
		}
		if n < 1 || n > 4096 {
			errs = append(errs, fmt.Errorf("a step of %d sessions is not possible; choose 1 to 4096", n))
		}
	}
	if o.Duration < time.Second {
		errs = append(errs, fmt.Errorf("a step of %s is too short to measure anything; choose 1s or more", o.Duration))
	}
	if o.Step.Warmup < 0 {
		errs = append(errs, fmt.Errorf("a warm-up of %s is not possible; 0 is none", o.Step.Warmup))
	}
	errs = append(errs, o.Step.Load.Validate())
	if o.Rounds < 0 || o.Rounds > 1000 {
		errs = append(errs, fmt.Errorf("%d rounds are not possible; choose 1 to 1000", o.Rounds))
	}
	return errors.Join(errs...)
}

// Ramp runs every step of every arm. What was measured so far is returned with the
// error when a step fails as a whole or ctx ends.
func Ramp(ctx context.Context, opts RampOptions) ([]Step, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	var results []Step
	for round := range max(1, opts.Rounds) {
		for n, sessions := range opts.Steps {
			for i := range opts.Arms {
				if (round+n)%2 == 1 {
					i = len(opts.Arms) - 1 - i
				}
				if opts.Done != nil && opts.Done(opts.Arms[i], sessions, round+1) {
					continue
				}
				step, err := opts.one(ctx, opts.Arms[i], sessions, round+1)
				if err != nil {
					return results, err
				}
				if step.Requests+step.Errors+step.Cut > 0 {
					results = append(results, step)
				}
				if ctx.Err() != nil {
					return results, ctx.Err()
				}
				if step.Requests == 0 && step.Errors > 0 {
					return results, opts.failure(step)
				}
			}
		}
	}
	return results, nil
}

// failure says that nothing but failures was counted. Those of the warm-up are, its
// answers are not.
func (o RampOptions) failure(step Step) error {
	if o.Step.Warmup > 0 {
		return fmt.Errorf("no request that ended after the warm-up of %s succeeded; the first failure, in it or after it: %s", o.Step.Warmup, step.FirstError)
	}
	return fmt.Errorf("no request of the step succeeded: %s", step.FirstError)
}

// one runs a single step.
func (o RampOptions) one(ctx context.Context, arm string, sessions, round int) (Step, error) {
	if o.Switch != nil {
		if err := o.Switch(ctx, arm); err != nil {
			return Step{}, err
		}
	}
	if o.OnStep != nil {
		o.OnStep(arm, sessions, round)
	}
	opts := o.Step
	opts.Arm, opts.Sessions, opts.Duration = arm, sessions, o.Duration
	opts.Seed += uint64(round - 1) // other sizes, the same ones for all arms of a round
	if !o.SamePrompts {
		opts.Salt = fmt.Sprintf("%s/%s/%d/%d", opts.Salt, arm, sessions, round)
	}
	step, err := Run(ctx, opts)
	step.Round = round
	if err == nil && o.OnResult != nil {
		o.OnResult(step)
	}
	return step, err
}
