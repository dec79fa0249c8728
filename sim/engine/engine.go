package engine

import (
	"errors"
	"fmt"
	"time"
)

// ErrTooLong means that a request can never run: its prompt and output exceed the
// model's context or the whole cache.
var ErrTooLong = errors.New("prompt and output are longer than the engine can hold")

// Config of an engine. All numbers are needed.
type Config struct {
	BlockSize            int  // tokens in a block
	NumBlocks            int  // blocks of the cache, the null block included
	MaxNumSeqs           int  // sequences that run at once
	MaxBatchedTokens     int  // tokens computed in one step
	MaxModelLen          int  // tokens of prompt and output together
	DisablePrefixCaching bool // compute every prompt whole
	Cost                 Cost
	// Step, when set, is told how many tokens each step computes, as it begins. It must
	// not call the engine.
	Step func(tokens int)
}

// ID names a request inside its engine. IDs are never used twice.
type ID uint64

// Request is one sequence to compute.
type Request struct {
	Prompt int // tokens of the prompt, at least 1
	Output int // tokens that will be generated, at least 1
	// Hashes are those of the full blocks of prompt and output together (see [Hasher]).
	// The engine reads the slice until the request ends. Missing hashes at its end
	// mean blocks that are never found again.
	Hashes []Hash
}

// Event is one output token of a request.
type Event struct {
	ID     ID
	At     time.Duration // end of the step that gave it
	Output int           // number of output tokens so far, from 1
	Done   bool          // it was the last
	Timing Timing
	Cached int // prompt tokens that the prefix cache served when the request first ran
	Redone int // times that the request was preempted and began again
}

// Timing holds the moments of a request's life, as given by the caller's clock.
type Timing struct {
	Arrived   time.Duration
	Scheduled time.Duration // first time that it ran
	First     time.Duration // first token
}

// seq is a request inside the engine.
type seq struct {
	id        ID
	req       Request
	timing    Timing
	blocks    []int32
	named     int // blocks whose hash has been offered to the cache
	computed  int // tokens whose KV entries are in blocks
	generated int
	now       int // tokens computed by the step in flight
	cached    int // -1 before it first ran
	redone    int
	gone      bool // ended while a step that computes it was in flight
}

// known is the number of tokens of the sequence so far.
func (s *seq) known() int { return s.req.Prompt + s.generated }

// Engine schedules requests over a cache. It is not safe for concurrent use. Times
// handed to it must not run backwards.
type Engine struct {
	cfg      Config
	cache    *cache
	running  []*seq // in order of admission
	waiting  []*seq // first come first; preempted ones at the front
	byID     map[ID]*seq
	next     ID
	batch    []*seq // computed by the step in flight
	stepping bool
	stepEnd  time.Duration
	counters Counters
}

// New returns an idle engine with an empty cache, or an error that names the field
// which cannot be.
func New(cfg Config) (*Engine, error) {
	for _, f := range []struct {
		name       string
		value, min int
	}{
		{"BlockSize", cfg.BlockSize, 1},
		{"NumBlocks", cfg.NumBlocks, 2},
		{"MaxNumSeqs", cfg.MaxNumSeqs, 1},
		{"MaxBatchedTokens", cfg.MaxBatchedTokens, 1},
		{"MaxModelLen", cfg.MaxModelLen, 2},
	} {
		if f.value < f.min {
			return nil, fmt.Errorf("engine: %s is %d; it must be at least %d", f.name, f.value, f.min)
		}
	}
	if room := (cfg.NumBlocks - 1) * cfg.BlockSize; cfg.MaxModelLen > room+1 {
		return nil, fmt.Errorf("engine: MaxModelLen of %d needs a cache of as many tokens, but it holds %d", cfg.MaxModelLen, room)
	}
	return &Engine{
		cfg:   cfg,
		cache: newCache(cfg.NumBlocks, !cfg.DisablePrefixCaching),
		byID:  make(map[ID]*seq),
	}, nil
}

// Config returns what the engine was made with.
func (e *Engine) Config() Config { return e.cfg }

// Add puts a request at the end of the queue. An idle engine begins a step with it at
// once. The error is [ErrTooLong] when the request can never run.
func (e *Engine) Add(now time.Duration, r Request) (ID, error) {
	if r.Prompt < 1 || r.Output < 1 {
		return 0, fmt.Errorf("engine: a request of %d prompt and %d output tokens; both must be at least 1", r.Prompt, r.Output)
	}
	if r.Prompt+r.Output > e.cfg.MaxModelLen {
		return 0, fmt.Errorf("%w: %d prompt and %d output tokens, at most %d together", ErrTooLong, r.Prompt, r.Output, e.cfg.MaxModelLen)
	}
	e.next++
	s := &seq{id: e.next, req: r, cached: -1, timing: Timing{Arrived: now}}
	e.byID[s.id] = s
	e.waiting = append(e.waiting, s)
	if !e.stepping {
		e.begin(now)
	}
	return s.id, nil
}

// Abort ends a request at once and frees its blocks. False means that it is not
// known or has ended.
func (e *Engine) Abort(id ID) bool {
	s, ok := e.byID[id]
	if !ok {
		return false
	}
	e.counters.Aborted++
	e.drop(s)
	e.running = remove(e.running, s)
	e.waiting = remove(e.waiting, s)
	return true
}

// Next returns when the step in flight ends. False means that the engine is idle.
func (e *Engine) Next() (time.Duration, bool) { return e.stepEnd, e.stepping }

// Advance ends every step that is over at now and begins the following ones. It calls
// emit for each token, in order. emit must not call the engine.
func (e *Engine) Advance(now time.Duration, emit func(Event)) {
	for e.stepping && e.stepEnd <= now {
		at := e.stepEnd
		e.end(at, emit)
		e.begin(at)
	}
}

// drop forgets a sequence and frees its blocks.
func (e *Engine) drop(s *seq) {
	s.gone = true
	delete(e.byID, s.id)
	e.cache.release(s.blocks)
	s.blocks = nil
}

// remove takes s out of list, in place.
func remove(list []*seq, s *seq) []*seq {
	for i, o := range list {
		if o == s {
			copy(list[i:], list[i+1:])
			list[len(list)-1] = nil
			return list[:len(list)-1]
		}
	}
	return list
}

// Counters only grow during an engine's life.
type Counters struct {
	PrefixQueries  int // prompt tokens looked up, each request once
	PrefixHits     int // of them, found
	PromptTokens   int // of requests that gave a first token
	CachedTokens   int // of them, served from the cache
	Generated      int // output tokens
	Computed       int // tokens computed, recomputed ones included
	Preemptions    int
	Finished       int
	Aborted        int
	Steps          int
	Busy           time.Duration // total length of steps
	LongestRunning int           // most sequences that ran at once
}

// Stats is the state of an engine between two calls.
type Stats struct {
	Counters
	Running    int
	Waiting    int
	UsedBlocks int // held by running requests
	Blocks     int // that requests can hold: all but the null block
}

// Stats returns the present state.
func (e *Engine) Stats() Stats {
	return Stats{
		Counters: e.counters,
		Running:  len(e.running), Waiting: len(e.waiting),
		UsedBlocks: e.cache.used(), Blocks: e.cache.usable(),
	}
}
