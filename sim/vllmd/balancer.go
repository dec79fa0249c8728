package vllmd

import (
	"context"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// load is what a balancer knows of an engine.
type load struct {
	waiting, running int
	usage            float64 // of the cache, 0 to 1
}

// balancer chooses an engine for each request that names none. Each API server has one
// of its own and knows only its own requests and what the engines last reported; none
// looks at prompts.
type balancer struct {
	release release
	clients int // API servers
	start   int // where it begins to look: of equal engines the first is taken
	reports []load
	flying  []int // its own unfinished requests on each engine
}

func newBalancer(rel release, engines, clients, index int) *balancer {
	return &balancer{
		release: rel, clients: clients, start: engines * index / clients,
		reports: make([]load, engines), flying: make([]int, engines),
	}
}

// report replaces what is known of the engines. What the balancer has added by itself
// since the last report is gone then.
func (b *balancer) report(loads []load) { copy(b.reports, loads) }

// choose returns the engine for the next request.
func (b *balancer) choose() int {
	best, least := 0, math.Inf(1)
	for i := range b.reports {
		engine := (b.start + i) % len(b.reports)
		if score := b.score(engine); score < least {
			best, least = engine, score
		}
	}
	b.reports[best].waiting += b.clients
	if b.release.has(tiesRotate) {
		b.start = (b.start + 1) % len(b.reports)
	}
	b.flying[best]++
	return best
}

// score says how loaded an engine seems.
func (b *balancer) score(engine int) float64 {
	r := b.reports[engine]
	if !b.release.has(loadIsReported) {
		return float64(4*r.waiting + r.running)
	}
	// A queue counts for more the fuller the cache is: it then moves slowly.
	pressure := 6 * max(0, r.usage-0.5)
	return float64(max(b.clients*b.flying[engine], r.waiting+r.running)) + float64(r.waiting)*pressure
}

// landed notes the end of one of its requests.
func (b *balancer) landed(engine int) { b.flying[engine]-- }

// How often reports reach the API servers: when something changed, and when nothing did.
const (
	reportInterval = 100 * time.Millisecond
	quietInterval  = 5 * time.Second
)

// fronts are the API servers of a deployment. They are one process here, but each has
// its own connections and its own view of the engines.
type fronts struct {
	mu        sync.Mutex
	balancers []*balancer
	stop      chan struct{}
	wait      sync.WaitGroup
}

func newFronts(s *server) *fronts {
	f := &fronts{stop: make(chan struct{})}
	for i := range s.opt.apiServers {
		f.balancers = append(f.balancers, newBalancer(s.release, len(s.cores), s.opt.apiServers, i))
	}
	if len(s.cores) > 1 {
		f.wait.Go(func() { f.coordinate(s) })
	}
	return f
}

// coordinate hands the engines' reports to the API servers. Ranks of a dense model of
// earlier releases report nothing: what comes is zeros, now and then.
func (f *fronts) coordinate(s *server) {
	tick := time.NewTicker(max(time.Duration(float64(reportInterval)/s.speed), time.Millisecond))
	defer tick.Stop()
	quiet := int(quietInterval / reportInterval)
	steps, since := 0, 0
	for {
		select {
		case <-tick.C:
		case <-f.stop:
			return
		}
		// An engine reports as it computes, also when it is back where it was.
		now, done := make([]load, len(s.cores)), 0
		if s.release.has(loadIsReported) {
			for i, c := range s.cores {
				now[i] = c.load(&done)
			}
		}
		if since++; done == steps && since < quiet {
			continue
		}
		steps, since = done, 0
		f.mu.Lock()
		for _, b := range f.balancers {
			b.report(now)
		}
		f.mu.Unlock()
	}
}

func (f *fronts) close() {
	close(f.stop)
	f.wait.Wait()
}

// load is what the engine reports of itself. Its steps are added to those of others.
func (c *core) load(steps *int) load {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.stats()
	*steps += st.Steps
	return load{st.Waiting, st.Running, float64(st.UsedBlocks) / float64(st.Blocks)}
}

// frontKey marks a connection with the API server that has accepted it.
type frontKey struct{}

// accepted gives a new connection to one of the API servers. They listen on one socket,
// so which of them it is, is chance.
func (s *server) accepted(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, frontKey{}, rand.IntN(s.opt.apiServers))
}

// pick returns the engine of a rank, or for rank -1 the one that the balancer of the
// connection's API server chooses. The function is to be called once, when the request
// has ended.
func (s *server) pick(ctx context.Context, rank int) (*core, func()) {
	if rank >= 0 || len(s.cores) == 1 {
		return s.cores[max(0, rank)], func() {}
	}
	front, _ := ctx.Value(frontKey{}).(int)
	s.fronts.mu.Lock()
	defer s.fronts.mu.Unlock()
	b := s.fronts.balancers[front]
	engine := b.choose()
	return s.cores[engine], func() {
		s.fronts.mu.Lock()
		defer s.fronts.mu.Unlock()
		b.landed(engine)
	}
}
