package route

import (
	"testing"
	"time"
)

// capacity gives every replica the same capacity in tokens.
func (b *box) capacity(tokens int64) {
	for i := range b.reps {
		b.reps[i].Capacity = tokens
	}
	b.apply()
}

// measured runs a served turn with the engine's counts.
func (b *box) measured(r *Request, prompt, cached, completion int) (Decision, Miss) {
	b.t.Helper()
	t, d := b.arrive(r)
	b.c.FirstByte(b.now, t)
	return d, b.c.Done(b.now, t, Outcome{Served: true, Prompt: prompt, Cached: cached, Completion: completion})
}

func TestResidentIsBoundedByCapacity(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	b.capacity(10_000)
	for n := range 4 {
		b.measured(turnOf(n), 3900, 0, 100)
	}
	v := b.c.View(b.now)
	if v.Replicas[0].Resident != 10_000 {
		t.Fatalf("resident %d, want the capacity of 10,000", v.Replicas[0].Resident)
	}
	want := map[Key]int64{keyOf(0): 0, keyOf(1): 2000, keyOf(2): 4000, keyOf(3): 4000}
	b.c.Conversations(b.now, func(cv ConversationView) bool {
		if cv.Resident != want[cv.Key] {
			t.Errorf("conversation %x has %d resident, want %d", cv.Key, cv.Resident, want[cv.Key])
		}
		return true
	})
	if v.Replicas[0].LiveTokens != 16_000 {
		t.Errorf("live tokens %d, want 16,000", v.Replicas[0].LiveTokens)
	}
}

func TestSharedPromptCountsOnce(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	b.capacity(100_000)
	first := func(n int) *Request {
		r := turnOf(n)
		r.SharedHash = 7
		return r
	}
	b.measured(first(0), 5000, 0, 0)    // nothing cached, nothing learned
	b.measured(first(1), 5000, 3500, 0) // 3,500 are shared
	b.measured(first(0), 5000, 5000, 0) // measured again, now without the shared part
	v := b.c.View(b.now)
	if v.SharedTokens != 3500 {
		t.Errorf("shared %d, want 3,500", v.SharedTokens)
	}
	if want := int64(3500 + 2*1500); v.Replicas[0].Resident != want || v.Replicas[0].LiveTokens != want {
		t.Errorf("resident %d, live %d, want %d", v.Replicas[0].Resident, v.Replicas[0].LiveTokens, want)
	}
}

// TestSharedSizeIsAMedian adds forks that share their parent's whole history.
func TestSharedSizeIsAMedian(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	for n, cached := range []int{0, 3500, 58_000, 3500, 3400, 3600} {
		r := turnOf(n)
		r.SharedHash = 7
		b.measured(r, 60_000, cached, 0)
	}
	if got := b.c.View(b.now).SharedTokens; got != 3500 {
		t.Errorf("shared %d, want the median 3,500", got)
	}
}

// TestSharedPromptsAreBounded has more shared prompts alive than are told apart, and
// then uses the slots of those that nobody refers to any more.
func TestSharedPromptsAreBounded(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	with := func(n int) *Request {
		r := turnOf(n)
		r.SharedHash = uint64(n) + 1
		return r
	}
	for n := range maxShared + 10 {
		b.turn(with(n))
	}
	sp := &b.c.shadow.shared
	if len(sp.slots) != maxShared || len(sp.byHash) != maxShared {
		t.Fatalf("%d slots for %d hashes, want %d", len(sp.slots), len(sp.byHash), maxShared)
	}
	b.wait(5 * time.Hour)
	b.turn(with(5000))
	if _, ok := sp.byHash[5001]; !ok || len(sp.byHash) != maxShared {
		t.Error("a free slot was not used again")
	}
	checkInside(t, b.c)
}

// TestConversationOnManyReplicas sends one conversation to six replicas: the shadow
// remembers the latest few.
func TestConversationOnManyReplicas(t *testing.T) {
	b := newBox(t, 6, DefaultSettings())
	b.capacity(100_000)
	for i := range 6 {
		r := turnOf(1)
		r.Rank = i
		b.turn(r)
	}
	for i, r := range b.c.View(b.now).Replicas {
		if held := r.Resident > 0; held != (i >= 6-nodesPerConv) {
			t.Errorf("replica %d is believed to hold %d tokens", i, r.Resident)
		}
	}
	checkInside(t, b.c)
}

func TestRestartEmptiesTheShadow(t *testing.T) {
	b := newBox(t, 2, DefaultSettings())
	b.capacity(100_000)
	home := b.turn(turnOf(1)).Replica
	b.reps[home].Incarnation++
	b.apply()
	if got := b.c.View(b.now).Replicas[home]; got.Resident != 0 || got.Live != 0 {
		t.Errorf("a new incarnation holds %d tokens and %d live conversations", got.Resident, got.Live)
	}
	checkInside(t, b.c)
}

