package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// model is the router of one model: its core, those who wait at its door, and its
// replicas. It is carried over from snapshot to snapshot.
type model struct {
	name    string
	metrics *modelMetrics
	limiter *limiter
	kick    func() // wakes the clock of the proxy: someone has begun to wait

	sessionHeader string                       // of the proxy
	identity      atomic.Pointer[wire.Options] // of the latest snapshot, with the header

	mu       sync.Mutex // guards what follows; never held across I/O
	core     *route.Core
	spec     *Model                 // as the latest snapshot says
	known    map[ReplicaID]*replica // also those that left the snapshot with requests in flight
	replicas []*replica             // by index, as the core knows them
	waiting  map[route.Ticket]*reservation
	recheck  time.Time     // when the next breaker's pause ends; zero when none runs
	served   bool          // a replica has been ready since the model began to run
	away     time.Time     // since when none is; zero while one is
	absence  time.Duration // length of the last time without any; 0 when there was none
	changed  chan struct{} // closed when the replicas change; nil while nobody waits for that
}

// reservation is the place of one request with a model: at its door, or on a replica.
// It is made by [model.reserve] and ends with [model.release], which every request
// calls exactly once.
type reservation struct {
	model *model
	// seated is called each time the request gets a place on a replica, before anybody
	// can cut it there, and sets cut; nil when nothing is to be cut.
	seated func()
	cut    func(reason error) // ends the exchange with the present replica

	// Written under the mutex of the model. The request may read them while it holds a
	// place; while it waits, only after ready was closed.
	ticket   route.Ticket
	replica  *replica // nil at the door
	target   *Replica // as the snapshot said when it was chosen
	decision route.Decision
	terms    []route.Term // what decision.Terms points to
	probe    bool         // it is the one request that tries a tripped replica
	judged   bool         // the breaker has heard how it went on this replica

	ready chan struct{} // closed when a held request may go, or err is set; nil when not held
	err   error         // why it cannot be served any more
}

// reserve decides where a request goes. With Forward a place on a replica is taken;
// with Held, v.ready is closed when one is. With the other verdicts nothing is taken.
func (m *model) reserve(now time.Time, q *route.Request, v *reservation) route.Verdict {
	m.mu.Lock()
	defer m.mu.Unlock()
	v.model = m
	if !m.recheck.IsZero() && !now.Before(m.recheck) {
		m.tellCore(now)
	}
	q.Patient = m.returns()
	ticket, verdict := m.core.Arrive(now, q, &v.decision)
	switch verdict {
	case route.Forward:
		v.ticket = ticket
		m.seat(now, v)
	case route.Held:
		v.ticket = ticket
		m.wait(v)
	}
	m.deliver(now)
	return verdict
}

// seat puts a request on the replica that was decided. The caller holds mu.
func (m *model) seat(now time.Time, v *reservation) {
	v.terms = append(v.terms[:0], v.decision.Terms...)
	v.decision.Terms = v.terms
	v.replica = m.replicas[v.decision.Replica]
	v.target = v.replica.spec
	v.judged = false
	if v.seated != nil {
		v.seated()
	}
	v.replica.enter(v)
	if v.probe = v.replica.breaker.seat(now); v.probe {
		m.tellCore(now) // nobody else until the probe has an answer
	}
}

// deliver lets those go that the core has released. The caller holds mu and has
// called the core before.
func (m *model) deliver(now time.Time) {
	for {
		released := m.core.Released()
		if len(released) == 0 {
			return
		}
		// A probe among them makes another call of the core, which ends the slice.
		freed := make([]*reservation, 0, len(released))
		for i := range released {
			v := m.waiting[released[i].Ticket]
			if v == nil {
				continue
			}
			delete(m.waiting, v.ticket)
			m.metrics.held.Dec()
			v.decision = released[i].Decision
			v.terms = append(v.terms[:0], v.decision.Terms...)
			v.decision.Terms = v.terms
			freed = append(freed, v)
		}
		for _, v := range freed {
			m.seat(now, v)
			close(v.ready)
		}
	}
}

// firstByte says that the replica gave the first byte of an answer.
func (m *model) firstByte(now time.Time, v *reservation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.core.FirstByte(now, v.ticket)
	m.deliver(now)
}

// wait enters a request among those that wait at the door. The caller holds mu.
func (m *model) wait(v *reservation) {
	v.ready = make(chan struct{})
	m.waiting[v.ticket] = v
	m.metrics.held.Inc()
	m.kick()
}

// leave takes a request off its replica. The caller holds mu.
func (m *model) leave(now time.Time, v *reservation) {
	if v.replica == nil {
		return
	}
	v.replica.leave(v)
	if v.replica.lives(v) && v.replica.breaker.abandon(v.probe && !v.judged) {
		m.tellCore(now)
	}
	v.replica, v.probe = nil, false
}

