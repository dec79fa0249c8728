package supervisor

import (
	"time"

	"github.com/lmwarden/lmwarden/supervisor/vllm"
)

// ending is how a life ended.
type ending struct {
	asked    bool          // a command ended it; nothing else counts then
	wasReady bool          // it had answered a request
	readyFor time.Duration // since it first did
	exit     int           // exit code, or 128 plus the signal; -1 when it was ended or never began
	what     string        // "The engine exited with code 1", without a full stop
	cause    vllm.Cause    // why, when it is known
	last     []string      // last lines of its log
	full     bool          // it never began, for a full disk
	portLost bool          // somebody else has its port
}

// verdict is what follows from an ending.
type verdict struct {
	again    bool          // start again, after wait
	wait     time.Duration // before the next start
	failures int           // that count at present, this one included
}

// policy decides whether and when an engine is started again. It is a value without
// goroutines or clock.
type policy struct {
	t       Timing
	row     int         // starts in a row that did not get ready
	crashes []time.Time // ends of ready engines, within the window
	delay   time.Duration
	taken   int // starts in a row that met somebody else on their port
}

// portBudget is how many starts in a row may meet somebody else on their port, each on
// another one, until a person is needed. Another daemon that starts its engines on the same
// ports takes a few of them.
const portBudget = 20

// ended takes an ending that nobody asked for.
func (p *policy) ended(e ending, now time.Time) verdict {
	if e.full { // no failure of the engine, and nobody needs to act here once there is space
		p.delay = min(max(2*p.delay, p.t.BackoffMin), p.t.BackoffMax)
		return verdict{again: true, wait: min(p.delay, fullDiskWait), failures: max(p.row, len(p.crashes))}
	}
	if e.portLost && !e.wasReady {
		p.taken++
		return verdict{again: p.taken < portBudget, wait: p.t.BackoffMin, failures: max(p.row, len(p.crashes), p.taken)}
	}
	if e.wasReady {
		p.row, p.taken = 0, 0
		if e.readyFor >= p.t.Stable {
			p.forget()
		}
		p.crashes = append(recent(p.crashes, now.Add(-p.t.Window)), now)
	} else {
		p.row++
	}
	v := verdict{failures: max(p.row, len(p.crashes))}
	if p.row >= p.t.StartBudget || len(p.crashes) > p.t.CrashBudget {
		return v
	}
	// What is wrong in the settings is wrong the next time too. An engine that has
	// answered was set up well, so that its end is something else.
	if e.cause.Kind == vllm.Configuration && !e.wasReady {
		return v
	}
	p.delay = min(max(2*p.delay, p.t.BackoffMin), p.t.BackoffMax)
	v.again, v.wait = true, p.delay
	return v
}

// forget starts with a clean slate: the engine ran well for long, or a person acted.
func (p *policy) forget() { p.row, p.crashes, p.delay, p.taken = 0, nil, 0, 0 }

// recent keeps the times after start.
func recent(times []time.Time, start time.Time) []time.Time {
	for len(times) > 0 && !times[0].After(start) {
		times = times[1:]
	}
	return times
}
