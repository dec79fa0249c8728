package vllmd

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
)

// errEngineDead is what vLLM says when its engine core has gone.
var errEngineDead = errors.New("EngineCore encountered an issue. See stack trace (above) for the root cause.") //nolint:staticcheck // vLLM's own words, with their full stop

// errDrained says that a request came while the engine drains, and that its release then
// answers it without a token.
var errDrained = errors.New("the engine takes nothing new")

// errShutdown is what later releases say to such a request.
var errShutdown = errors.New("cannot schedule new futures after shutdown")

// core drives one engine in real time, or a multiple of it. One goroutine sleeps until
// the step in flight ends; an idle core sleeps until somebody submits.
type core struct {
	rank  int
	speed float64

	mu      sync.Mutex
	eng     *engine.Engine
	streams map[engine.ID]*stream
	origin  time.Time     // real moment at which the engine's clock read base
	base    time.Duration // engine's clock at origin
	frozen  bool          // the engine's clock stands still
	held    engine.Stats  // what it had counted when it was frozen
	refusal error         // why new requests are refused, or nil
	figures figures
	wake    chan struct{}
	stop    chan struct{}
	once    sync.Once
}

// newCore starts a core; close ends it.
func newCore(rank int, cfg engine.Config, speed float64) (*core, error) {
	f := newFigures(cfg.MaxModelLen)
	// The engine works under the core's lock, which guards the figures too.
	cfg.Step = func(tokens int) { f.iteration.observe(float64(tokens)) }
	eng, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	c := &core{
		rank: rank, speed: speed, eng: eng,
		streams: make(map[engine.ID]*stream),
		origin:  time.Now(),
		figures: f,
		wake:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
	}
	go c.run()
	return c, nil
}

// stream is one request in flight, from submit to close.
type stream struct {
	core   *core
	id     engine.ID
	landed func()        // tells the balancer that it has ended; may be nil
	news   chan struct{} // holds a value when last or err of a stream changed
	mu     sync.Mutex
	last   engine.Event
	err    error
}

// now is the engine's clock. The caller holds c.mu.
func (c *core) now() time.Duration {
	if c.frozen {
		return c.base
	}
	return c.base + time.Duration(float64(time.Since(c.origin))*c.speed)
}

// run ends steps as their time comes.
func (c *core) run() {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		c.mu.Lock()
		c.eng.Advance(c.now(), c.deliver)
		wait := time.Duration(math.MaxInt64)
		if end, busy := c.eng.Next(); busy && !c.frozen {
			wait = time.Duration(float64(end-c.now()) / c.speed)
		}
		c.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-c.wake:
		case <-c.stop:
			return
		}
	}
}

// deliver tells a stream of its token. The caller holds c.mu.
func (c *core) deliver(ev engine.Event) {
	s, ok := c.streams[ev.ID]
	if !ok {
		return
	}
	s.mu.Lock()
	before := s.last
	s.last = ev
	s.mu.Unlock()
	c.figures.token(before, ev)
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// kick makes run look again.
func (c *core) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// submit hands a request to the engine. The caller closes the stream.
func (c *core) submit(r engine.Request, p pending, news chan struct{}) (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal != nil {
		return nil, c.refusal
	}
	_, busy := c.eng.Next()
	if busy {
		// Steps that are over must end before the new request joins the queue.
		c.eng.Advance(c.now(), c.deliver)
	}
	s := &stream{core: c, news: news}
	id, err := c.eng.Add(c.now(), r)
	if err != nil {
		return nil, err
	}
	s.id = id
	c.streams[id] = s
	c.figures.requests[id] = p
	c.kick()
	return s, nil
}

// state returns the latest token, and why there will not be another one.
func (s *stream) state() (engine.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.err
}

// close ends the request; the engine stops computing it at once.
func (s *stream) close() {
	if s.landed != nil {
		s.landed()
	}
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	delete(s.core.streams, s.id)
	s.core.eng.Abort(s.id)
	s.core.figures.forget(s.id)
}

// stats is what the engine has told of itself: one that stands still tells nothing
// new, not even of requests that come and go. The caller holds c.mu.
func (c *core) stats() engine.Stats {
	if c.frozen {
		return c.held
	}
	return c.eng.Stats()
}

// freeze stops the engine's clock or lets it go on.
func (c *core) freeze(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if on == c.frozen {
		return
	}
	c.base = c.now()
	c.origin = time.Now()
	c.frozen, c.held = on, c.eng.Stats()
	c.kick()
}

// refuse makes every new request fail with err.
func (c *core) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal == nil {
		c.refusal = err
	}
}

// fail ends all requests in flight with err, and refuses new ones.
func (c *core) fail(err error) {
	c.refuse(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		s.signal()
	}
}

// busy is the number of requests that the engine has.
func (c *core) busy() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.eng.Stats()
	return st.Running + st.Waiting
}

// close ends the core's goroutine. Requests in flight get no further token and no
// error: they hang, as vLLM's do when their engine is killed.
func (c *core) close() { c.once.Do(func() { close(c.stop) }) }