// release ends a reservation, wherever the request is. It returns the replica that the
// request was on, or nil, and why its prompt was not in the cache.
func (m *model) release(now time.Time, v *reservation, o route.Outcome) (*replica, route.Miss) {
	m.mu.Lock()
	defer m.mu.Unlock()
	on := v.replica
	if _, held := m.waiting[v.ticket]; held {
		delete(m.waiting, v.ticket)
		m.metrics.held.Dec()
	}
	m.leave(now, v)
	miss := m.core.Done(now, v.ticket, o)
	m.deliver(now)
	return on, miss
}

// complete makes cached tokens 0 that the usage of a whole answer leaves out, where the
// replica told some before: vLLM 0.19 to 0.23 mean 0 by it. Of a replica that has told none
// on this surface, they stay unknown.
func (m *model) complete(v *reservation, api wire.API, u *wire.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r := v.replica; {
	case r == nil || !r.lives(v) || u.Prompt <= 0:
	case u.Cached >= 0:
		r.details[api] = true
	case r.details[api]:
		u.Cached = 0
	}
}

// judge tells the breaker how a request went on its replica: 0 when it was answered,
// or the weight of what went wrong. Only the first word about each place counts,
// except that a broken connection always does.
func (m *model) judge(now time.Time, v *reservation, strike int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := v.replica
	if r == nil || !r.lives(v) || (v.judged && strike == 0) {
		return
	}
	probe := v.probe && !v.judged
	v.judged = true
	var changed bool
	if strike == 0 {
		changed = r.breaker.answered()
	} else {
		changed = r.breaker.strike(now, strike, probe)
	}
	if changed {
		m.tellCore(now)
		m.deliver(now)
	}
}

// tick lets time pass. It says whether anyone waits at the door.
func (m *model) tick(now time.Time) (waits bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.recheck.IsZero() && !now.Before(m.recheck) {
		m.tellCore(now)
	}
	m.core.Tick(now)
	m.deliver(now)
	return len(m.waiting) > 0
}

// tellCore hands the core the replicas as they are now: what the snapshot says, less
// those that are drained or tripped. The breakers are not asked when they would leave
// no replica at all: a failing replica is better than none, and that is how a lone one
// recovers. The caller holds mu.
func (m *model) tellCore(now time.Time) {
	admitted := 0
	m.recheck = time.Time{}
	for _, r := range m.replicas {
		if !r.rests() && r.breaker.admits(now) {
			admitted++
		}
		state := r.breaker.state(now)
		r.metrics.breaker.Set(float64(state))
		if state == breakerOpen && (m.recheck.IsZero() || r.breaker.until.Before(m.recheck)) {
			m.recheck = r.breaker.until
		}
	}
	told := make([]route.Replica, len(m.replicas))
	for i, r := range m.replicas {
		told[i] = r.spec.Route
		told[i].Draining = told[i].Draining || r.drained
		told[i].Ready = told[i].Ready && (admitted == 0 || r.breaker.admits(now))
	}
	m.core.SetReplicas(now, told)
	m.noteReady(now)
}

// anyReady says whether any replica takes requests.
func (m *model) anyReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.replicas {
		if !r.rests() {
			return true
		}
	}
	return false
}

// hidesAttribution says whether no engine of the model sees attribution blocks.
func (m *model) hidesAttribution() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spec != nil && (m.spec.StripAttribution || m.spec.IgnoresAttribution)
}

// stripsAttribution says whether attribution blocks are taken out of requests.
func (m *model) stripsAttribution() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spec != nil && m.spec.StripAttribution
}

// longestHold returns how long the router may hold a request.
func (m *model) longestHold() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spec == nil || m.spec.Routing.MaxHold <= 0 {
		return route.DefaultSettings().MaxHold
	}
	return m.spec.Routing.MaxHold
}

// seen returns where a request goes and why, as far as that is decided.
func (v *reservation) seen() (*Replica, route.Decision) {
	if v.model == nil {
		return nil, route.Decision{}
	}
	v.model.mu.Lock()
	defer v.model.mu.Unlock()
	return v.target, v.decision
}

// holder returns the index of a replica by its id; false when it is gone, or is another
// incarnation by now.
func (m *model) holder(id ReplicaID, incarnation uint64) (index int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.known[id]
	if r == nil || r.index < 0 || r.spec.Route.Incarnation != incarnation {
		return -1, false
	}
	return r.index, true
}

// visit puts a request on a replica past the router, by index: for what only that
// replica can answer. False means that it takes no requests.
func (m *model) visit(now time.Time, index int, v *reservation) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if index >= len(m.replicas) || m.replicas[index].rests() {
		return false
	}
	v.model = m
	v.decision = route.Decision{Replica: index, Home: -1}
	m.seat(now, v)
	return true
}
