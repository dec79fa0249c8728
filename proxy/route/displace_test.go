package route

import (
	"testing"
	"time"
)

// TestDisplacementCountsSharedPrompts has the head of the queue need more than the own
// parts of those inside: with the last one that has it a shared prompt leaves too.
func TestDisplacementCountsSharedPrompts(t *testing.T) {
	b := doorBox(t, 1, 46_000)
	first, _ := b.arrive(sharing(1, 28_000, 1))
	b.knowShared(1, 20_000)
	waits := b.hold(sharing(2, 28_000, 2))
	b.knowShared(2, 20_000)
	for range 100 { // a spell is 92 s here
		b.wait(time.Second)
	}
	b.end(first, 28_000)
	if d, ok := b.released()[waits]; !ok || d.Replica != 0 {
		t.Errorf("released %v: %s", ok, d.Reason())
	}
	checkInside(t, b.c)
}

// TestDisplacementTakesNoMoreThanItNeeds has one of two shared prompts make room.
func TestDisplacementTakesNoMoreThanItNeeds(t *testing.T) {
	b := doorBox(t, 1, 46_000)
	b.arrive(sharing(1, 21_000, 1))
	b.knowShared(1, 20_000)
	b.wait(time.Second)
	b.arrive(sharing(2, 21_000, 2))
	b.knowShared(2, 20_000)
	b.hold(sharing(3, 21_000, 3))
	b.knowShared(3, 20_000)
	for range 100 {
		b.wait(time.Second)
	}
	if n := len(b.c.door.yielding); n != 1 {
		t.Errorf("%d are to give up their places, want the one that came first", n)
	}
}

// TestDisplacementForOneThatFillsTheReplica has the head of the queue fit only where
// nobody else is, because a place leaves room for growth.
func TestDisplacementForOneThatFillsTheReplica(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	b.c.learned.growth.add(0, 2000)
	first, _ := b.arrive(sized(1, 5000))
	waits := b.hold(sized(2, 9000))
	for range 25 {
		b.wait(time.Second)
	}
	b.end(first, 5000)
	if d, ok := b.released()[waits]; !ok || d.Replica != 0 {
		t.Errorf("released %v: %s", ok, d.Reason())
	}
	checkInside(t, b.c)
}

// TestRecordOfOneThatWaitedLong looks at the terms in the decision of a request that
// took a place, and of one that waited for as long as any may: they are its own.
func TestRecordOfOneThatWaitedLong(t *testing.T) {
	for name, limit := range map[string]time.Duration{"displaced": time.Hour, "limit": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			s := workingSet()
			s.MaxHold = limit
			b := newBox(t, 1, s)
			b.capacity(10_000)
			first, _ := b.arrive(sized(1, 5000))
			b.c.FirstByte(b.now, first)
			waits := b.hold(sized(2, 9000))
			for range 25 {
				b.wait(time.Second)
			}
			b.end(first, 5000)
			d, ok := b.released()[waits]
			if !ok || len(d.Terms) != 1 {
				t.Fatalf("released %v with terms %+v", ok, d.Terms)
			}
			if m := d.Terms[0]; m.Score < 3 { // 9,000 tokens at 3,000 a second
				t.Errorf("score %v s, want that of this request: at least 3", m.Score)
			}
			checkInside(t, b.c)
		})
	}
}

// TestOnlyTheHeadTakesPlaces has the head of the queue wait for the one replica that has not
// failed it, which closes the queue for nobody: the next one takes no place for all that.
func TestOnlyTheHeadTakesPlaces(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	head, d := b.arrive(sized(1, 9000))
	other, _ := b.arrive(sized(2, 9000))
	b.c.FirstByte(b.now, other)
	if !b.c.Requeue(b.now, head) {
		t.Fatal("not taken back")
	}
	third, in := b.arrive(sized(3, 9000)) // where the head has failed
	if in.Replica != d.Replica {
		t.Fatalf("replica %d has room, it went to %d", d.Replica, in.Replica)
	}
	b.c.FirstByte(b.now, third)
	b.hold(sized(4, 9000))
	for range 25 { // a spell is 20 s here
		b.wait(time.Second)
	}
	if n := len(b.c.door.yielding); n != 1 || b.c.table.at(b.c.door.yielding[0]).key != keyOf(2) {
		t.Errorf("%d conversations are to give up their places, want the second alone", n)
	}
}

// TestIdleTimeBeginsWithTheLastEnd has a long turn end without an answer: its conversation
// has been idle since then, and not since its last answer.
func TestIdleTimeBeginsWithTheLastEnd(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	first, _ := b.arrive(sized(1, 4000))
	b.end(first, 4000)
	again, _ := b.arrive(sized(1, 4000))
	b.c.FirstByte(b.now, again)
	b.wait(30 * time.Second) // longer than a place is kept
	b.c.Done(b.now, again, failed())
	waits := b.hold(sized(2, 8000))
	b.wait(5 * time.Second) // and so is this
	if _, ok := b.released()[waits]; !ok {
		t.Error("the place of a conversation that stays away is kept")
	}
}
