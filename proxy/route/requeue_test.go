package route

import (
	"testing"
	"time"
)

// sentBack has a request whose replica 0 failed it wait at the door, because replica 1 is
// full.
func sentBack(t *testing.T) (b *box, waits, other Ticket) {
	b = doorBox(t, 2, 10_000)
	waits, d := b.arrive(sized(1, 9000))
	other, e := b.arrive(sized(2, 9000))
	if d.Replica != 0 || e.Replica != 1 {
		t.Fatalf("on replicas %d and %d, want 0 and 1", d.Replica, e.Replica)
	}
	if !b.c.Requeue(b.now, waits) || len(b.released()) != 0 {
		t.Fatal("a request that was failed does not wait for the other replica")
	}
	return b, waits, other
}

// TestNewLifeTakesWhatTheOldOneFailed revives a replica: a request that its old life
// failed waits for room no longer, whether it was sent back before or after.
func TestNewLifeTakesWhatTheOldOneFailed(t *testing.T) {
	t.Run("sent back before", func(t *testing.T) {
		b, waits, _ := sentBack(t)
		b.wait(time.Second)
		b.ready(0, true, true)
		if d, ok := b.released()[waits]; !ok || d.Replica != 0 {
			t.Errorf("released %v: %s", ok, d.Reason())
		}
		checkInside(t, b.c)
	})
	t.Run("away and back", func(t *testing.T) {
		b, waits, _ := sentBack(t)
		b.ready(0, false, false)
		b.ready(0, true, false)
		if d, ok := b.released()[waits]; !ok || d.Replica != 0 {
			t.Errorf("released %v: %s", ok, d.Reason())
		}
		checkInside(t, b.c)
	})
	for name, move := range map[string]func(b *box, tk Ticket) bool{
		"sent back after": func(b *box, tk Ticket) bool { return b.c.Requeue(b.now, tk) },
		"moved after":     func(b *box, tk Ticket) bool { return b.c.Reroute(b.now, tk, &Decision{}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := doorBox(t, 1, 10_000)
			tk, _ := b.arrive(sized(1, 9000))
			b.ready(0, true, true)
			if !move(b, tk) {
				t.Fatal("the new life does not take what the old one failed")
			}
			if n := b.c.replicas[0].failures; n != 0 {
				t.Errorf("%d failures count against the new life", n)
			}
			checkInside(t, b.c)
		})
	}
}

// TestSentBackClosesNoDoor has a request wait for long that may not use the one replica
// with room: nobody else waits behind it.
func TestSentBackClosesNoDoor(t *testing.T) {
	b, _, _ := sentBack(t)
	b.wait(10 * time.Second) // longer than filling a cache takes
	if _, d := b.arrive(sized(3, 9000)); d.Replica != 0 {
		t.Errorf("replica %d, want the empty one", d.Replica)
	}
	checkInside(t, b.c)
}

// TestFailedBesideAnotherTurn has one of two turns of a conversation fail at home: the
// conversation keeps its place while the other one runs, and the failed one goes elsewhere.
func TestFailedBesideAnotherTurn(t *testing.T) {
	for _, full := range []bool{false, true} {
		b := doorBox(t, 2, 10_000)
		runs, d := b.arrive(sized(1, 4000))
		fails, e := b.arrive(sized(1, 4000))
		if d.Replica != 0 || e.Replica != 0 {
			t.Fatalf("on replicas %d and %d, want 0 and 0", d.Replica, e.Replica)
		}
		b.c.FirstByte(b.now, runs)
		var other Ticket
		if full {
			other, _ = b.arrive(sized(2, 9000))
		}
		if !b.c.Requeue(b.now, fails) {
			t.Fatal("not taken back")
		}
		checkInside(t, b.c)
		if v := b.c.table.at(b.c.table.find(keyOf(1))); !v.admitted {
			t.Error("the conversation lost its place in the middle of a turn")
		}
		got := b.released()
		if full {
			if len(got) != 0 {
				t.Fatalf("released to %+v, which failed it", got)
			}
			b.c.Done(b.now, other, failed())
			got = b.released()
		}
		if d, ok := got[fails]; !ok || d.Replica != 1 {
			t.Errorf("released %v to %d, want 1", ok, d.Replica)
		}
		checkInside(t, b.c)
	}
}

// TestRequeueKeepsTheTimeOfArrival has one that comes back to the door go before another
// that has come since it first did.
func TestRequeueKeepsTheTimeOfArrival(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	first, _ := b.arrive(sized(1, 9000))
	other, _ := b.arrive(sized(2, 9000))
	b.c.FirstByte(b.now, other)
	b.reps[0].Avoid = true // room there is of no use to the newcomer while another may have some
	b.apply()
	b.wait(2 * time.Second)
	b.hold(sized(3, 9000))
	b.wait(time.Second)
	if !b.c.Requeue(b.now, first) {
		t.Fatal("not taken back")
	}
	if q := b.c.View(b.now).Queue; len(q) != 2 || q[0].Conversation != keyOf(1) || b.now.Sub(q[0].Arrived) != 3*time.Second {
		t.Fatalf("the queue is %+v, want the one first that came 3 s ago", q)
	}
	b.wait(time.Second)
	b.c.Done(b.now, other, failed())
	got := b.released()
	if d, ok := got[first]; !ok || len(got) != 1 || d.Wait != 4*time.Second {
		t.Errorf("released %v, want the one that came back, after 4 s", got)
	}
}

// TestHoldLimitIsNotMultiplied counts the limit from the first arrival, however often a
// request came back to the door.
func TestHoldLimitIsNotMultiplied(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	s := workingSet()
	s.MaxHold = 60 * time.Second
	b.c.SetSettings(b.now, s)
	waits, _ := b.arrive(sized(1, 9000))
	b.wait(50 * time.Second)
	other, _ := b.arrive(sized(2, 9000))
	b.c.FirstByte(b.now, other)
	if !b.c.Requeue(b.now, waits) || len(b.released()) != 0 {
		t.Fatal("it does not wait for the other replica")
	}
	b.wait(9 * time.Second)
	if got := b.released(); len(got) != 0 {
		t.Fatalf("released %v after 59 s", got)
	}
	b.wait(time.Second)
	if d, ok := b.released()[waits]; !ok || d.Wait != 60*time.Second {
		t.Errorf("released %v after %v, want it let go after 60 s in all", ok, d.Wait)
	}
}
