package route

import (
	"strings"
	"testing"
	"time"
)

// slowClients teaches a core gaps of half a minute: longer than a cache is worth, so that
// places last one turn.
func slowClients(b *box) {
	for range rhythmGaps {
		b.c.learned.rhythm.gap(b.c.at, int64(30*time.Second), false)
	}
}

// TestPlaceIsTakenOnlyWhenNeeded lets a conversation idle for longer than its place is
// worth: it keeps the place while there is room beside it, and no longer.
func TestPlaceIsTakenOnlyWhenNeeded(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	slowClients(b)
	first, _ := b.arrive(sized(1, 4000))
	b.end(first, 4000)
	b.wait(10 * time.Second)
	b.arrive(sized(2, 4000))
	if v := b.c.View(b.now); v.Replicas[0].Admitted != 2 {
		t.Fatalf("%d places are taken, want those of both: they fit", v.Replicas[0].Admitted)
	}
	b.arrive(sized(3, 4000))
	v := b.c.View(b.now)
	if v.Held != 0 || v.Replicas[0].Admitted != 2 {
		t.Errorf("%d held, %d places taken; want the idle conversation's place given on", v.Held, v.Replicas[0].Admitted)
	}
	checkInside(t, b.c)
}

// TestWaitsForHome has a conversation come back to a home that is full, while another
// replica has room: it waits for as long as reading its context there would cost all, and
// goes home when a turn ends there, or else away.
func TestWaitsForHome(t *testing.T) {
	begin := func(t *testing.T) (b *box, busy, waits Ticket) {
		b = doorBox(t, 2, 10_000)
		b.reps[1].Ready = false
		b.apply()
		slowClients(b)
		first, _ := b.arrive(sized(1, 4000))
		b.end(first, 4000)
		busy, d := b.arrive(sized(2, 4000)) // fits beside it
		if d.Replica != 0 {
			t.Fatalf("replica %d", d.Replica)
		}
		b.wait(time.Second)
		third, _ := b.arrive(sized(3, 4000)) // takes the place of 1, whose context is still in the cache
		b.c.FirstByte(b.now, third)
		b.reps[1].Ready = true
		b.apply()
		waits = b.hold(sized(1, 4000))
		return b, busy, waits
	}
	t.Run("home", func(t *testing.T) {
		b, busy, waits := begin(t)
		v := b.c.View(b.now)
		if r := v.Queue[0].Reason; !strings.Contains(r, "room at its home") || v.Waiting != 0 {
			t.Errorf("reason %q; %d find no room, though there is some elsewhere", r, v.Waiting)
		}
		b.wait(time.Second)
		b.c.Done(b.now, busy, failed())
		d, ok := b.released()[waits]
		if !ok || d.Replica != 0 || d.Class != ClassSticky {
			t.Errorf("released %v: %s", ok, d.Reason())
		}
		checkInside(t, b.c)
	})
	t.Run("gates", func(t *testing.T) { // it wants no place on the other replica
		b, busy, waits := begin(t)
		for n := range 3 {
			if _, d := b.arrive(sized(10+n, 2500)); d.Replica != 1 || d.Wait != 0 {
				t.Errorf("long prefill %d: replica %d after %v", n, d.Replica, d.Wait)
			}
			checkInside(t, b.c)
		}
		b.c.Done(b.now, busy, failed())
		if d, ok := b.released()[waits]; !ok || d.Replica != 0 {
			t.Errorf("released %v: %s", ok, d.Reason())
		}
		checkInside(t, b.c)
	})
	t.Run("away", func(t *testing.T) {
		b, _, waits := begin(t)
		b.wait(30 * time.Second)
		d, ok := b.released()[waits]
		if !ok || d.Replica != 1 || d.Class != ClassRehomed {
			t.Errorf("released %v: %s", ok, d.Reason())
		}
		checkInside(t, b.c)
	})
}

