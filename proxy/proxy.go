package proxy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// Proxy carries requests to replicas. It is an [http.Handler]; make one with [New]
// and end it with [Proxy.Close]. All methods are safe for concurrent use.
type Proxy struct {
	options  Options
	metrics  *metrics
	owners   *owners
	prefixes *prefixWatch
	crowds   crowds // ids that many conversations share
	bodies   budget // of the bytes that request bodies take

	table    atomic.Pointer[table] // what requests read; replaced whole by Apply
	idPrefix string                // the same for all requests of this proxy
	idNext   atomic.Uint64

	closing   chan struct{} // closed by Close
	closeOnce sync.Once
	wake      chan struct{} // tells the clock that someone has begun to wait
	stopped   sync.WaitGroup

	mu     sync.Mutex        // guards models; taken before the mutex of a model, never inside
	models map[string]*model // also those that left the snapshot with requests in flight
}

// New returns a proxy that serves no model until [Proxy.Apply]. It panics when the
// metrics are already registered.
func New(o Options) *Proxy {
	p := &Proxy{
		options:  o.withDefaults(),
		idPrefix: fmt.Sprintf("%08x", rand.Uint32()),
		closing:  make(chan struct{}),
		wake:     make(chan struct{}, 1),
		models:   make(map[string]*model),
		owners:   newOwners(),
		prefixes: newPrefixWatch(),
	}
	p.bodies.limit = p.options.MaxBufferedBytes
	p.metrics = newMetrics(p.options.Registerer, p.options.Recorder)
	p.table.Store(newTable(&Snapshot{}, nil, nil))
	p.stopped.Go(p.clock)
	p.stopped.Go(func() { p.prefixes.run(p.closing) })
	return p
}

// Close cuts every request that is left, whose client is told, and ends the proxy.
// Requests that come later are refused. Calling it twice is harmless.
func (p *Proxy) Close() {
	p.closeOnce.Do(func() { close(p.closing) })
	p.stopped.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.models {
		m.close()
	}
}

// Apply replaces what the proxy knows of models and replicas; the snapshot must not be
// changed afterwards. Settings take effect at once. What is known about a model or a
// replica of the same name is kept: conversations, counters, requests in flight.
func (p *Proxy) Apply(s *Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	named := make(map[string]*model, len(s.Models))
	for i := range s.Models {
		spec := &s.Models[i]
		m := p.models[spec.Name]
		if m == nil {
			m = p.newModel(spec)
			p.models[spec.Name] = m
		}
		named[spec.Name] = m
		m.apply(now, spec, p.newReplica)
	}
	p.table.Store(newTable(s, named, p.limitersOf(s)))
	for name, m := range p.models {
		if named[name] == nil && m.retire(now) {
			delete(p.models, name)
			p.metrics.forgetModel(name)
			p.prefixes.forget(name)
		}
	}
}

// limitersOf returns the limiters of all tenants of a snapshot: those that were there
// before, with what they have counted, and new ones. A tenant without limits has one too,
// so that a limit that it gets later knows of the requests that are open. The caller holds
// mu.
func (p *Proxy) limitersOf(s *Snapshot) map[string]*limiter {
	before := p.table.Load().limiters
	limiters := make(map[string]*limiter)
	keep := func(tenant string) {
		if limiters[tenant] != nil {
			return
		}
		l := before[tenant]
		if l == nil {
			l = &limiter{whose: "key of " + tenant}
			if tenant == "" { // no key is asked for
				l.whose = "service"
			}
		}
		l.set(s.TenantLimits[tenant])
		limiters[tenant] = l
	}
	for _, tenant := range s.Keys {
		keep(tenant)
	}
	if len(s.Keys) == 0 {
		keep("")
	}
	return limiters
}

// newModel returns the router of a model that was not known before.
func (p *Proxy) newModel(spec *Model) *model {
	return &model{
		name:          spec.Name,
		metrics:       p.metrics.model(spec.Name),
		limiter:       &limiter{whose: "model " + spec.Name},
		kick:          p.kick,
		sessionHeader: p.options.SessionHeader,
		core:          route.New(spec.Routing, p.options.Seed),
		known:         make(map[ReplicaID]*replica),
		waiting:       make(map[route.Ticket]*reservation),
	}
}

