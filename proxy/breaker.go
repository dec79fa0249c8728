package proxy

import "time"

// Weights of what a replica can do wrong, and the sum of consecutive ones that takes
// it out of rotation: three broken connections, or five answers of status 5xx.
const (
	strikeBroken = 2 // it could not be reached, or cut the connection
	strikeStatus = 1 // it answered with a status of 500 or more
	strikesToTip = 5
)

// Pauses before a tripped replica is tried again: the first, and the longest.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// breakerState is what a breaker lets through.
type breakerState int

// The states, as the metric lmwarden_breaker_state reports them.
const (
	breakerClosed   breakerState = iota // everything
	breakerHalfOpen                     // one request, the probe
	breakerOpen                         // nothing
)

// breaker keeps requests away from a replica that fails. It is a plain state machine
// with the time handed in, guarded by the mutex of its model.
//
//	           strikes reach strikesToTip                pause over
//	closed ─────────────────────────────────▶ open ───────────────────▶ half-open
//	   ▲                                        ▲                           │
//	   │                                        └──── the probe fails ──────┤
//	   └──────────────────── any answer below 500 ──────────────────────────┘
//
// A client that leaves says nothing about the replica: it is no strike, and when its
// request was the probe the next request is the probe.
type breaker struct {
	strikes int           // consecutive, weighted
	pause   time.Duration // length of the latest pause
	until   time.Time     // end of the pause; zero while closed
	probing bool          // the one request of the half-open state is on its way
}

// state returns the state at a moment.
func (b *breaker) state(now time.Time) breakerState {
	switch {
	case b.until.IsZero():
		return breakerClosed
	case now.Before(b.until):
		return breakerOpen
	default:
		return breakerHalfOpen
	}
}

// admits says whether a request may be sent.
func (b *breaker) admits(now time.Time) bool {
	switch b.state(now) {
	case breakerClosed:
		return true
	case breakerHalfOpen:
		return !b.probing
	default:
		return false
	}
}

// seat notes that a request was sent, and says whether it is the probe.
func (b *breaker) seat(now time.Time) (probe bool) {
	if b.state(now) != breakerHalfOpen || b.probing {
		return false
	}
	b.probing = true
	return true
}

// answered closes the breaker. It says whether that changed anything.
func (b *breaker) answered() (changed bool) {
	changed = !b.until.IsZero()
	*b = breaker{}
	return changed
}

// strike counts a failure. It says whether the breaker opened by it.
func (b *breaker) strike(now time.Time, weight int, probe bool) (opened bool) {
	b.strikes += weight
	if probe {
		b.probing = false
	}
	if b.state(now) == breakerOpen || (b.strikes < strikesToTip && !probe) {
		return false
	}
	b.pause = min(max(2*b.pause, firstPause), longestPause)
	b.until = now.Add(b.pause)
	return true
}

// abandon gives the place of a probe back that ended without telling anything.
func (b *breaker) abandon(probe bool) (changed bool) {
	if !probe || !b.probing {
		return false
	}
	b.probing = false
	return true
}
