package route

import (
	"math"
	"testing"
	"time"
)

func TestLinger(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name string
		gaps map[time.Duration]int
		want time.Duration
	}{
		{"nothing known", nil, time.Minute},
		{"too few gaps", map[time.Duration]int{s: 19}, time.Minute},
		{"quick clients", map[time.Duration]int{s / 2: 20}, 5 * s},
		{"a few that run tests", map[time.Duration]int{4 * s: 180, 30 * s: 20}, 60 * s},
		{"one in a hundred does not count", map[time.Duration]int{4 * s: 198, 200 * s: 2}, 8 * s},
		{"people who think", map[time.Duration]int{200 * s: 200}, 5 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r rhythm
			for gap, n := range tt.gaps {
				for range n {
					r.gap(0, int64(gap), false)
				}
			}
			if got := time.Duration(r.linger()); got != tt.want {
				t.Errorf("linger %v, want %v", got, tt.want)
			}
		})
	}
}

// TestWorkingSet follows the working set of one replica through what can befall
// conversations of 2,000 tokens and answers of 100.
func TestWorkingSet(t *testing.T) {
	tests := []struct {
		name   string
		set    Settings
		do     func(b *box)
		active int
		tokens int64
		live   int
	}{
		{"a first turn counts by its estimate", DefaultSettings(), func(b *box) { b.arrive(sized(1, 2000)) }, 1, 2000, 1},
		{"an answered one by its usage", DefaultSettings(), func(b *box) { b.serve(1, 2000) }, 1, 2100, 1},
		{"it stays while it may come back", DefaultSettings(), func(b *box) {
			b.serve(1, 2000)
			b.wait(59 * time.Second)
		}, 1, 2100, 1},
		{"an ended one leaves, though it is live", DefaultSettings(), func(b *box) {
			b.serve(1, 2000)
			b.wait(61 * time.Second)
		}, 0, 0, 1},
		{"quick clients are waited for no longer than they need", DefaultSettings(), func(b *box) {
			for range 21 {
				b.serve(1, 2000)
				b.wait(time.Second)
			}
			b.serve(2, 2000)
			b.wait(4900 * time.Millisecond)
		}, 1, 2100, 2},
		{"a longer turn counts before its usage is known", DefaultSettings(), func(b *box) {
			b.serve(1, 2000)
			b.arrive(sized(1, 3000))
		}, 1, 3100, 1},
		{"a held request is not inside", workingSet(), func(b *box) {
			b.arrive(sized(1, 9000))
			b.hold(sized(2, 9000))
		}, 1, 9000, 1},
		{"who loses the place leaves", workingSet(), func(b *box) {
			b.serve(1, 9000)
			b.hold(sized(2, 9000))
			b.wait(20 * time.Second) // longer than a cache is worth
			b.c.Released()
		}, 1, 9100, 2},
		{"a side call belongs to nobody", DefaultSettings(), func(b *box) {
			r := sized(1, 2000)
			r.Kind = KindSide
			b.arrive(r)
		}, 0, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t, 1, tt.set)
			b.capacity(10_000)
			tt.do(b)
			v := b.c.View(b.now)
			r := v.Replicas[0]
			if r.Active != tt.active || v.Active != tt.active || r.ActiveTokens != tt.tokens || r.Live != tt.live {
				t.Errorf("%d active (%d of the model) with %d tokens, %d live; want %d with %d, %d live",
					r.Active, v.Active, r.ActiveTokens, r.Live, tt.active, tt.tokens, tt.live)
			}
			var n int
			var own int64
			b.c.Conversations(b.now, func(cv ConversationView) bool {
				if cv.Active {
					n, own = n+1, own+cv.Working
				}
				return true
			})
			if n != tt.active || own != tt.tokens {
				t.Errorf("the list has %d active with %d tokens, want %d with %d", n, own, tt.active, tt.tokens)
			}
		})
	}
}

