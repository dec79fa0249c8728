package stats

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lmwarden/lmwarden/proxy"
)

// buffer is the number of finished requests that may wait for the collector: several
// seconds of the highest rate that a box can reach.
const buffer = 4096

// maxSeries bounds the models that have a series of their own.
const maxSeries = 256

// Collector takes finished requests from the proxy and answers questions about them.
// It is made by [NewCollector] and ended by [Collector.Close].
type Collector struct {
	records chan proxy.Record
	dropped atomic.Uint64
	stop    sync.Once
	closing chan struct{}
	done    chan struct{}

	mu      sync.Mutex // guards what follows
	all     *series
	models  map[string]*series
	history *history
	one     tally // of the request that is counted; here because a new one each time costs more than all else
}

var _ proxy.Recorder = (*Collector)(nil)

// NewCollector returns a collector that runs.
func NewCollector() *Collector {
	c := newCollector()
	go c.run()
	return c
}

// newCollector returns a collector that does not run yet.
func newCollector() *Collector {
	return &Collector{
		records: make(chan proxy.Record, buffer),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		all:     newSeries(),
		models:  make(map[string]*series),
		history: newHistory(),
	}
}

// Record takes a finished request. It never blocks: with a full buffer, and after
// Close, the request is dropped and counted.
func (c *Collector) Record(r proxy.Record) {
	select {
	case <-c.closing:
	default:
		select {
		case c.records <- r:
			return
		default:
		}
	}
	c.dropped.Add(1)
}

// Dropped returns how many requests were dropped; the proxy shows it as a metric.
func (c *Collector) Dropped() uint64 { return c.dropped.Load() }

// Close takes in what waits and ends the collector. It may be called more than once.
func (c *Collector) Close() {
	c.stop.Do(func() { close(c.closing) })
	<-c.done
}

func (c *Collector) run() {
	defer close(c.done)
	for {
		select {
		case r := <-c.records:
			c.add(r)
		case <-c.closing:
			for {
				select {
				case r := <-c.records:
					c.add(r)
				default:
					return
				}
			}
		}
	}
}

func (c *Collector) add(r proxy.Record) {
	end := r.Arrived.Add(r.Duration)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.one.measure(&r)
	c.history.add(r)
	c.all.add(end, &c.one)
	if s := c.series(r.Model); s != nil {
		s.add(end, &c.one)
	}
}

// series returns the series of a model, made when there is none yet. Requests of no
// model count only for all.
func (c *Collector) series(model string) *series {
	s := c.models[model]
	if s == nil && model != "" && len(c.models) < maxSeries {
		s = newSeries()
		c.models[model] = s
	}
	return s
}

// measure makes t that of one request, whatever it was before. A prompt token that the
// engine did not report as cached counts as computed.
func (t *tally) measure(r *proxy.Record) {
	if t.latency == nil {
		t.latency = &latencies{}
	}
	t.latency.reset()
	t.requests = 1
	cached := min(max(r.Cached, 0), max(r.Prompt, 0))
	t.cached = uint64(cached)
	t.computed = uint64(max(r.Prompt, 0) - cached)
	t.completion = uint64(max(r.Completion, 0))
	l := t.latency
	if r.FirstToken > 0 {
		l.all.observe(r.FirstToken)
		if r.Decision.Turn <= 1 {
			l.first.observe(r.FirstToken)
		} else {
			l.later.observe(r.FirstToken)
		}
	}
	l.duration.observe(r.Duration)
	if r.Decided {
		l.held.observe(r.Decision.Wait)
	}
}

// Forget drops the series of a model that was deleted.
func (c *Collector) Forget(model string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.models, model)
}

// Throughput returns the throughput of a model (empty means all) over the span before
// now, at most 24 hours, in at most maxBuckets buckets.
func (c *Collector) Throughput(model string, now time.Time, span time.Duration, maxBuckets int) Throughput {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(model).throughput(now, span, maxBuckets)
}

// Latency returns the latency of a model (empty means all) over the span before now,
// at most 24 hours.
func (c *Collector) Latency(model string, now time.Time, span time.Duration) Latency {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.find(model).latency(now, span)
	return l.summary()
}

// CompletionRate returns a model's completion tokens a second over the last 10
// seconds.
func (c *Collector) CompletionRate(model string, now time.Time) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(model).rate(now, 10)
}

// find returns the series of a model for reading; one that had no request yet has an
// empty one.
func (c *Collector) find(model string) *series {
	if model == "" {
		return c.all
	}
	if s := c.models[model]; s != nil {
		return s
	}
	return emptySeries
}

// emptySeries stands in for models without a request; it is never written.
var emptySeries = newSeries()

// Filter chooses requests of the history.
type Filter struct {
	Model string                   // empty means all
	Keep  func(*proxy.Record) bool // nil keeps all
}

// Requests returns a page of the history, newest first. Before is 0 for the first
// page and the next of the page before it else; next is 0 on the last page.
func (c *Collector) Requests(f Filter, before uint64, size int) (page []proxy.Record, next uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history.page(before, size, func(r *proxy.Record) bool {
		return (f.Model == "" || r.Model == f.Model) && (f.Keep == nil || f.Keep(r))
	})
}

// Request returns one request of the history by its id.
func (c *Collector) Request(id string) (proxy.Record, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history.get(id)
}
