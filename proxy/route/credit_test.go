package route

import (
	"slices"
	"testing"
	"time"
)

// creditBox is a box of one replica that one conversation fills, whose cache takes
// 10,000 / 3,000 s to fill. Credit is bounded by ten times that, a spell is six times.
func creditBox(t *testing.T) *box {
	b := doorBox(t, 1, 10_000)
	b.arrive(sized(1, 9000))
	return b
}

const creditFill = int64(10_000) * int64(time.Second) / 3000

// waits lets conversation n ask now and be held, with so much waited before.
func (b *box) waits(n int, waited time.Duration, lost loss) int32 {
	b.t.Helper()
	tk := b.hold(sized(n, 9000))
	ti := b.c.tickets.find(tk)
	v := b.c.table.at(b.c.tickets.at(ti).conv)
	v.waited, v.lost = int64(waited), lost
	return ti
}

// TestCreditOrder has four wait: the first one to come has no credit, one has waited for
// less than counts, one for more, and one has lost its place.
func TestCreditOrder(t *testing.T) {
	b := creditBox(t)
	plain := b.waits(2, 0, lossNone)
	came := b.c.at
	b.wait(20 * time.Second)
	some := b.waits(3, 25*time.Second, lossNone)
	much := b.waits(4, 100*time.Second, lossNone)
	lost := b.waits(5, time.Second, lossWaited)
	b.c.derive()
	b.c.order()
	now := came + int64(20*time.Second)
	for _, want := range []struct {
		name string
		ti   int32
		rank int64
	}{
		{"without credit", plain, came},
		{"all of 25 s", some, now - int64(25*time.Second)},
		{"100 s bounded by ten fills", much, now - 10*creditFill},
		{"lost its place: waited and a spell", lost, now - int64(time.Second) - 6*creditFill},
	} {
		if got := b.c.tickets.at(want.ti).rank; got != want.rank {
			t.Errorf("%s: rank %v after the first arrival, want %v", want.name, time.Duration(got-came), time.Duration(want.rank-came))
		}
	}
	if want := []int32{much, some, lost, plain}; !slices.Equal(b.c.door.queue, want) {
		t.Errorf("order %v, want %v", b.c.door.queue, want)
	}
}

// TestNoCreditWherePlacesLastOneTurn is the same where places are not kept: first come,
// first served, but for who has lost its place.
func TestNoCreditWherePlacesLastOneTurn(t *testing.T) {
	b := creditBox(t)
	slowClients(b)
	plain := b.waits(2, 0, lossNone)
	b.wait(10 * time.Second)
	some := b.waits(3, 25*time.Second, lossNone)
	lost := b.waits(4, time.Second, lossReplica)
	b.c.derive()
	b.c.order()
	if b.c.door.keep != 0 {
		t.Fatalf("places are kept for %v", time.Duration(b.c.door.keep))
	}
	if want := []int32{lost, plain, some}; !slices.Equal(b.c.door.queue, want) {
		t.Errorf("order %v, want %v", b.c.door.queue, want)
	}
	if got, want := b.c.tickets.at(some).rank, b.c.tickets.at(some).arrived; got != want {
		t.Errorf("a credit of %v", time.Duration(want-got))
	}
}

// TestWaitIsRemembered adds up what the requests of a conversation have waited, and a loss
// ends with the next place.
func TestWaitIsRemembered(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	first, _ := b.arrive(sized(1, 9000))
	b.waits(2, 3*time.Second, lossWaited)
	b.wait(7 * time.Second)
	b.c.Done(b.now, first, failed())
	if len(b.released()) != 1 {
		t.Fatal("nobody was let in")
	}
	v := b.c.table.at(b.c.table.find(keyOf(2)))
	if v.waited != int64(10*time.Second) || v.lost != lossNone {
		t.Errorf("waited %v, loss %d; want 10 s and none", time.Duration(v.waited), v.lost)
	}
}

// TestCreditLetsInBefore has who waited for longer before go in first, though he came later.
func TestCreditLetsInBefore(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	first, _ := b.arrive(sized(1, 9000))
	b.hold(sized(2, 9000))
	b.wait(time.Second)
	tk := b.hold(sized(3, 9000))
	b.c.table.at(b.c.table.find(keyOf(3))).waited = int64(2 * time.Second)
	b.c.Done(b.now, first, failed())
	if got := b.released(); len(got) != 1 || got[tk].Replica != 0 {
		t.Errorf("released %v, want %v alone: it came 1 s later with a credit of 2 s", got, tk)
	}
}

// TestSpellIsBounded: six times the time to fill a cache, and no longer than four minutes.
func TestSpellIsBounded(t *testing.T) {
	for capacity, want := range map[int64]time.Duration{
		10_000:    6 * time.Duration(creditFill),
		1_000_000: 4 * time.Minute,
	} {
		b := doorBox(t, 1, capacity)
		b.arrive(sized(1, 100))
		if got := b.c.View(b.now).Learned.Spell; got != want {
			t.Errorf("a capacity of %d: %v, want %v", capacity, got, want)
		}
	}
}
