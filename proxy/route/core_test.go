package route

import (
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// box is a core under test with its own clock.
type box struct {
	t    testing.TB
	c    *Core
	now  time.Time
	reps []Replica
}

func newBox(t testing.TB, n int, s Settings) *box {
	b := &box{t: t, c: New(s, 1), now: start}
	for range n {
		b.reps = append(b.reps, Replica{Incarnation: 1, Ready: true, MaxNumSeqs: 32})
	}
	b.apply()
	return b
}

func (b *box) apply() { b.c.SetReplicas(b.now, b.reps) }

func (b *box) wait(d time.Duration) { b.now = b.now.Add(d); b.c.Tick(b.now) }

func keyOf(n int) Key {
	return Key{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), 1}
}

func turnOf(n int) *Request {
	return &Request{Key: keyOf(n), Rank: -1, PromptBytes: 4000, ChainFirst: -1, HashKey: mix(uint64(n) + 1)}
}

// arrive forwards a request and returns its ticket and decision.
func (b *box) arrive(r *Request) (Ticket, Decision) {
	b.t.Helper()
	var d Decision
	t, v := b.c.Arrive(b.now, r, &d)
	if v != Forward {
		b.t.Fatalf("verdict %d, want forward", v)
	}
	return t, d
}

func served() Outcome { return Outcome{Served: true, Prompt: 1000, Cached: 0, Completion: 100} }

func failed() Outcome { return Outcome{Prompt: -1, Cached: -1, Completion: -1} }

// turn runs a whole turn that is served.
func (b *box) turn(r *Request) Decision {
	b.t.Helper()
	t, d := b.arrive(r)
	b.c.FirstByte(b.now, t)
	b.c.Done(b.now, t, served())
	return d
}

func TestPlacedThenSticky(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	first := b.turn(turnOf(1))
	if first.Class != ClassPlaced || first.Home != -1 || first.Turn != 1 {
		t.Fatalf("first turn: %+v", first)
	}
	for n := range 9 {
		b.turn(turnOf(100 + n)) // others come between
		d := b.turn(turnOf(1))
		if d.Class != ClassSticky || d.Replica != first.Replica || d.Turn != uint64(n+2) {
			t.Fatalf("turn %d: %+v", n+2, d)
		}
	}
}
