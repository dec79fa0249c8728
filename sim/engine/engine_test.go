package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// testCost makes steps long enough to count and different from each other.
var testCost = Cost{Base: time.Millisecond, Weights: 0.02, Linear: 0.0002, PrefillAttn: 1e-8, KVRead: 4e-7}

func mustNew(t interface{ Fatal(...any) }, cfg Config) *Engine {
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// sequence makes a request of these tokens.
func sequence(size int, tokens []uint32, prompt int) Request {
	h := NewHasher(size, 0)
	h.Append(tokens...)
	return Request{Prompt: prompt, Output: len(tokens) - prompt, Hashes: h.Hashes()}
}

// drain runs an engine until it is idle and returns all events.
func drain(t interface{ Fatal(...any) }, e *Engine) []Event {
	var events []Event
	for {
		at, busy := e.Next()
		if !busy {
			return events
		}
		e.Advance(at, func(ev Event) { events = append(events, ev) })
		if err := e.check(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOneAtATime compares the cached tokens of requests sent one after the other with
// those of the rules written down plainly.
func TestOneAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{2, 4, 16}).Draw(t, "block size")
		blocks := rapid.IntRange(12, 40).Draw(t, "blocks")
		room := (blocks - 1) * size
		e := mustNew(t, Config{
			BlockSize: size, NumBlocks: blocks, MaxNumSeqs: 8, MaxBatchedTokens: rapid.IntRange(1, 64).Draw(t, "chunk"),
			MaxModelLen: room, Cost: testCost,
		})
		o := newOracle(blocks, size)
		stories := make([][]uint32, rapid.IntRange(1, 5).Draw(t, "conversations"))
		for turn := range rapid.IntRange(1, 60).Draw(t, "turns") {
			who := rapid.IntRange(0, len(stories)-1).Draw(t, "who")
			add := rapid.IntRange(1, 3*size).Draw(t, "new")
			out := rapid.IntRange(1, 2*size).Draw(t, "output")
			if len(stories[who])+add+out > room {
				stories[who] = nil // it begins anew, with what all have in common
			}
			if len(stories[who]) == 0 {
				stories[who] = append([]uint32{}, 1, 2, 3, 4, 5)
			}
			if len(stories[who])+add+out > room {
				continue
			}
			for i := range add {
				stories[who] = append(stories[who], uint32(1000*who+turn+i+10))
			}
			prompt := len(stories[who])
			for i := range out {
				stories[who] = append(stories[who], uint32(7*turn+i+10))
			}
			if _, err := e.Add(0, sequence(size, stories[who], prompt)); err != nil {
				t.Fatal(err)
			}
			events := drain(t, e)
			want := o.serve(stories[who], prompt)
			if got := events[0].Cached; got != want {
				t.Fatalf("turn %d: %d tokens cached, want %d", turn, got, want)
			}
			if len(events) != out || !events[out-1].Done {
				t.Fatalf("turn %d: %d tokens, want %d", turn, len(events), out)
			}
		}
	})
}

// TestHitsAreTheSharedPrefix checks that in a cache with room for all, what is found is
// the longest prefix, in full blocks, that any earlier request has computed.
func TestHitsAreTheSharedPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 4
		e := mustNew(t, Config{BlockSize: size, NumBlocks: 4096, MaxNumSeqs: 4, MaxBatchedTokens: 32, MaxModelLen: 512, Cost: testCost})
		var past [][]uint32
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			tokens := rapid.SliceOfN(rapid.Uint32Range(0, 1), 2, 60).Draw(t, "tokens")
			prompt := rapid.IntRange(1, len(tokens)-1).Draw(t, "prompt")
			want := 0
			for _, p := range past {
				n := 0
				for n < len(p)-1 && n < prompt-1 && p[n] == tokens[n] {
					n++
				}
				want = max(want, n/size*size)
			}
			if _, err := e.Add(0, sequence(size, tokens, prompt)); err != nil {
				t.Fatal(err)
			}
			if got := drain(t, e)[0].Cached; got != want {
				t.Fatalf("%d tokens cached, want %d", got, want)
			}
			past = append(past, tokens)
		}
	})
}