// TestHomeEndsWhileAwaited has the home that a request waits for begin a new life, and
// then scaled away: the request goes where there is room, and nothing breaks.
func TestHomeEndsWhileAwaited(t *testing.T) {
	for name, end := range map[string]func(b *box){
		"a new life":  func(b *box) { b.ready(1, true, true) },
		"scaled away": func(b *box) { b.reps = b.reps[:1]; b.apply() },
	} {
		t.Run(name, func(t *testing.T) {
			b := doorBox(t, 2, 10_000)
			b.ready(0, false, false)
			slowClients(b)
			first, _ := b.arrive(sized(1, 4000))
			b.end(first, 4000)
			b.arrive(sized(2, 4000))
			b.wait(time.Second)
			third, _ := b.arrive(sized(3, 4000)) // takes the place of 1
			b.c.FirstByte(b.now, third)
			b.ready(0, true, false)
			waits := b.hold(sized(1, 4000))
			end(b)
			if d, ok := b.released()[waits]; !ok || d.Class != ClassRehomed || d.Home != 1 {
				t.Errorf("released %v: %s", ok, d.Reason())
			}
			checkInside(t, b.c)
		})
	}
}

// TestTwinIsGone scales the replica away that reads the same prompt as one that waits at
// the door.
func TestTwinIsGone(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	same := func() *Request {
		r := sized(0, 9000)
		r.Key, r.Chain, r.ChainFirst = Key{}, []uint64{7}, 0
		return r
	}
	other, d := b.arrive(sized(1, 9000))
	_, e := b.arrive(same())
	if d.Replica != 0 || e.Replica != 1 {
		t.Fatalf("on replicas %d and %d, want 0 and 1", d.Replica, e.Replica)
	}
	waits := b.hold(same())
	b.reps = b.reps[:1]
	b.apply()
	b.c.Done(b.now, other, failed())
	if d, ok := b.released()[waits]; !ok || d.Replica != 0 {
		t.Errorf("released %v: %s", ok, d.Reason())
	}
	checkInside(t, b.c)
}

// TestAdmissionFlipsUnderLoad switches admission off and on again while requests run and
// wait: everybody is let through once, nothing is lost, and the door works again.
func TestAdmissionFlipsUnderLoad(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	var running []Ticket
	for n := range 4 {
		tk, _ := b.arrive(sized(n, 4000))
		running = append(running, tk)
	}
	waits := map[Ticket]bool{}
	for n := range 4 {
		waits[b.hold(sized(10+n, 4000))] = true
	}
	b.c.SetSettings(b.now, DefaultSettings())
	for tk := range b.released() {
		if !waits[tk] {
			t.Errorf("ticket %d was released, but did not wait", tk)
		}
		delete(waits, tk)
		running = append(running, tk)
	}
	if v := b.c.View(b.now); len(waits) != 0 || v.Held != 0 || v.InFlight != 8 || v.Replicas[0].Admitted+v.Replicas[1].Admitted != 0 {
		t.Fatalf("off: %d lost, %d held, %d in flight, places %+v", len(waits), v.Held, v.InFlight, v.Replicas)
	}
	b.c.SetSettings(b.now, workingSet())
	for n := range 4 { // a second turn of each that runs without a place has one now
		tk, _ := b.arrive(sized(20+n, 4000))
		running = append(running, tk)
	}
	last := b.hold(sized(30, 4000))
	for _, tk := range running {
		b.end(tk, 4000)
	}
	b.wait(time.Minute)
	if _, ok := b.released()[last]; !ok {
		t.Error("who waits after admission was switched on again is not let in when the others have ended")
	}
	b.end(last, 4000)
	if v := b.c.View(b.now); v.Held != 0 || v.InFlight != 0 {
		t.Errorf("all ended, but %d are held and %d in flight", v.Held, v.InFlight)
	}
	b.checkSums()
	checkInside(t, b.c)
}

// TestEndedOnesPushNobodyAway has a newcomer go where nobody is expected back, although
// that replica's places look full, and not to the one that is busy.
func TestEndedOnesPushNobodyAway(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	for n := range int64(rhythmGaps) {
		b.c.learned.rhythm.gap(b.c.at, int64(400*time.Millisecond)+n, false)
	}
	gone, d := b.arrive(sized(1, 9000))
	b.end(gone, 9000)
	_, busy := b.arrive(sized(2, 100))
	if busy.Replica == d.Replica {
		t.Fatalf("both on replica %d", d.Replica)
	}
	b.wait(30 * time.Second) // nobody has ever come back so late
	if _, got := b.arrive(sized(3, 500)); got.Replica != d.Replica {
		t.Errorf("replica %d, which has a turn in flight; want %d", got.Replica, d.Replica)
	}
}
