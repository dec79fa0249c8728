package route

import (
	"testing"
	"time"
)

// spread runs n one-turn conversations one after the other and counts their homes.
func (b *box) spread(n, from int, make func(int) *Request) []int {
	b.t.Helper()
	homes := map[int]int{}
	for i := range n {
		homes[b.turn(make(from+i)).Replica]++
	}
	out := []int{}
	for i := range b.reps {
		out = append(out, homes[i])
	}
	return out
}

func within(t *testing.T, what string, got []int, low, high int) {
	t.Helper()
	for i, n := range got {
		if n < low || n > high {
			t.Errorf("%s: replica %d got %d of %v, want %d to %d", what, i, n, got, low, high)
		}
	}
}

// TestAbortsLeaveNoLoad aborts requests before the first byte, in a stream and after
// a failed try: every count returns to zero and the next sessions spread.
func TestAbortsLeaveNoLoad(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	for n := range 1000 {
		tk, _ := b.arrive(turnOf(n))
		var d Decision
		switch n % 3 {
		case 0:
			b.c.FirstByte(b.now, tk)
		case 1:
			b.c.Reroute(b.now, tk, &d)
		}
		b.c.Done(b.now, tk, failed())
	}
	v := b.c.View(b.now)
	for i, r := range v.Replicas {
		if r.InFlight != 0 {
			t.Errorf("replica %d has %d in flight", i, r.InFlight)
		}
	}
	homes := make([]int, 4)
	for n := range 8 {
		_, d := b.arrive(turnOf(5000 + n))
		homes[d.Replica]++
	}
	within(t, "sessions after the aborts", homes, 2, 2)
}

// TestTellingReplicasAgainKeepsLoad repeats what a health probe does: the state of
// the replicas is told again while streams run.
func TestTellingReplicasAgainKeepsLoad(t *testing.T) {
	s := DefaultSettings()
	s.SpillThreshold = 100
	b := newBox(t, 2, s)
	for n := range 20 {
		r := turnOf(n)
		r.Rank = 0
		b.arrive(r)
	}
	for range 3 {
		b.apply()
	}
	if _, d := b.arrive(turnOf(99)); d.Replica != 1 {
		t.Errorf("20 streams run on replica 0, but the new session went to %d", d.Replica)
	}
}

// TestKeysThatHashTogetherSpread places sixteen conversations that the hash policy
// would put on one of four replicas.
func TestKeysThatHashTogetherSpread(t *testing.T) {
	s := DefaultSettings()
	s.Policy = PolicyHash
	hash := newBox(t, 4, s)
	var together []int
	for n := 0; len(together) < 16; n++ {
		if hash.turn(turnOf(n)).Replica == 2 {
			together = append(together, n)
		}
	}
	b := newBox(t, 4, DefaultSettings())
	homes := make([]int, 4)
	for _, n := range together {
		_, d := b.arrive(turnOf(n))
		homes[d.Replica]++
	}
	within(t, "homes", homes, 4, 4)
}

// TestTiesSpread runs one-turn sessions on an idle pool, and again after all of them
// have been forgotten.
func TestTiesSpread(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	within(t, "first 200", b.spread(200, 0, turnOf), 40, 60)
	b.wait(5 * time.Hour)
	if n := b.c.View(b.now).Conversations; n != 0 {
		t.Fatalf("%d conversations are left", n)
	}
	within(t, "next 200", b.spread(200, 1000, turnOf), 40, 60)
}

// TestRequestsWithoutIDSpread sends requests without id under every policy: a missing
// key is not a constant.
func TestRequestsWithoutIDSpread(t *testing.T) {
	for _, p := range []Policy{PolicyLeastLoaded, PolicyHash, PolicyRoundRobin, PolicyRandom} {
		s := DefaultSettings()
		s.Policy = p
		b := newBox(t, 4, s)
		got := b.spread(100, 0, func(int) *Request { return &Request{Rank: -1, ChainFirst: -1} })
		low, high := 20, 30
		if p == PolicyRandom {
			low, high = 10, 40
		}
		within(t, "policy", got, low, high)
	}
}

// TestSharedPromptSpreads gives a hundred new conversations the same system prompt,
// with and without an id.
func TestSharedPromptSpreads(t *testing.T) {
	withID := func(n int) *Request {
		r := turnOf(n)
		r.SharedHash = 7
		return r
	}
	withChain := func(n int) *Request {
		return &Request{Rank: -1, SharedHash: 7, Chain: []uint64{70, mix(uint64(n) + 99)}, ChainFirst: 1}
	}
	for name, make := range map[string]func(int) *Request{"id": withID, "chain": withChain} {
		b := newBox(t, 2, DefaultSettings())
		for i := range b.reps {
			b.reps[i].Capacity = 40_000
		}
		b.apply()
		within(t, name, b.spread(100, 0, make), 40, 60)
	}
}

// TestAFailingReplicaDoesNotAttract lets one replica fail at once every time, which
// makes it look idle: on ties the others are chosen first.
func TestAFailingReplicaDoesNotAttract(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	tries := 0
	for range 100 {
		tk, d := b.arrive(&Request{Rank: -1, ChainFirst: -1})
		if d.Replica == 0 {
			tries++
			if !b.c.Reroute(b.now, tk, &d) {
				t.Fatal("nowhere to go")
			}
		}
		b.c.FirstByte(b.now, tk)
		b.c.Done(b.now, tk, served())
	}
	if tries > 5 {
		t.Errorf("the failing replica was chosen %d times of 100", tries)
	}
	b.wait(time.Minute)
	if got := b.spread(8, 0, turnOf); got[0] != 2 {
		t.Errorf("a minute later the replica got %d of 8, want 2: %v", got[0], got)
	}
}

// TestKeysAreComparedWhole gives two conversations keys that differ in the last bit.
func TestKeysAreComparedWhole(t *testing.T) {
	b := newBox(t, 2, DefaultSettings())
	one, other := turnOf(1), turnOf(1)
	other.Key[15] ^= 1
	x := b.turn(one)
	y := b.turn(other)
	if y.Class != ClassPlaced || x.Replica == y.Replica {
		t.Errorf("the second key is %v on %d, the first is on %d", y.Class, y.Replica, x.Replica)
	}
}

// TestAbortsBeforeTheFirstByteFreeTheQueue aborts 500 requests that wait or have no
// first byte, with a queue of eight, and then serves eight at once.
func TestAbortsBeforeTheFirstByteFreeTheQueue(t *testing.T) {
	s := workingSet()
	s.MaxQueue = 8
	b := newBox(t, 1, s)
	b.capacity(10_000)
	for n := range 500 {
		var d Decision
		var open []Ticket
		for k := range 4 {
			tk, v := b.c.Arrive(b.now, sized(10*n+k, 4000), &d)
			if v != Forward && v != Held {
				t.Fatalf("round %d, request %d: verdict %d", n, k, v)
			}
			open = append(open, tk)
		}
		for _, tk := range open {
			b.c.Done(b.now, tk, failed())
		}
	}
	for n := range 8 {
		if d := b.turn(sized(10_000+n, 1000)); d.Wait != 0 {
			t.Errorf("request %d waited %v", n, d.Wait)
		}
	}
}