// TestWorkingSetCountsTheSharedPromptOnce shares 1,500 tokens between conversations.
func TestWorkingSetCountsTheSharedPromptOnce(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	for n := range 3 {
		r := sized(n, 2000)
		r.SharedHash = 7
		tk, _ := b.arrive(r)
		b.c.FirstByte(b.now, tk)
		b.c.Done(b.now, tk, Outcome{Served: true, Prompt: 2000, Cached: min(n, 1) * 1500, Completion: 0})
	}
	v := b.c.View(b.now)
	if got := v.Replicas[0].ActiveTokens; got != 1500+3*500 {
		t.Errorf("the working set takes %d tokens, want 3,000", got)
	}
	if s := v.Learned.Shared; len(s) != 1 || s[0].Tokens != 1500 || s[0].Samples != 2 {
		t.Errorf("shared prompts %+v, want one of 1,500 tokens from 2 samples", s)
	}
}

// TestLearnedHasAgeAndSamples serves two turns and asks what they have taught.
func TestLearnedHasAgeAndSamples(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	if l := b.c.View(b.now).Learned; l.TokensPerByte.Value != guessRatio || l.TokensPerByte.Samples != 0 || !l.Output.At.IsZero() {
		t.Errorf("before the first answer: %+v", l)
	}
	b.serve(1, 2000)
	b.wait(3 * time.Second)
	b.serve(1, 2400)
	at := b.now
	b.wait(30 * time.Second)
	l := b.c.View(b.now).Learned
	for name, m := range map[string]Measure{"output": l.Output, "growth": l.Growth, "gap": l.Gap, "service": l.Service} {
		want := map[string]Measure{
			"output": {100, 2, at}, "growth": {400, 1, at}, "gap": {3, 1, at}, "service": {0, 2, at},
		}[name]
		if m != want {
			t.Errorf("%s is %+v, want %+v", name, m, want)
		}
	}
	if l.Linger != time.Minute || l.GapP95 != 3*time.Second || l.Ends != 0 {
		t.Errorf("linger %v, gap %v, %d ends", l.Linger, l.GapP95, l.Ends)
	}
	b.wait(time.Minute) // a conversation that does not come back
	if n := b.c.View(b.now).Learned.Ends; n != 1 {
		t.Errorf("%d ends, want 1", n)
	}
}

// serve answers a turn of conversation n with a prompt of so many tokens and 100 more.
func (b *box) serve(n, tokens int) {
	tk, _ := b.arrive(sized(n, tokens))
	b.c.FirstByte(b.now, tk)
	b.c.Done(b.now, tk, Outcome{Served: true, Prompt: tokens, Cached: 0, Completion: 100})
}

// TestPaceOfPromptsReadTogether gives first bytes of several prompts at one moment, as
// an engine does that reads them in the same steps: the pace is that of all, and not
// the huge one of those that seem to have taken no time.
func TestPaceOfPromptsReadTogether(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	var open []Ticket
	for n := range 4 {
		tk, _ := b.arrive(sized(n, 6000))
		open = append(open, tk)
	}
	b.wait(8 * time.Second)
	for _, tk := range open {
		b.c.FirstByte(b.now, tk)
		b.now = b.now.Add(time.Microsecond)
	}
	for _, tk := range open {
		b.c.Done(b.now, tk, Outcome{Served: true, Prompt: 6000, Cached: 0, Completion: 10})
	}
	if m := b.c.View(b.now).Learned.PrefillRate; m.Samples != 4 || m.Value < 2999 || m.Value > 3001 {
		t.Errorf("learned %+v, want 3,000 tokens a second from 4 samples", m)
	}
}

