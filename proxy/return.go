package proxy

import (
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// What becomes of requests while no replica can take them and one is expected back: they
// wait at the door, for as long as any may. And what a client is told that has to try
// again later.

// deathNotice is how long after a replica has failed a request word may take that it has
// died. A request that nobody else can take is not given up before.
const deathNotice = 5 * time.Second

// moveOn gives a request that got no first byte another place, or one at the door. When
// there is none it waits for word that its replica has died, so that it may wait for its
// next life; false means that no such word came. A request of which nothing was sent may be
// sent again then all the same. The error ends the exchange.
func (x *exchange) moveOn(back *setback) (bool, error) {
	if x.place.ticket == 0 || x.bound {
		return false, nil
	}
	notice := time.NewTimer(deathNotice)
	defer notice.Stop()
	for {
		moved, news := x.model.reroute(time.Now(), &x.place)
		if moved || news == nil || back.answer != nil {
			return moved, nil
		}
		select {
		case <-news:
		case <-notice.C:
			return back.unsent, nil
		case <-x.ctx.Done():
			return false, x.ended()
		}
	}
}

// reroute moves a request that got no first byte to another replica. Where places are kept
// it goes back to the door with its time of arrival, and so it does when no replica is left
// and one is expected back: v.ready is closed then when it may go; else it is moved at once,
// and v.ready is nil. When it was not moved nothing has changed, and news is closed when
// that may have another end; nil means that it has none.
func (m *model) reroute(now time.Time, v *reservation) (moved bool, news <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spec == nil {
		return false, nil
	}
	atDoor := m.core.Requeue(now, v.ticket)
	if !atDoor && m.core.Reroute(now, v.ticket, &v.decision) {
		m.leave(now, v)
		v.ready = nil
		m.seat(now, v)
		m.deliver(now)
		return true, nil
	}
	if r := v.replica; !atDoor && m.returns() && (r.index < 0 || r.rests() || !r.lives(v)) {
		atDoor = m.core.Strand(now, v.ticket)
	}
	if atDoor {
		m.leave(now, v)
		v.target, v.decision = nil, route.Decision{}
		m.wait(v)
		m.deliver(now)
		return true, nil
	}
	if !m.returns() || v.decision.Class == route.ClassClientPinned {
		return false, nil
	}
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return false, m.changed
}

// returns says whether a replica is expected back when none is ready: one has been, and no
// person has to act first. The caller holds mu.
func (m *model) returns() bool { return m.spec != nil && !m.spec.Halted && m.served }

// noteReady keeps what is known of whether the model is served, and tells those who wait
// for news of it. The caller holds mu.
func (m *model) noteReady(now time.Time) {
	ready := false
	for _, r := range m.replicas {
		ready = ready || !r.rests()
	}
	switch {
	case ready && !m.away.IsZero():
		m.absence, m.away = now.Sub(m.away), time.Time{}
	case !ready && m.served && m.away.IsZero():
		m.away = now
	}
	m.served = m.served || ready
	if m.spec != nil && m.spec.Halted && !ready {
		m.served, m.away = false, time.Time{} // the next start is a first one
		m.dismiss(&noReplicaError{model: m.name, state: m.spec.State, rank: -1, halted: true})
	}
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

// guessAbsence is when a client is told to try again while nothing is known.
const guessAbsence = 5 * time.Second

// backIn returns the time until a replica may be ready: not before the next start is due,
// and by what the absence before took. The caller holds mu.
func (m *model) backIn(now time.Time) time.Duration {
	in := time.Duration(0)
	if !m.away.IsZero() && m.absence > 0 {
		in = m.away.Add(m.absence).Sub(now)
	}
	if m.spec != nil && !m.spec.NextStart.IsZero() {
		in = max(in, m.spec.NextStart.Sub(now))
	}
	if in <= 0 {
		return guessAbsence
	}
	return in
}

// unready says why no replica can take a request; rank is the one that its client named, or
// -1. When any is ready it must have been that one.
func (m *model) unready(now time.Time, rank int) *noReplicaError {
	m.mu.Lock()
	defer m.mu.Unlock()
	none := &noReplicaError{model: m.name, rank: -1, after: m.backIn(now)}
	for _, r := range m.replicas {
		if !r.rests() {
			none.rank = rank
		}
	}
	if none.rank < 0 && m.spec != nil {
		none.state, none.halted = m.spec.State, m.spec.Halted
	}
	if none.rank >= 0 && rank < len(m.replicas) && !m.replicas[rank].rests() {
		none.tripped, none.after = true, m.replicas[rank].breaker.until.Sub(now)
	}
	return none
}

// restsFor returns the time until a replica that takes no requests may take some again.
func (m *model) restsFor(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.backIn(now)
}

// queueTime returns how long those who wait at the door will take to be let in.
func (m *model) queueTime() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, takes := m.core.Queue()
	return takes
}

// queueFull refuses a request because as many wait at the door as may.
func (m *model) queueFull() *queueFullError {
	m.mu.Lock()
	defer m.mu.Unlock()
	held, takes := m.core.Queue()
	return &queueFullError{m.name, held, takes}
}

// later refuses what may be tried again after a time.
type later struct {
	err   error
	after time.Duration
}

// Error returns the sentence of the cause.
func (e *later) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *later) Unwrap() error { return e.err }

// wholeSeconds returns a time to try again after as a client is told it.
func wholeSeconds(after time.Duration) int { return (&limitError{after: after}).seconds() }
