package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lmwarden/lmwarden/bench"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

// settings are the flags of the program, and what makes two series the same.
type settings struct {
	Steps    []int         `json:"steps"`
	Duration time.Duration `json:"durationNanoseconds"`
	Rounds   int           `json:"rounds"`
	Replicas int           `json:"replicas"`
	Speed    float64       `json:"speed"`
	Preset   string        `json:"preset"`
	Seed     uint64        `json:"seed"`
	Load     bench.Load    `json:"load"`

	// Finalists is how many peers take part after the first round; 0 is all.
	Finalists int `json:"finalists,omitempty"`

	arms    []arm
	virtual bool // play the own arms in virtual time too
	binary  string
	peers   string
	out     string // file whose marked part becomes the table
	keep    string // file of the single runs
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// readSettings reads and checks the flags.
func readSettings(args []string, stderr io.Writer) (settings, error) {
	var s settings
	var steps, only string
	var all []string
	for _, a := range arms() {
		all = append(all, a.name)
	}
	fl := flag.NewFlagSet("peers", flag.ContinueOnError)
	fl.SetOutput(stderr)
	fl.StringVar(&s.binary, "binary", "bin/lmwarden", "our program; it is also the simulated engine")
	fl.StringVar(&s.peers, "peers", "", "folder of the installed peers")
	fl.StringVar(&steps, "steps", "8,24", "numbers of sessions at the same time")
	fl.DurationVar(&s.Duration, "duration", 90*time.Second, "length of a step")
	fl.IntVar(&s.Rounds, "rounds", 1, "how often each step of each arm is run")
	fl.IntVar(&s.Replicas, "replicas", 4, "number of engines")
	fl.Float64Var(&s.Speed, "speed", 4, "how many times faster than the card the engines run; pauses between turns are as much shorter")
	fl.StringVar(&s.Preset, "preset", "a4000/qwen3-4b", "card and model that are simulated")
	fl.Uint64Var(&s.Seed, "seed", 1, "seed of the conversations' sizes; round n uses seed + n - 1")
	fl.StringVar(&only, "arms", "", "only these arms, comma separated: "+strings.Join(all, ", "))
	fl.IntVar(&s.Finalists, "finalists", 0, "after the first round, run our own arms and only so many peers, those with the most output; 0 runs all")
	fl.BoolVar(&s.virtual, "virtual", false, "play the same steps of our own arms in virtual time and print both beside each other")
	own := fl.Bool("own", false, "run our own arms only; no peer needs to be installed")
	fl.StringVar(&s.out, "write", "", "file whose part between the marks becomes the table")
	fl.StringVar(&s.keep, "resume", "", "file that keeps what is measured, and from which the series goes on")
	if err := fl.Parse(args); err != nil {
		return s, err
	}
	for text := range strings.SplitSeq(steps, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > 4096 {
			return s, fmt.Errorf("-steps has %q; it must be numbers from 1 to 4096, such as 8,24", text)
		}
		s.Steps = append(s.Steps, n)
	}
	switch {
	case s.peers == "" && !*own:
		return s, errors.New("-peers is missing: the folder that tests/peers/install.sh prints; \"make peers\" gives it")
	case s.Finalists < 0:
		return s, fmt.Errorf("-finalists is %d; it must be 0 or more", s.Finalists)
	case s.Duration < time.Second || s.Rounds < 1 || s.Replicas < 1 || s.Replicas > 64:
		return s, errors.New("a step needs 1s or more, a series 1 round or more and 1 to 64 engines")
	case !(s.Speed > 0 && s.Speed <= 1000):
		return s, fmt.Errorf("-speed is %g; it must be above 0 and at most 1000", s.Speed)
	}
	s.Load = bench.Load{Load: load.Seed()}
	s.Load.Think = load.Fixed(time.Duration(float64(400*time.Millisecond) / s.Speed))
	var err error
	s.arms, err = choose(only, all)
	if *own {
		s.arms = slices.DeleteFunc(s.arms, func(a arm) bool { return a.policy == "" })
	}
	if err == nil && len(s.arms) == 0 {
		err = errors.New("-own leaves no arm of -arms; name one of ours")
	}
	return s, err
}

// choose returns the arms of a list of names, all without one.
func choose(only string, names []string) ([]arm, error) {
	if only == "" {
		return arms(), nil
	}
	var chosen []arm
	for name := range strings.SplitSeq(only, ",") {
		found := false
		for _, a := range arms() {
			if a.name == strings.TrimSpace(name) {
				chosen, found = append(chosen, a), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no arm %q; choose from %s", name, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}