// TestPromptsThatTellThePace serves prompts read anew at 5,000 tokens a second, of which
// those that are too short for it must teach nothing: a step takes its time whatever it
// computes. What is too short depends on the steps and the cache of the engine.
func TestPromptsThatTellThePace(t *testing.T) {
	for _, one := range []struct {
		chunk    int
		capacity int64
		tokens   int
		tells    bool
	}{
		{chunk: 8192, capacity: 1_000_000, tokens: 1024},
		{chunk: 8192, capacity: 1_000_000, tokens: 1025, tells: true}, // never as long as a step
		{chunk: 512, capacity: 1_000_000, tokens: 512},
		{chunk: 512, capacity: 1_000_000, tokens: 513, tells: true},
		{chunk: 2048, capacity: 6400, tokens: 640},
		{chunk: 2048, capacity: 6400, tokens: 641, tells: true}, // ten of them fill the cache
		{chunk: 2048, capacity: 0, tokens: 1025, tells: true},   // not told yet
	} {
		b := newBox(t, 1, DefaultSettings())
		b.reps[0].MaxBatchedTokens, b.reps[0].Capacity = one.chunk, one.capacity
		b.apply()
		tk, _ := b.arrive(sized(1, one.tokens))
		b.wait(time.Duration(one.tokens) * time.Second / 5000)
		b.c.FirstByte(b.now, tk)
		b.c.Done(b.now, tk, Outcome{Served: true, Prompt: one.tokens, Cached: 0, Completion: 10})
		m := b.c.View(b.now).Learned.PrefillRate
		if tells := m.Samples == 1 && math.Abs(m.Value-5000) < 1; tells != one.tells || !tells && m.Samples != 0 {
			t.Errorf("%+v: learned %+v", one, m)
		}
	}
}

// TestWhoHasLeftDoesNotWeigh lets 200 clients ask once and leave, restarts one of four
// replicas, and then has eight sessions of three turns come at once: the replica that
// remembers nobody must not be sent them all.
func TestWhoHasLeftDoesNotWeigh(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	b.capacity(1_000_000) // the answers of 200 fill little of the caches
	for n := range 200 {
		b.serve(n, 200)
		b.wait(100 * time.Millisecond)
	}
	for i, r := range b.c.View(b.now).Replicas {
		if r.Live != 50 {
			t.Fatalf("replica %d has %d one-shots, want 50", i, r.Live)
		}
	}
	b.reps[0].Incarnation++ // restarted, and remembers nobody
	b.apply()
	b.wait(2 * time.Second)
	for round := range 2 { // the second knows how quickly the first came back
		var turns [4]int
		for turn := range 3 {
			var open []Ticket
			for s := range 8 {
				tk, d := b.arrive(sized(1000+100*round+s, 200*(turn+1)))
				turns[d.Replica]++
				open = append(open, tk)
			}
			for _, tk := range open {
				b.c.FirstByte(b.now, tk)
				b.c.Done(b.now, tk, Outcome{Served: true, Prompt: 200 * (turn + 1), Completion: 100})
			}
			b.wait(time.Second)
		}
		if want := [4]int{6, 6, 6, 6}; turns != want {
			t.Errorf("round %d: turns by replica %v, want %v", round, turns, want)
		}
		b.wait(6 * time.Second)
	}
	if v := b.c.View(b.now); v.Live != 216 || v.Active != 0 {
		t.Errorf("%d live and %d at work, want 216 and 0", v.Live, v.Active)
	}
}

// TestFirstTurnIsNotIdle looks at a conversation during its first turn, and after it.
func TestFirstTurnIsNotIdle(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	b.wait(9 * time.Minute) // the core is no longer young
	came := b.now
	tk, _ := b.arrive(sized(1, 2000))
	b.wait(24 * time.Second)
	idle := func() (last time.Time) {
		b.c.Conversations(b.now, func(v ConversationView) bool { last = v.LastActive; return true })
		return last
	}
	if got := idle(); !got.Equal(came) {
		t.Errorf("during the first turn: last active at %v, want its arrival %v", got.Sub(start), came.Sub(start))
	}
	b.c.Done(b.now, tk, served())
	if got := idle(); !got.Equal(b.now) {
		t.Errorf("after the first turn: last active at %v, want its end %v", got.Sub(start), b.now.Sub(start))
	}
}
