package route

import (
	"testing"
	"time"
)

// queueTime is what one is told who finds so many waiting.
func (b *box) queueTime(held int) time.Duration {
	b.t.Helper()
	n, takes := b.c.Queue()
	if n != held {
		b.t.Fatalf("%d wait, want %d", n, held)
	}
	return takes
}

// The time that those take who wait for a replica follows from how many they are and from
// the pace at which turns end.
func TestQueueTimeForAReplica(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	running, _ := b.arrive(turnOf(1))
	b.ready(0, false, false)
	for n := range 3 {
		b.hold(patient(turnOf(10 + n)))
	}
	if got := b.queueTime(3); got != 30*time.Second {
		t.Errorf("three wait behind one of unknown length for %v, want 30s", got)
	}
	b.c.FirstByte(b.now, running)
	b.wait(4 * time.Second)
	b.c.Done(b.now, running, served())
	if got := b.queueTime(3); got != 12*time.Second {
		t.Errorf("three wait for turns of 4 s, with none in flight, for %v, want 12s", got)
	}
}

// The time that those take who wait for room follows from how often places come free:
// after whole conversations, here of four turns of 5 s, not after turns.
func TestQueueTimeForRoom(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	for n := range int64(rhythmGaps) {
		b.c.learned.rhythm.gap(0, int64(400*time.Millisecond)+n, false)
	}
	running, _ := b.arrive(sized(1, 9000))
	waiting := []Ticket{b.hold(sized(2, 9000)), b.hold(sized(3, 9000))}
	b.wait(5 * time.Second)
	if got := b.queueTime(2); got != 30*time.Second {
		t.Errorf("before the first place was given, two who have waited 5 s wait for %v, want 2 x (10 s guessed + 5 s)", got)
	}
	for n := 1; n <= 8; n++ {
		b.turns(running, n)
		gave := b.now
		for len(b.c.door.queue) == 2 {
			b.wait(100 * time.Millisecond)
			if b.now.Sub(gave) > 10*time.Second {
				t.Fatal("nobody is let in")
			}
		}
		if _, ok := b.released()[waiting[0]]; !ok {
			t.Fatal("not the first was let in")
		}
		running, waiting = waiting[0], []Ticket{waiting[1], b.hold(sized(n+3, 9000))}
	}
	if got, want := b.queueTime(2), 2*22*time.Second; got < want*9/10 || got > want*11/10 {
		t.Errorf("two wait for conversations of about 22 s for %v, want about %v", got, want)
	}
	b.wait(time.Minute)
	if got := b.queueTime(2); got < 50*time.Second {
		t.Errorf("a minute without a place later they are told %v", got)
	}
}

// turns serves the first turn of conversation n and three more, of 5 s each.
func (b *box) turns(t Ticket, n int) {
	for k := range 4 {
		if k > 0 {
			b.wait(400 * time.Millisecond)
			t, _ = b.arrive(sized(n, 9000))
		}
		b.wait(5 * time.Second)
		b.end(t, 9000)
	}
}