func TestLatecomerOfAnOldIncarnationLeavesNoCache(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	b.capacity(100_000)
	tk, _ := b.arrive(turnOf(1))
	b.reps[0].Incarnation++
	b.apply()
	b.c.FirstByte(b.now, tk)
	b.c.Done(b.now, tk, served())
	if got := b.c.View(b.now).Replicas[0].Resident; got != 0 {
		t.Errorf("the new incarnation is believed to hold %d tokens", got)
	}
	if d := b.turn(turnOf(1)); d.Class == ClassSticky {
		t.Errorf("the old incarnation's answer kept the pin: %s", d.Reason())
	}
}

func TestMissCauses(t *testing.T) {
	story := func(f func(b *box) Miss) func(t *testing.T) Miss {
		return func(t *testing.T) Miss {
			b := newBox(t, 2, DefaultSettings())
			b.capacity(10_000)
			return f(b)
		}
	}
	later := func(b *box, prompt, cached int) Miss {
		_, m := b.measured(turnOf(1), prompt, cached, 100)
		return m
	}
	tests := []struct {
		name string
		run  func(t *testing.T) Miss
		want Miss
	}{
		{"first turn", story(func(b *box) Miss { return later(b, 1000, 0) }), MissNew},
		{"a hit", story(func(b *box) Miss { later(b, 1000, 0); return later(b, 1200, 1000) }), MissNone},
		{"pushed out", story(func(b *box) Miss {
			later(b, 4000, 0)
			big := turnOf(2)
			b.c.Arrive(b.now, big, &Decision{}) // keeps replica 1 the busier one
			for n := range 4 {
				r := turnOf(10 + n)
				b.measured(r, 9000, 0, 100)
			}
			return later(b, 4200, 0)
		}), MissEvicted},
		{"engine forgot", story(func(b *box) Miss { later(b, 1000, 0); return later(b, 1200, 0) }), MissEvicted},
		{"history rewritten", story(func(b *box) Miss { later(b, 4000, 0); return later(b, 1000, 0) }), MissPrefixChanged},
		{"home restarted", story(func(b *box) Miss {
			later(b, 1000, 0)
			for i := range b.reps {
				b.reps[i].Incarnation++
			}
			b.apply()
			return later(b, 1200, 0)
		}), MissReplicaRestarted},
		{"home draining", story(func(b *box) Miss {
			d, _ := b.measured(turnOf(1), 1000, 0, 100)
			b.reps[d.Replica].Draining = true
			b.apply()
			return later(b, 1200, 0)
		}), MissRehomed},
		{"spilled", story(func(b *box) Miss {
			d, _ := b.measured(turnOf(1), 1000, 0, 100)
			for range 8 {
				r := turnOf(9)
				r.Rank = d.Replica
				b.arrive(r)
			}
			return later(b, 1200, 0)
		}), MissSpilled},
		{"clock in the system text", story(func(b *box) Miss {
			r := turnOf(1)
			r.SharedHash = 1
			b.measured(r, 1000, 0, 100)
			r.SharedHash = 2
			_, m := b.measured(r, 1200, 16, 100)
			return m
		}), MissPrefixChanged},
		{"other tools, and a hit all the same", story(func(b *box) Miss {
			r := turnOf(1)
			r.SharedHash = 1
			b.measured(r, 1000, 0, 100)
			r.SharedHash = 2
			_, m := b.measured(r, 1200, 960, 100)
			return m
		}), MissNone},
		{"history rewritten in place", story(func(b *box) Miss {
			later(b, 1000, 0)
			tk, _ := b.arrive(turnOf(1))
			return b.c.Done(b.now, tk, Outcome{Served: true, Prompt: 1200, Cached: 100, Completion: 10, Broken: true})
		}), MissPrefixChanged},
		{"rewritten, but spilled", story(func(b *box) Miss {
			d, _ := b.measured(turnOf(1), 1000, 0, 100)
			for range 8 {
				r := turnOf(9)
				r.Rank = d.Replica
				b.arrive(r)
			}
			tk, _ := b.arrive(turnOf(1))
			return b.c.Done(b.now, tk, Outcome{Served: true, Prompt: 1200, Cached: 100, Completion: 10, Broken: true})
		}), MissSpilled},
		{"chain broken", story(func(b *box) Miss {
			r := turnOf(1)
			r.Chain, r.ChainFirst = []uint64{1, 2}, 1
			b.measured(r, 1000, 0, 100)
			r.Chain = []uint64{9, 10, 11, 12}
			_, m := b.measured(r, 1200, 16, 100)
			return m
		}), MissPrefixChanged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.run(t); got != tt.want {
				t.Errorf("miss %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTokensPerByteAreLearned(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	for n := range 50 {
		r := turnOf(n)
		r.PromptBytes = 10_000
		b.measured(r, 4000, 0, 0)
	}
	if got := b.c.learned.tokens(10_000); got < 3950 || got > 4050 {
		t.Errorf("10,000 bytes are estimated at %d tokens, want about 4,000", got)
	}
}
