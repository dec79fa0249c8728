package route

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

func (b *box) keys() []Key {
	var ks []Key
	b.c.Conversations(b.now, func(v ConversationView) bool { ks = append(ks, v.Key); return true })
	return ks
}

func TestLongestIdleIsEvicted(t *testing.T) {
	s := DefaultSettings()
	s.MaxConversations = 3
	b := newBox(t, 1, s)
	for n := range 3 {
		b.turn(turnOf(n))
		b.wait(10 * time.Minute)
	}
	b.turn(turnOf(0)) // the oldest comes back; 1 is the longest idle now
	b.turn(turnOf(3))
	if got, want := b.keys(), []Key{keyOf(3), keyOf(0), keyOf(2)}; !slices.Equal(got, want) {
		t.Errorf("kept %x, want %x", got, want)
	}
}

func TestLiveConversationsAreNotEvicted(t *testing.T) {
	s := DefaultSettings()
	s.MaxConversations = 2
	b := newBox(t, 2, s)
	b.turn(turnOf(0))
	busy, _ := b.arrive(turnOf(1))
	late := b.turn(turnOf(2)) // served, but not remembered
	if late.Class != ClassPlaced || late.Conversation != (Key{}) {
		t.Errorf("beyond the bound: %+v", late)
	}
	if got, want := b.keys(), []Key{keyOf(1), keyOf(0)}; !slices.Equal(got, want) {
		t.Fatalf("kept %x, want %x", got, want)
	}
	b.wait(6 * time.Minute) // 0 is no longer live; 1 is still in flight
	b.turn(turnOf(2))
	if got, want := b.keys(), []Key{keyOf(1), keyOf(2)}; !slices.Equal(got, want) {
		t.Errorf("kept %x, want %x", got, want)
	}
	b.c.Done(b.now, busy, served())
}

func TestIdleLives(t *testing.T) {
	agent := turnOf(2)
	agent.Kind = KindAgent
	b := newBox(t, 1, DefaultSettings())
	b.turn(turnOf(1))
	b.now = b.now.Add(time.Millisecond)
	b.turn(agent)
	steps := []struct {
		wait time.Duration
		want []Key
	}{
		{9 * time.Minute, []Key{keyOf(2), keyOf(1)}},
		{time.Minute, []Key{keyOf(1)}},
		{230*time.Minute - time.Second, []Key{keyOf(1)}},
		{time.Second, nil},
	}
	for _, st := range steps {
		b.wait(st.wait)
		if got := b.keys(); !slices.Equal(got, st.want) {
			t.Fatalf("after %v: %x, want %x", b.now.Sub(start), got, st.want)
		}
	}
}

func TestZeroSettingsMeanDefaults(t *testing.T) {
	b := newBox(t, 2, Settings{Affinity: true})
	home := b.turn(turnOf(1)).Replica
	b.wait(3 * time.Hour)
	if d := b.turn(turnOf(1)); d.Class != ClassSticky || d.Replica != home {
		t.Errorf("lives of zero switched stickiness off: %s", d.Reason())
	}
}

func TestMemoryPerConversation(t *testing.T) {
	const n = 65_536
	before := inUse()
	b := newBox(t, 4, DefaultSettings())
	for i := range b.reps {
		b.reps[i].Capacity = 1 << 40
	}
	b.apply()
	chain := make([]uint64, 3)
	for i := range n {
		r := &Request{Rank: -1, PromptBytes: 1000, Chain: chain, ChainFirst: 1}
		chain[0], chain[1], chain[2] = 1, mix(uint64(i)+10), mix(uint64(i)+1_000_000)
		tk, _ := b.arrive(r)
		o := served()
		o.ChainNext = mix(uint64(i) + 2_000_000)
		b.c.Done(b.now, tk, o)
	}
	each := float64(inUse()-before) / n
	t.Logf("%.0f bytes a conversation", each)
	if each > 512 {
		t.Errorf("a conversation takes %.0f bytes, want at most 512", each)
	}
	if got := b.c.View(b.now).Conversations; got != n {
		t.Errorf("%d conversations, want %d", got, n)
	}
}

// TestManyIDsLeaveMemoryFlat sends an id of its own with every request, as a client
// does that names its requests instead of its conversations. Once the table is full
// another id takes no memory, however many come: only what is live stays beside it.
func TestManyIDsLeaveMemoryFlat(t *testing.T) {
	const (
		bound  = 65_536 // the default
		early  = 2 * bound
		many   = 1_000_000
		growth = 4 << 20 // bytes in all: Go's map doubles once, for the keys that it removed
	)
	b := newBox(t, 4, DefaultSettings())
	for i := range b.reps {
		b.reps[i].Capacity = 1 << 17
	}
	b.apply()
	live, _ := b.arrive(turnOf(many)) // in flight all the time
	before, then := inUse(), int64(0)
	r := turnOf(0)
	for n := range many {
		r.Key, r.HashKey = keyOf(n), mix(uint64(n)+1)
		b.turn(r)
		b.now = b.now.Add(100 * time.Millisecond)
		if n+1 == early {
			then = inUse()
		}
	}
	end := inUse()
	grown, each := end-then, float64(end-before)/bound
	t.Logf("%d ids more took %d bytes more; a conversation takes %.0f bytes", many-early, grown, each)
	if each > 512 {
		t.Errorf("a conversation takes %.0f bytes, want at most 512", each)
	}
	if grown > growth {
		t.Errorf("%d ids more took %d bytes more, want at most %d", many-early, grown, growth)
	}
	if got := b.c.View(b.now).Conversations; got != bound {
		t.Errorf("%d conversations, want %d: the table is full", got, bound)
	}
	if !b.c.Move(b.now, keyOf(many), 0) {
		t.Error("the conversation in flight was forgotten")
	}
	b.c.Done(b.now, live, served())
	checkInside(t, b.c)
}

// inUse returns the bytes in use after a collection.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMoveAndForget(t *testing.T) {
	b := newBox(t, 2, DefaultSettings())
	home := b.turn(turnOf(1)).Replica
	other := 1 - home
	if b.c.Move(b.now, keyOf(2), 0) || b.c.Move(b.now, keyOf(1), 2) || b.c.Forget(keyOf(2)) {
		t.Fatal("something unknown was moved or forgotten")
	}
	if !b.c.Move(b.now, keyOf(1), other) {
		t.Fatal("not moved")
	}
	if d := b.turn(turnOf(1)); d.Class != ClassSticky || d.Replica != other {
		t.Fatalf("after the move %s", d.Reason())
	}
	tk, _ := b.arrive(turnOf(1))
	if !b.c.Forget(keyOf(1)) {
		t.Fatal("not forgotten")
	}
	if d := b.turn(turnOf(1)); d.Class != ClassPlaced || d.Turn != 1 {
		t.Fatalf("after forgetting: %v, turn %d", d.Class, d.Turn)
	}
	b.c.Done(b.now, tk, served())
	if n := b.c.View(b.now).Conversations; n != 1 {
		t.Errorf("%d conversations, want 1", n)
	}
	checkInside(t, b.c)
}

func TestConversationsStopsWhenAsked(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	for n := range 5 {
		b.turn(turnOf(n))
	}
	seen := 0
	b.c.Conversations(b.now, func(ConversationView) bool { seen++; return seen < 2 })
	if seen != 2 {
		t.Errorf("called %d times, want 2", seen)
	}
}
