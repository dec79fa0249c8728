package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// cutGrace is how long Drain waits for the requests that it has cut. Their connections
// to the engine are closed by then; what is left is to tell their clients.
const cutGrace = 2 * time.Second

// ErrEngineDied says, as the cause of the context of [Proxy.Drain], that nobody stopped
// the replica: its engine has ended by itself.
var ErrEngineDied = errDeadEngine

// Drain takes a replica out of rotation, waits until none of its requests is in flight
// or ctx ends, and then cuts those that are left: those whose answer had begun get an
// error in the API's own shape, the others go to another replica if there is one. It
// returns how many it cut. Call it before an engine gets SIGTERM: vLLM, told to stop
// while a stream is open, hangs for ever.
//
// With [ErrEngineDied] as the cause of ctx's end the clients are told that instead.
//
// The replica stays out of rotation until [Proxy.Resume], or until a snapshot tells of
// a new incarnation. Its conversations get a new home at their next turn.
func (p *Proxy) Drain(ctx context.Context, id ReplicaID) (cut int, err error) {
	m, r := p.find(id)
	if r == nil {
		return 0, fmt.Errorf("cannot drain %q: %w", id, ErrUnknownReplica)
	}
	m.setDrained(time.Now(), r, true)
	select {
	case <-r.whenIdle():
		r.transport.CloseIdleConnections()
		return 0, nil
	case <-ctx.Done():
	}
	if !m.isDrained(r) {
		return 0, nil // somebody took it back meanwhile
	}
	reason := errDrained
	if errors.Is(context.Cause(ctx), ErrEngineDied) {
		reason = ErrEngineDied
	}
	cut = r.cut(reason)
	grace := time.NewTimer(cutGrace)
	defer grace.Stop()
	select {
	case <-r.whenIdle():
	case <-grace.C:
	}
	r.transport.CloseIdleConnections()
	return cut, nil
}

// Resume puts a drained replica back into rotation.
func (p *Proxy) Resume(id ReplicaID) error {
	m, r := p.find(id)
	if r == nil {
		return fmt.Errorf("cannot resume %q: %w", id, ErrUnknownReplica)
	}
	m.setDrained(time.Now(), r, false)
	return nil
}

// InFlight returns the number of requests that a replica has; 0 when it is not known.
func (p *Proxy) InFlight(id ReplicaID) int {
	if _, r := p.find(id); r != nil {
		return r.inFlight()
	}
	return 0
}

// find returns a replica and its model, also when it left the snapshot with requests
// in flight; nil when there is none.
func (p *Proxy) find(id ReplicaID) (*model, *replica) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.models {
		m.mu.Lock()
		r := m.known[id]
		m.mu.Unlock()
		if r != nil {
			return m, r
		}
	}
	return nil, nil
}

// setDrained takes a replica out of rotation or puts it back.
func (m *model) setDrained(now time.Time, r *replica, drained bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.drained = drained
	m.tellCore(now)
	m.deliver(now)
}

// isDrained says whether a replica is out of rotation by Drain.
func (m *model) isDrained(r *replica) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.drained
}