// crowd drives an engine with random arrivals and aborts, and returns all it said.
func crowd(t *rapid.T, e *Engine, cfg Config, load []arrival) []Event {
	var events []Event
	emit := func(ev Event) { events = append(events, ev) }
	now := time.Duration(0)
	for _, a := range load {
		now += a.after
		e.Advance(now, emit)
		id, err := e.Add(now, a.request)
		if err != nil {
			t.Fatal(err)
		}
		if a.abort && !e.Abort(id-ID(min(int(id)-1, 2))) {
			_ = e.Abort(id) // the older one had ended
		}
		if err := e.check(); err != nil {
			t.Fatal(err)
		}
	}
	for {
		at, busy := e.Next()
		if !busy {
			return events
		}
		e.Advance(at, emit)
		if err := e.check(); err != nil {
			t.Fatal(err)
		}
		if now = at; now > 24*time.Hour {
			t.Fatal("the engine does not come to an end")
		}
	}
}

// arrival is one request of a crowd.
type arrival struct {
	after   time.Duration
	request Request
	abort   bool
}

// drawCrowd draws a small cache and more requests than it can hold.
func drawCrowd(t *rapid.T) (Config, []arrival) {
	cfg := Config{
		BlockSize: 4, NumBlocks: rapid.IntRange(20, 40).Draw(t, "blocks"),
		MaxNumSeqs:       rapid.IntRange(1, 6).Draw(t, "sequences"),
		MaxBatchedTokens: rapid.IntRange(1, 40).Draw(t, "chunk"), MaxModelLen: 64, Cost: testCost,
	}
	load := make([]arrival, rapid.IntRange(1, 30).Draw(t, "requests"))
	for i := range load {
		h := NewHasher(cfg.BlockSize, uint64(rapid.IntRange(0, 2).Draw(t, "family")))
		prompt := rapid.IntRange(1, 44).Draw(t, "prompt")
		output := rapid.IntRange(1, 20).Draw(t, "output")
		h.AppendStream(0, prompt)
		h.AppendStream(uint64(i)+1, output)
		load[i] = arrival{
			after:   time.Duration(rapid.IntRange(0, 50).Draw(t, "gap")) * time.Millisecond,
			request: Request{Prompt: prompt, Output: output, Hashes: h.Hashes()},
			abort:   rapid.IntRange(0, 7).Draw(t, "abort") == 0,
		}
	}
	return cfg, load
}

// TestCrowd checks what must hold under any load: the books add up after every call,
// each request that is not aborted gives all its tokens in order however often it is
// preempted, nobody passes the first in the queue, and the same load gives the same
// events.
func TestCrowd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, load := drawCrowd(t)
		e := mustNew(t, cfg)
		events := crowd(t, e, cfg, load)
		checkCrowd(t, e, load, events)
		if diff := cmp.Diff(events, crowd(t, mustNew(t, cfg), cfg, load)); diff != "" {
			t.Fatalf("the same load gave other events:\n%s", diff)
		}
	})
}

