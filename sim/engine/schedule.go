package engine

import "time"

// begin schedules a step that starts now. With nothing to compute the engine idles.
func (e *Engine) begin(now time.Duration) {
	e.stepping = false
	e.batch = e.batch[:0]
	budget := e.cfg.MaxBatchedTokens
	var w work
	budget, preempted := e.scheduleRunning(budget, &w)
	if !preempted {
		// Room that was just taken from somebody is not given to somebody else.
		e.scheduleWaiting(now, budget, &w)
	}
	if w.tokens == 0 {
		return
	}
	d := e.cfg.Cost.step(w)
	e.stepping = true
	e.stepEnd = now + d
	e.counters.Steps++
	e.counters.Busy += d
	e.counters.Computed += w.tokens
	if e.cfg.Step != nil {
		e.cfg.Step(w.tokens)
	}
	e.counters.LongestRunning = max(e.counters.LongestRunning, len(e.running))
}

// scheduleRunning gives each running sequence its next tokens, in order of admission.
// When blocks run out the last comer is preempted. It returns what is left of the
// budget and whether anyone was preempted.
func (e *Engine) scheduleRunning(budget int, w *work) (left int, preempted bool) {
	for i := 0; i < len(e.running) && budget > 0; i++ {
		s := e.running[i]
		n := min(s.known()-s.computed, budget)
		for !e.reserve(s, n) {
			victim := e.running[len(e.running)-1]
			e.preempt(victim)
			preempted = true
			if victim == s {
				return budget, true
			}
		}
		e.schedule(s, n, w)
		budget -= n
	}
	return budget, preempted
}

// scheduleWaiting admits sequences in the order of the queue while the whole prompt of
// the first one fits. Nobody passes the first.
func (e *Engine) scheduleWaiting(now time.Duration, budget int, w *work) {
	for len(e.waiting) > 0 && budget > 0 && len(e.running) < e.cfg.MaxNumSeqs {
		s := e.waiting[0]
		// The last token is always computed: its logits give the next one.
		hits, idle := e.cache.find(s.req.Hashes, (s.known()-1)/e.cfg.BlockSize)
		need := blocksFor(s.known(), e.cfg.BlockSize) - hits
		if need > e.cache.free-idle {
			return
		}
		copy(e.waiting, e.waiting[1:])
		e.waiting[len(e.waiting)-1] = nil
		e.waiting = e.waiting[:len(e.waiting)-1]
		e.running = append(e.running, s)

		s.blocks = e.cache.take(s.blocks[:0], s.req.Hashes, hits)
		s.named = hits
		s.computed = hits * e.cfg.BlockSize
		if s.cached < 0 {
			s.cached = s.computed
			s.timing.Scheduled = now
			e.counters.PrefixQueries += s.req.Prompt
			e.counters.PrefixHits += s.cached
		}
		n := min(s.known()-s.computed, budget)
		e.reserve(s, n) // cannot fail: the whole prompt fits
		e.schedule(s, n, w)
		budget -= n
	}
}

// reserve gives s the blocks for n more tokens. False means that too few are free.
func (e *Engine) reserve(s *seq, n int) bool {
	need := blocksFor(s.computed+n, e.cfg.BlockSize) - len(s.blocks)
	if need > e.cache.free {
		return false
	}
	s.blocks = e.cache.grow(s.blocks, need)
	return true
}

// schedule puts n tokens of s into the step. Blocks that they fill can be found from
// now on: a later request of the same step already shares them.
func (e *Engine) schedule(s *seq, n int, w *work) {
	s.now = n
	e.batch = append(e.batch, s)
	for full := (s.computed + n) / e.cfg.BlockSize; s.named < full; s.named++ {
		if s.named < len(s.req.Hashes) {
			e.cache.name(s.blocks[s.named], s.req.Hashes[s.named])
		}
	}
	w.tokens += n
	if n == 1 {
		w.context += float64(s.computed)
		return
	}
	w.pairs += float64(n) * (float64(s.computed) + float64(n)/2)
}

// preempt takes all blocks from the last comer and puts it at the front of the queue.
// What it has computed is computed again, as far as the cache has forgotten it.
func (e *Engine) preempt(s *seq) {
	e.running[len(e.running)-1] = nil
	e.running = e.running[:len(e.running)-1]
	e.cache.release(s.blocks)
	s.blocks = s.blocks[:0]
	s.computed, s.named, s.now = 0, 0, 0
	s.redone++
	e.counters.Preemptions++
	e.waiting = append(e.waiting, nil)
	copy(e.waiting[1:], e.waiting)
	e.waiting[0] = s
}

// end accounts for the step that ends at that time and tells of its tokens.
func (e *Engine) end(at time.Duration, emit func(Event)) {
	for _, s := range e.batch {
		if s.gone {
			continue
		}
		s.computed += s.now
		s.now = 0
		if s.computed < s.known() {
			continue // the prompt is not read to its end yet
		}
		s.generated++
		e.counters.Generated++
		if s.generated == 1 {
			s.timing.First = at
			e.counters.PromptTokens += s.req.Prompt
			e.counters.CachedTokens += s.cached
		}
		done := s.generated == s.req.Output
		if done {
			e.counters.Finished++
			e.drop(s)
			e.running = remove(e.running, s)
		}
		emit(Event{
			ID: s.id, At: at, Output: s.generated, Done: done,
			Timing: s.timing, Cached: s.cached, Redone: s.redone,
		})
	}
}

// blocksFor returns how many blocks hold n tokens.
func blocksFor(n, size int) int { return (n + size - 1) / size }
