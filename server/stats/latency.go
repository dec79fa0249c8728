package stats

import (
	"math"
	"slices"
	"time"
)

// Buckets of a histogram: the first holds zero alone, the second ends at shortest,
// each further one at growth times the one before; the last one is open. 160 buckets
// reach from a millisecond to about an hour.
const (
	shortest = time.Millisecond
	growth   = 1.1
	hBuckets = 160
)

var logGrowth = math.Log(growth)

// histogram counts durations. It is sparse at first: most seconds see few requests.
type histogram struct {
	count  uint64
	sum    time.Duration
	counts []uint32 // nil, or hBuckets long
}

func (h *histogram) observe(d time.Duration) {
	h.grow()
	h.count++
	h.sum += d
	h.counts[bucketOf(d)]++
}

func (h *histogram) grow() {
	if h.counts == nil {
		h.counts = make([]uint32, hBuckets)
	}
}

func (h *histogram) add(o *histogram) {
	if o.count == 0 {
		return
	}
	h.grow()
	h.count += o.count
	h.sum += o.sum
	for i, n := range o.counts {
		h.counts[i] += n
	}
}

func bucketOf(d time.Duration) int {
	switch {
	case d <= 0:
		return 0
	case d <= shortest:
		return 1
	}
	return min(hBuckets-1, 1+int(math.Ceil(math.Log(float64(d)/float64(shortest))/logGrowth)))
}

// Quantiles summarise a distribution. They are zero without samples.
type Quantiles struct {
	Count               uint64
	Mean, P50, P95, P99 time.Duration
}

func (h *histogram) quantiles() Quantiles {
	if h.count == 0 {
		return Quantiles{}
	}
	return Quantiles{
		Count: h.count,
		Mean:  h.sum / time.Duration(h.count),
		P50:   h.quantile(0.50),
		P95:   h.quantile(0.95),
		P99:   h.quantile(0.99),
	}
}

// nonzero returns the histogram without its zeros.
func (h *histogram) nonzero() *histogram {
	if h.count == 0 {
		return h
	}
	rest := &histogram{count: h.count - uint64(h.counts[0]), sum: h.sum, counts: slices.Clone(h.counts)}
	rest.counts[0] = 0
	return rest
}

// quantile returns the middle of the bucket that holds the sample of rank q, and zero
// for the bucket of zeros.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(h.count)))
	var seen uint64
	for i, n := range h.counts {
		if seen += uint64(n); seen >= rank {
			if i == 0 {
				return 0
			}
			upper := float64(shortest) * math.Pow(growth, float64(i-1))
			return time.Duration(upper / math.Sqrt(growth))
		}
	}
	return 0
}

// latencies are the distributions of one span.
type latencies struct{ first, later, all, duration, held histogram }

func (l *latencies) add(o *latencies) {
	l.first.add(&o.first)
	l.later.add(&o.later)
	l.all.add(&o.all)
	l.duration.add(&o.duration)
	l.held.add(&o.held)
}

// reset forgets all durations. The room for them stays.
func (l *latencies) reset() {
	for _, h := range []*histogram{&l.first, &l.later, &l.all, &l.duration, &l.held} {
		h.count, h.sum = 0, 0
		clear(h.counts)
	}
}

// Latency is the latency of requests over a span. First and later turns are apart,
// since a first turn is always cold.
type Latency struct {
	FirstTurns, LaterTurns, FirstToken Quantiles // time to first token
	Duration, Held                     Quantiles
	Waited                             Quantiles // those of Held that were held at all
}

func (l *latencies) summary() Latency {
	return Latency{
		FirstTurns: l.first.quantiles(),
		LaterTurns: l.later.quantiles(),
		FirstToken: l.all.quantiles(),
		Duration:   l.duration.quantiles(),
		Held:       l.held.quantiles(),
		Waited:     l.held.nonzero().quantiles(),
	}
}