func checkCrowd(t *rapid.T, e *Engine, load []arrival, events []Event) {
	tokens := make([]int, len(load)+1)
	done, scheduled, needed := 0, time.Duration(0), 0
	for _, ev := range events {
		tokens[ev.ID]++
		if ev.Output != tokens[ev.ID] {
			t.Fatalf("request %d: token %d came as number %d", ev.ID, ev.Output, tokens[ev.ID])
		}
		r := load[ev.ID-1].request
		if ev.Done != (ev.Output == r.Output) {
			t.Fatalf("request %d: done is %t after %d of %d tokens", ev.ID, ev.Done, ev.Output, r.Output)
		}
		if ev.Done {
			done++
			needed += r.Prompt + r.Output - 1 - ev.Cached
		}
	}
	for id := range tokens {
		for _, ev := range events {
			if int(ev.ID) == id {
				if ev.Timing.Scheduled < scheduled {
					t.Fatalf("request %d ran before one that came earlier", id)
				}
				scheduled = ev.Timing.Scheduled
				break
			}
		}
	}
	st := e.Stats()
	if st.Finished != done || done+st.Aborted != len(load) {
		t.Fatalf("%d done and %d aborted of %d", done, st.Aborted, len(load))
	}
	if st.Running+st.Waiting+st.UsedBlocks != 0 {
		t.Fatalf("an idle engine holds something: %+v", st)
	}
	if st.Computed < needed {
		t.Fatalf("%d tokens computed, but the finished requests needed %d", st.Computed, needed)
	}
}

// TestPreemption makes two sequences outgrow the cache: the later one is thrown out,
// begins again before those behind it in the queue, and computes again what was
// forgotten.
func TestPreemption(t *testing.T) {
	cfg := Config{BlockSize: 4, NumBlocks: 11, MaxNumSeqs: 4, MaxBatchedTokens: 64, MaxModelLen: 40, Cost: testCost}
	e := mustNew(t, cfg)
	for family, size := range [][2]int{{16, 16}, {16, 16}, {32, 4}} {
		h := NewHasher(4, uint64(family))
		h.AppendStream(0, size[0]+size[1])
		if _, err := e.Add(0, Request{Prompt: size[0], Output: size[1], Hashes: h.Hashes()}); err != nil {
			t.Fatal(err)
		}
	}
	events := drain(t, e)
	redone := map[ID]int{}
	var order []ID
	for _, ev := range events {
		redone[ev.ID] = ev.Redone
		if ev.Done {
			order = append(order, ev.ID)
		}
	}
	if diff := cmp.Diff([]ID{1, 2, 3}, order); diff != "" {
		t.Errorf("the requests ended in another order:\n%s", diff)
	}
	if redone[1] != 0 || redone[2] == 0 {
		t.Fatalf("preemptions are %v; want none of the first request and some of the second", redone)
	}
	st := e.Stats()
	if once := 16 + 15 + 16 + 15 + 32 + 3; st.Computed <= once {
		t.Errorf("%d tokens computed; a preempted sequence must cost more than %d", st.Computed, once)
	}
	if st.PrefixQueries != 64 {
		t.Errorf("%d tokens looked up; those of a second beginning do not count", st.PrefixQueries)
	}
}

func TestAbortFreesAtOnce(t *testing.T) {
	e := mustNew(t, Config{BlockSize: 4, NumBlocks: 11, MaxNumSeqs: 4, MaxBatchedTokens: 64, MaxModelLen: 40, Cost: testCost})
	id, err := e.Add(0, Request{Prompt: 39, Output: 1})
	if err != nil {
		t.Fatal(err)
	}
	if used := e.Stats().UsedBlocks; used != 10 {
		t.Fatalf("%d blocks used, want all 10", used)
	}
	if !e.Abort(id) || e.Abort(id) {
		t.Fatal("a request can be aborted once")
	}
	if used := e.Stats().UsedBlocks; used != 0 {
		t.Fatalf("%d blocks used after the abort", used)
	}
	if events := drain(t, e); len(events) != 0 {
		t.Fatalf("an aborted request gave %v", events)
	}
}

