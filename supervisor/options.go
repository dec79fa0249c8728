package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options of a supervisor. A zero field takes the default that its comment names.
type Options struct {
	// Command is the engine command, before "serve". Default ["vllm"].
	Command []string
	// DataDir holds logs/ and run/. Required; it is made when missing.
	DataDir string
	// PassEnv names the variables of this process that engines see, beside PATH, HOME,
	// LANG, USER and TMPDIR.
	PassEnv []string
	// PortBase is the first port of the engines on the loopback address. The ports
	// from PortBase+1000 on are the engines' own, 100 for each. Default 18100.
	PortBase int
	// DrainTimeout is what Hooks.BeforeStop gets. Default 30 s.
	DrainTimeout time.Duration
	// StallTimeout is the time without a new log line after which a start is reported
	// as stalled. Nothing is ended for it. Default 10 min.
	StallTimeout time.Duration
	// Hooks are called from the replicas' goroutines.
	Hooks Hooks
	// Registerer takes the supervisor's metrics; nil keeps none.
	Registerer prometheus.Registerer
	// Logger takes what happens to engines; the engines' own lines go to files.
	Logger zerolog.Logger
	// Timing is for tests; the zero value is right for engines.
	Timing Timing
}

// Timing holds the intervals and budgets. A zero field takes its default.
type Timing struct {
	StartProbe   time.Duration // between two looks at a starting engine; 500 ms
	Probe        time.Duration // between two looks at a running engine; 1 s
	ProbeTimeout time.Duration // for an answer of /health, /metrics, /version, /v1/models; 5 s
	TokenTimeout time.Duration // for the first token; 2 min
	HungAfter    time.Duration // without an answer of /health, until an engine counts as hung; 30 s
	DeadAfter    time.Duration // of refused health probes, until an engine counts as dead; 10 s
	StillAfter   time.Duration // of work without any progress, until an engine is asked for a token; 15 s
	StillTimeout time.Duration // for that token, until an engine counts as wedged; 20 s
	WedgedFor    time.Duration // of being wedged, until an engine is ended; 2 min
	TermGrace    time.Duration // between SIGTERM and SIGKILL; 10 s
	KillGrace    time.Duration // after SIGKILL, until processes that stay are reported; 10 s

	BackoffMin  time.Duration // before the first new start after a failure; 1 s
	BackoffMax  time.Duration // the most that doubling leads to; 5 min
	StartBudget int           // failed starts in a row until a person is needed; 3
	CrashBudget int           // ends of engines that were ready, within Window; 5
	Window      time.Duration // over which ends are counted; 1 h
	Stable      time.Duration // of being ready, after which earlier failures are forgotten; 10 min
}

// maxPortBase leaves room for the engines' ports and their internal ones.
const maxPortBase = 40000

// withDefaults fills in and checks.
func (o Options) withDefaults() (Options, error) {
	if o.DataDir == "" {
		return o, errors.New("the supervisor has no data directory for logs and run files; set one")
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return o, fmt.Errorf("the data directory %q cannot be made absolute: %w", o.DataDir, err)
	}
	o.DataDir = dir
	if len(o.Command) == 0 {
		o.Command = []string{"vllm"}
	}
	if o.Command[0] == "" {
		return o, errors.New("the engine command is empty; set it to the path of vllm")
	}
	if o.PortBase == 0 {
		o.PortBase = 18100
	}
	if o.PortBase < 1024 || o.PortBase > maxPortBase {
		return o, fmt.Errorf("the first engine port is %d; choose one from 1024 to %d", o.PortBase, maxPortBase)
	}
	setDefault(&o.DrainTimeout, 30*time.Second)
	setDefault(&o.StallTimeout, 10*time.Minute)
	o.Timing = o.Timing.withDefaults()
	for _, sub := range []string{"logs", "run"} {
		if err := os.MkdirAll(filepath.Join(o.DataDir, sub), 0o700); err != nil {
			return o, fmt.Errorf("the data directory cannot be used, choose one that this user may write to: %w", err)
		}
	}
	return o, nil
}

func (t Timing) withDefaults() Timing {
	setDefault(&t.StartProbe, 500*time.Millisecond)
	setDefault(&t.Probe, time.Second)
	setDefault(&t.ProbeTimeout, 5*time.Second)
	setDefault(&t.TokenTimeout, 2*time.Minute)
	setDefault(&t.HungAfter, 30*time.Second)
	setDefault(&t.DeadAfter, 10*time.Second)
	setDefault(&t.StillAfter, 15*time.Second)
	setDefault(&t.StillTimeout, 20*time.Second)
	setDefault(&t.WedgedFor, 2*time.Minute)
	setDefault(&t.TermGrace, 10*time.Second)
	setDefault(&t.KillGrace, 10*time.Second)
	setDefault(&t.BackoffMin, time.Second)
	setDefault(&t.BackoffMax, 5*time.Minute)
	setDefault(&t.StartBudget, 3)
	setDefault(&t.CrashBudget, 5)
	setDefault(&t.Window, time.Hour)
	setDefault(&t.Stable, 10*time.Minute)
	return t
}

func setDefault[T ~int | ~int64](p *T, v T) {
	if *p == 0 {
		*p = v
	}
}