// newReplica returns a replica of a model that was not known before.
func (p *Proxy) newReplica(m *model, id ReplicaID, index int) *replica {
	return newReplica(id, newTransport(p.options), p.metrics.replica(m.name, strconv.Itoa(index)))
}

// View returns the state of a model's router; false when the model is not known.
func (p *Proxy) View(model string) (route.View, bool) {
	m := p.table.Load().named[model]
	if m == nil {
		return route.View{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.View(time.Now()), true
}

// Conversations calls f for each conversation of a model, latest active first, until
// f returns false. The model decides nothing meanwhile: f must be quick and must not
// call the proxy. False means that the model is not known.
func (p *Proxy) Conversations(model string, f func(route.ConversationView) bool) bool {
	m := p.table.Load().named[model]
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.core.Conversations(time.Now(), f)
	return true
}

// What Move, Forget, Drain and Resume can fail with.
var (
	ErrUnknownModel        = errors.New("there is no model of this name")
	ErrUnknownConversation = errors.New("the conversation is not known; it may have been idle too long")
	ErrUnknownReplica      = errors.New("there is no such replica")
)

// Move gives a conversation another home, by index. Its next turn goes there.
func (p *Proxy) Move(model string, key route.Key, replica int) error {
	m := p.table.Load().named[model]
	if m == nil {
		return fmt.Errorf("cannot move a conversation of %q: %w", model, ErrUnknownModel)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if replica < 0 || replica >= len(m.replicas) {
		return fmt.Errorf("cannot move a conversation to replica %d of %q, which has %d replicas: %w",
			replica, model, len(m.replicas), ErrUnknownReplica)
	}
	now := time.Now()
	if !m.core.Move(now, key, replica) {
		return fmt.Errorf("cannot move conversation %x of %q: %w", key[:8], model, ErrUnknownConversation)
	}
	m.deliver(now)
	return nil
}

// Compare begins a trial on a model, or ends the one that runs when t is nil.
func (p *Proxy) Compare(model string, t *route.Trial) error {
	m := p.table.Load().named[model]
	if m == nil {
		return fmt.Errorf("cannot compare settings of %q: %w", model, ErrUnknownModel)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.core.SetTrial(now, t)
	m.deliver(now)
	return nil
}

// Forget drops a conversation; its next turn is a first one.
func (p *Proxy) Forget(model string, key route.Key) error {
	m := p.table.Load().named[model]
	if m == nil {
		return fmt.Errorf("cannot forget a conversation of %q: %w", model, ErrUnknownModel)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.core.Forget(key) {
		return fmt.Errorf("cannot forget conversation %x of %q: %w", key[:8], model, ErrUnknownConversation)
	}
	m.deliver(time.Now())
	return nil
}

// isClosed says whether Close was called.
func (p *Proxy) isClosed() bool {
	select {
	case <-p.closing:
		return true
	default:
		return false
	}
}

// nextID returns the id of a new request.
func (p *Proxy) nextID() string {
	const digits = 8
	b := make([]byte, 0, 2*digits)
	b = append(b, p.idPrefix...)
	n := strconv.AppendUint(make([]byte, 0, 2*digits), p.idNext.Add(1), 16)
	for range digits - len(n) {
		b = append(b, '0')
	}
	return string(append(b, n...))
}

// The beats of the clock: while anyone waits at a door, and otherwise.
const (
	quickBeat = 100 * time.Millisecond
	slowBeat  = time.Second
)

// clock lets time pass for the routers until the proxy is closed.
func (p *Proxy) clock() {
	timer := time.NewTimer(slowBeat)
	defer timer.Stop()
	for {
		select {
		case <-p.closing:
			return
		case <-p.wake:
		case <-timer.C:
		}
		beat := slowBeat
		now := time.Now()
		for _, m := range p.table.Load().named {
			if m.tick(now) {
				beat = quickBeat
			}
		}
		timer.Reset(beat)
	}
}

// kick makes the clock look again. It never blocks.
func (p *Proxy) kick() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
