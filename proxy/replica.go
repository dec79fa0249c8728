package proxy

import (
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/proxy/upstream"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// replica is what the proxy knows of one engine beyond its place in the snapshot. It
// is carried over from snapshot to snapshot.
type replica struct {
	id        ReplicaID
	metrics   *replicaMetrics
	transport *upstream.Client // its own, so that its idle connections can be closed alone

	// Guarded by the mutex of the model.
	spec    *Replica // as the latest snapshot says; never changed, only replaced
	index   int      // its place in the latest snapshot, or -1 when it is in none
	drained bool     // taken out of rotation by Drain
	breaker breaker
	details [wire.NumAPIs]bool // surfaces on which this incarnation told cached tokens

	mu   sync.Mutex // guards what follows; taken inside the mutex of the model, never around it
	open map[*reservation]struct{}
	idle chan struct{} // closed when open became empty; nil while nobody waits for that
}

// newReplica returns a replica that nothing uses yet.
func newReplica(id ReplicaID, transport *upstream.Client, metrics *replicaMetrics) *replica {
	return &replica{
		id:        id,
		index:     -1,
		metrics:   metrics,
		transport: transport,
		open:      make(map[*reservation]struct{}),
	}
}

// adopt takes over what a snapshot says. A new incarnation starts in rotation, with a
// clean record, and never on a connection of the old one.
func (r *replica) adopt(spec *Replica, index int) {
	old := r.spec
	r.spec, r.index = spec, index
	if old == nil {
		return
	}
	if old.Route.Incarnation != spec.Route.Incarnation {
		r.breaker, r.drained = breaker{}, false
		r.details = [wire.NumAPIs]bool{}
	}
	if old.Route.Incarnation != spec.Route.Incarnation || old.URL != spec.URL {
		r.transport.CloseIdleConnections()
	}
}

// lives says whether a request was sent to the present incarnation. What becomes of one
// that the incarnation before got says nothing about it.
func (r *replica) lives(v *reservation) bool {
	return v.target.Route.Incarnation == r.spec.Route.Incarnation
}

// rests says whether nothing new may be sent: the replica is not ready, or is being
// stopped.
func (r *replica) rests() bool {
	return !r.spec.Route.Ready || r.spec.Route.Draining || r.drained
}

// enter adds a request to those in flight.
func (r *replica) enter(v *reservation) {
	r.mu.Lock()
	r.open[v] = struct{}{}
	r.mu.Unlock()
	r.metrics.inFlight.Inc()
}

// leave takes a request out of those in flight.
func (r *replica) leave(v *reservation) {
	r.mu.Lock()
	delete(r.open, v)
	if len(r.open) == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
	r.mu.Unlock()
	r.metrics.inFlight.Dec()
}

// inFlight returns the number of requests in flight.
func (r *replica) inFlight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

// whenIdle returns a channel that is closed when no request is in flight.
func (r *replica) whenIdle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.open) == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	return r.idle
}

// cut ends the upstream exchanges of all requests in flight, for a reason that their
// clients are told. It returns their number.
func (r *replica) cut(reason error) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for v := range r.open {
		v.cut(reason)
	}
	return len(r.open)
}

// idleConnTimeout is how long a connection to an engine is kept unused. vLLM's server
// closes it after 5 s, and a request that meets the closing is lost.
const idleConnTimeout = 3 * time.Second

// idleConnsPerReplica is how many unused connections are kept to one replica: more
// than an engine serves at once.
const idleConnsPerReplica = 1024

// newTransport returns the way to one replica. It waits for response headers without
// limit unless it is told otherwise: an engine sends none before a prefill of minutes is
// over.
func newTransport(o Options) *upstream.Client {
	return upstream.New(upstream.Options{
		DialContext:   o.DialContext,
		HeaderTimeout: o.HeaderTimeout,
		IdleTimeout:   idleConnTimeout,
		MaxIdle:       idleConnsPerReplica,
	})
}
