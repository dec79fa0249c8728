package vllmd

import (
	"slices"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
)

// histogram counts values in buckets.
type histogram struct {
	bounds []float64
	counts []uint64 // one more than bounds
	sum    float64
	total  uint64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) { h.observeN(v, 1) }

// observeN counts n equal values.
func (h *histogram) observeN(v float64, n int) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i] += uint64(n)
	h.sum += v * float64(n)
	h.total += uint64(n)
}

// Bounds of vLLM's histograms.
var (
	stepBounds    = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	firstBounds   = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	betweenBounds = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBounds = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	choiceBounds  = []float64{1, 2, 5, 10, 20}
	redoneBounds  = []float64{1, 2, 3, 4, 5, 10, 20}
)

// pending is what the figures need to know of a request in flight.
type pending struct {
	prompt, output, maxTokens, choices int
	ended                              bool
}

// figures are the counts of one engine beside those that the engine keeps itself.
// They are guarded by their core's lock. A request that its client aborts is counted
// nowhere, as in vLLM.
type figures struct {
	created  time.Time
	requests map[engine.ID]pending
	stop     int // requests that ended by themselves
	length   int // requests that ended at their limit

	prompt, generation, maxGeneration, maxTokens, choices *histogram
	first, between, perToken, e2e                         *histogram
	queue, inference, prefill, decode                     *histogram
	redone, computed, iteration                           *histogram
}

// tokenBounds are 1, 2, 5, 10 and so on, up to the longest sequence.
func tokenBounds(longest int) []float64 {
	var b []float64
	for scale := 1; ; scale *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*scale > longest {
				return b
			}
			b = append(b, float64(m*scale))
		}
	}
}

func newFigures(longest int) figures {
	tokens := tokenBounds(longest)
	return figures{
		created:  time.Now(),
		requests: make(map[engine.ID]pending),
		prompt:   newHistogram(tokens), generation: newHistogram(tokens),
		maxGeneration: newHistogram(tokens), maxTokens: newHistogram(tokens),
		choices: newHistogram(choiceBounds), first: newHistogram(firstBounds),
		between: newHistogram(betweenBounds), perToken: newHistogram(betweenBounds),
		e2e: newHistogram(requestBounds), queue: newHistogram(requestBounds),
		inference: newHistogram(requestBounds), prefill: newHistogram(requestBounds),
		decode: newHistogram(requestBounds), redone: newHistogram(redoneBounds),
		computed: newHistogram(tokens), iteration: newHistogram(stepBounds),
	}
}

// forget drops a request, ended or not.
func (f *figures) forget(id engine.ID) { delete(f.requests, id) }

// token counts one token; before is the event of the one before it.
func (f *figures) token(before, ev engine.Event) {
	if ev.Output == 1 {
		f.first.observe((ev.At - ev.Timing.Arrived).Seconds())
	} else {
		f.between.observe((ev.At - before.At).Seconds())
	}
	if !ev.Done {
		return
	}
	p, ok := f.requests[ev.ID]
	if !ok {
		return
	}
	if p.ended {
		f.stop++
	} else {
		f.length++
	}
	t := ev.Timing
	f.prompt.observe(float64(p.prompt))
	f.generation.observe(float64(p.output))
	f.maxGeneration.observe(float64(p.output))
	f.maxTokens.observe(float64(p.maxTokens))
	f.choices.observe(float64(p.choices))
	f.e2e.observe((ev.At - t.Arrived).Seconds())
	f.queue.observe((t.Scheduled - t.Arrived).Seconds())
	f.inference.observe((ev.At - t.Scheduled).Seconds())
	f.prefill.observe((t.First - t.Scheduled).Seconds())
	f.decode.observe((ev.At - t.First).Seconds())
	if p.output > 1 {
		f.perToken.observe((ev.At - t.First).Seconds() / float64(p.output-1))
	}
	f.redone.observe(float64(ev.Redone))
	f.computed.observe(float64(p.prompt - ev.Cached))
}
