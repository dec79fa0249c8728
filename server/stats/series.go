package stats

import "time"

// Spans and steps of the rings of a series. The fine one counts tokens alone: a
// distribution per second would take megabytes and say nothing.
const (
	fineStep    = time.Second
	fineSlots   = 3600
	middleStep  = 10 * time.Second
	middleSlots = 360
	coarseStep  = time.Minute
	coarseSlots = 24 * 60
	hour        = time.Hour
)

// tally is what is counted in one bucket of time.
type tally struct {
	cached, computed, completion uint64 // tokens
	requests                     uint32
	latency                      *latencies // nil until the first sample
}

func (t *tally) add(o *tally) {
	t.cached += o.cached
	t.computed += o.computed
	t.completion += o.completion
	t.requests += o.requests
	if o.latency != nil {
		if t.latency == nil {
			t.latency = &latencies{}
		}
		t.latency.add(o.latency)
	}
}

// ring holds the tallies of the latest slots. A slot's number is the time in steps
// since the epoch, so that a slot is recognised as old without a sweep.
type ring struct {
	step  time.Duration
	slots []tally
	at    []int64 // number of the slot that is held
}

func newRing(step time.Duration, slots int) *ring {
	return &ring{step: step, slots: make([]tally, slots), at: make([]int64, slots)}
}

func (r *ring) number(t time.Time) int64 { return t.UnixNano() / int64(r.step) }

// slot returns the tally of a time for writing, or nil when the time is older than
// the ring holds, or lies before the epoch, as with a clock that was never set.
func (r *ring) slot(t time.Time) *tally {
	n := r.number(t)
	if n <= 0 {
		return nil
	}
	i := int(n % int64(len(r.slots)))
	switch {
	case r.at[i] > n:
		return nil
	case r.at[i] < n:
		r.at[i], r.slots[i] = n, tally{}
	}
	return &r.slots[i]
}

// sum returns the tally of the slots from number from up to number to, to excluded.
func (r *ring) sum(from, to int64) tally {
	var total tally
	from = max(from, to-int64(len(r.slots)))
	for n := from; n < to; n++ {
		if i := int(n % int64(len(r.slots))); r.at[i] == n {
			total.add(&r.slots[i])
		}
	}
	return total
}

// series is the history of one model, or of all.
type series struct{ fine, middle, coarse *ring }

func newSeries() *series {
	return &series{newRing(fineStep, fineSlots), newRing(middleStep, middleSlots), newRing(coarseStep, coarseSlots)}
}

func (s *series) add(t time.Time, one *tally) {
	tokens := *one
	tokens.latency = nil
	if slot := s.fine.slot(t); slot != nil {
		slot.add(&tokens)
	}
	for _, r := range []*ring{s.middle, s.coarse} {
		if slot := r.slot(t); slot != nil {
			slot.add(one)
		}
	}
}

// Bucket is the throughput of one step of time.
type Bucket struct {
	Start                        time.Time
	Cached, Computed, Completion float64 // tokens a second
	Requests                     uint32  // finished in the bucket
}

// Throughput is the throughput over a span, in equal buckets without gaps.
type Throughput struct {
	Step    time.Duration
	Buckets []Bucket // oldest first; the last one is still filling
	// CachedHour and PromptHour are the prompt tokens of the last hour.
	CachedHour, PromptHour uint64
}

// throughput divides the span before now into at most maxBuckets buckets.
func (s *series) throughput(now time.Time, span time.Duration, maxBuckets int) Throughput {
	r := s.fine
	if span > hour {
		r = s.coarse
	}
	slots := max(1, int64(span/r.step))
	per := (slots + int64(maxBuckets) - 1) / int64(maxBuckets) // slots a bucket
	count := (slots + per - 1) / per
	// Buckets begin at multiples of their length, so that they do not move between
	// two calls.
	last := r.number(now) / per
	result := Throughput{Step: time.Duration(per) * r.step, Buckets: make([]Bucket, 0, count)}
	for b := last - count + 1; b <= last; b++ {
		t := r.sum(b*per, (b+1)*per)
		start := time.Unix(0, b*per*int64(r.step))
		// The filling bucket is measured over the part of it that has passed.
		seconds := min(result.Step, max(fineStep, now.Sub(start))).Seconds()
		result.Buckets = append(result.Buckets, Bucket{
			Start:      start,
			Cached:     float64(t.cached) / seconds,
			Computed:   float64(t.computed) / seconds,
			Completion: float64(t.completion) / seconds,
			Requests:   t.requests,
		})
	}
	end := s.fine.number(now) + 1
	t := s.fine.sum(end-fineSlots, end)
	result.CachedHour, result.PromptHour = t.cached, t.cached+t.computed
	return result
}

// rate returns the completion tokens a second of the whole seconds before now.
func (s *series) rate(now time.Time, seconds int64) float64 {
	end := s.fine.number(now)
	t := s.fine.sum(end-seconds, end)
	return float64(t.completion) / float64(seconds)
}

// latency returns the latencies of a span before now.
func (s *series) latency(now time.Time, span time.Duration) latencies {
	r := s.middle
	if span > hour {
		r = s.coarse
	}
	end := r.number(now) + 1
	t := r.sum(end-max(1, int64(span/r.step)), end)
	if t.latency == nil {
		return latencies{}
	}
	return *t.latency
}