func TestRefusals(t *testing.T) {
	good := Config{BlockSize: 4, NumBlocks: 11, MaxNumSeqs: 4, MaxBatchedTokens: 64, MaxModelLen: 40, Cost: testCost}
	for name, change := range map[string]func(*Config){
		"block size": func(c *Config) { c.BlockSize = 0 },
		"null only":  func(c *Config) { c.NumBlocks = 1 },
		"sequences":  func(c *Config) { c.MaxNumSeqs = 0 },
		"budget":     func(c *Config) { c.MaxBatchedTokens = 0 },
		"too long":   func(c *Config) { c.MaxModelLen = 42 },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: New accepted %+v", name, cfg)
		}
	}
	e := mustNew(t, good)
	if _, err := e.Add(0, Request{Prompt: 30, Output: 11}); !errors.Is(err, ErrTooLong) {
		t.Errorf("a request over the limit gave %v, want ErrTooLong", err)
	}
	if _, err := e.Add(0, Request{Prompt: 0, Output: 1}); err == nil {
		t.Error("a request without a prompt was accepted")
	}
}

// TestPresets holds the fitted preset to the measurements it stands for.
func TestPresets(t *testing.T) {
	p, err := FindPreset("a4000/qwen3-4b")
	if err != nil {
		t.Fatal(err)
	}
	c := p.Cost(1, 1)
	for _, f := range []struct {
		what              string
		got, want, within float64
	}{
		{"KV tokens", float64(p.Capacity(0.92, 1, 1)), 46_000, 500},
		{"KV tokens in 8 bits", float64(p.Capacity(0.92, 1, 0.5)), 92_000, 1000},
		{"prefill rate at 7k", c.PrefillRate(7000), 3080, 30},
		{"weights read, ms", c.Weights * 1e3, 22.4, 0.1},
	} {
		if f.got < f.want-f.within || f.got > f.want+f.within {
			t.Errorf("%s is %.1f, want %.0f", f.what, f.got, f.want)
		}
	}
	big, err := FindPreset("5090/27b")
	if err != nil {
		t.Fatal(err)
	}
	if n := big.Capacity(0.92, 1, 1); n < 124_000 || n > 126_000 {
		t.Errorf("the 27B preset holds %d tokens, want 125k", n)
	}
	if _, err := FindPreset("nothing"); err == nil {
		t.Error("an unknown preset was found")
	}
}

// BenchmarkQuarterHour runs 24 conversations on four engines for 15 minutes of their
// time: six turns each, closed loop.
func BenchmarkQuarterHour(b *testing.B) {
	p, err := FindPreset("a4000/qwen3-4b")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		steps := 0
		for range 4 {
			e := mustNew(b, Config{
				BlockSize: 16, NumBlocks: 46_000 / 16, MaxNumSeqs: 32, MaxBatchedTokens: 2048,
				MaxModelLen: 32_768, Cost: p.Cost(1, 1),
			})
			quarterHour(b, e)
			steps += e.Stats().Steps
		}
		b.ReportMetric(float64(steps), "steps/op")
	}
}

func quarterHour(b *testing.B, e *Engine) {
	type talk struct {
		h    *Hasher
		turn int
	}
	shared := NewHasher(16, 0)
	shared.AppendStream(0, 3500)
	byID, seed := map[ID]*talk{}, uint64(1)
	next := func(now time.Duration, c *talk) {
		if c.turn%6 == 0 {
			c.h = shared.Clone()
			c.h.AppendStream(seed, 6900)
			seed++
		}
		c.turn++
		c.h.AppendStream(seed, 400)
		seed++
		prompt := c.h.Len()
		c.h.AppendStream(seed, 256)
		id, err := e.Add(now, Request{Prompt: prompt, Output: 256, Hashes: c.h.Hashes()})
		if err != nil {
			b.Fatal(err)
		}
		byID[id] = c
	}
	for range 6 {
		next(0, &talk{})
	}
	for now := time.Duration(0); now < 15*time.Minute; {
		var done []ID
		now, _ = e.Next()
		e.Advance(now, func(ev Event) {
			if ev.Done {
				done = append(done, ev.ID)
			}
		})
		for _, id := range done {
			c := byID[id]
			delete(byID, id)
			next(now, c)
		}
	}
}
