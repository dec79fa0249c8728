package route

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWhoIsNotLetThroughTeachesNothing has a client come back to a full door, and be
// refused or give up: no gap is learned, and its conversation is as old as before.
func TestWhoIsNotLetThroughTeachesNothing(t *testing.T) {
	for name, queue := range map[string]int{"refused": 1, "gives up": 2} {
		t.Run(name, func(t *testing.T) {
			s := workingSet()
			s.MaxQueue = queue
			b := newBox(t, 1, s)
			b.capacity(10_000)
			tk, _ := b.arrive(sharing(1, 4000, 1))
			b.end(tk, 4000)
			left := b.c.at
			b.wait(20 * time.Second)
			busy, _ := b.arrive(sized(2, 9000)) // takes its place
			b.hold(sized(3, 9000))
			b.wait(time.Second)
			var d Decision
			again := sharing(1, 4000, 2)
			waits, v := b.c.Arrive(b.now, again, &d)
			if want := map[string]Verdict{"refused": RefusedFull, "gives up": Held}[name]; v != want {
				t.Fatalf("verdict %d, want %d", v, want)
			}
			b.c.Done(b.now, waits, failed())
			checkInside(t, b.c)
			c := b.c.table.at(b.c.table.find(keyOf(1)))
			if n := b.c.learned.rhythm.count; n != 0 || c.lastActive != left || c.beginning != 1 {
				t.Fatalf("%d gaps, last active at %d, begins with %d; want 0, %d and 1", n, c.lastActive, c.beginning, left)
			}
			b.wait(10 * time.Second)
			came := b.c.at
			b.c.SetSettings(b.now, workingSet())
			waits = b.hold(again)
			b.wait(3 * time.Second)
			b.c.Done(b.now, busy, failed())
			b.wait(20 * time.Second)
			for tk := range b.released() {
				b.end(tk, 9000)
			}
			b.wait(20 * time.Second)
			if _, ok := b.released()[waits]; !ok {
				t.Fatal("not let in")
			}
			if r := &b.c.learned.rhythm; r.count != 1 || r.gaps[0] != came-left {
				t.Errorf("gaps %v, want one of %d: from its last turn until it came", r.gaps[:r.count], came-left)
			}
			checkInside(t, b.c)
		})
	}
}

// TestEndIsCountedOnce has a conversation that was taken for ended come back, give up
// waiting and stay away: that is one end.
func TestEndIsCountedOnce(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	tk, _ := b.arrive(sized(1, 4000))
	b.end(tk, 4000)
	b.wait(2 * time.Minute)
	b.arrive(sized(2, 9000))
	waits := b.hold(sized(1, 4000))
	b.wait(time.Second)
	b.c.Done(b.now, waits, failed())
	b.wait(time.Second)
	checkInside(t, b.c)
	if n := b.c.learned.rhythm.endsSeen(); n != 1 {
		t.Errorf("%d ends, want 1", n)
	}
}

// TestFullQueueLetsInWhatFits fills the queue with one that is too large for what is free:
// who fits beside those inside is let in, not refused.
func TestFullQueueLetsInWhatFits(t *testing.T) {
	s := workingSet()
	s.MaxQueue = 1
	b := newBox(t, 1, s)
	b.capacity(10_000)
	b.arrive(sized(1, 6000))
	b.hold(sized(2, 9000))
	b.arrive(sized(3, 1000))
	var d Decision
	if _, v := b.c.Arrive(b.now, sized(4, 9000), &d); v != RefusedFull {
		t.Errorf("verdict %d, want refused", v)
	}
	checkInside(t, b.c)
}

// TestMovedPlaceIsInOrder moves a conversation that has been idle for long to a replica
// whose places it does not fit beside: it is the first to go.
func TestMovedPlaceIsInOrder(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	old, d := b.arrive(sized(1, 6000))
	b.end(old, 6000)
	b.wait(time.Second)
	newer, e := b.arrive(sized(2, 6000))
	b.end(newer, 6000)
	if d.Replica == e.Replica {
		t.Fatal("both on one replica")
	}
	b.c.Move(b.now, keyOf(1), e.Replica)
	checkInside(t, b.c)
	if v := b.c.table.at(b.c.table.find(keyOf(1))); v.admitted || v.lost != lossRelief {
		t.Errorf("the longest idle one has its place: %t, lost %d", v.admitted, v.lost)
	}
	if v := b.c.table.at(b.c.table.find(keyOf(2))); !v.admitted {
		t.Error("the one that was there has lost its place")
	}
}

// TestOneTurnsGrowthTakesNoPlace has two conversations fill a cache where turns grow by
// 300 tokens. One grows to what the cache holds and 300 more: the other keeps its place.
// With one token more it loses it, if it is idle.
func TestOneTurnsGrowthTakesNoPlace(t *testing.T) {
	grow := func(to int, idle bool) *conv {
		b := doorBox(t, 1, 10_000)
		b.c.learned.growth.add(b.c.at, 300)
		one, _ := b.arrive(sized(1, 5000))
		b.end(one, 5000)
		other, _ := b.arrive(sized(2, 4000))
		if idle {
			b.end(other, 4000)
		}
		b.arrive(sized(1, to))
		checkInside(t, b.c)
		return b.c.table.at(b.c.table.find(keyOf(2)))
	}
	for _, tt := range []struct {
		to   int
		idle bool
		kept bool
	}{
		{6000, true, true}, {6300, true, true}, {6301, true, false}, {6301, false, true},
	} {
		v := grow(tt.to, tt.idle)
		if v.admitted != tt.kept || !tt.kept && v.lost != lossRelief {
			t.Errorf("beside one of %d tokens the other one (idle: %t) has its place: %t, want %t; lost %d",
				tt.to, tt.idle, v.admitted, tt.kept, v.lost)
		}
	}
}

// TestLookingChangesNothing compares a run that is looked at all the time with one that
// is not.
func TestLookingChangesNothing(t *testing.T) {
	play := func(look bool) []Decision {
		b := doorBox(t, 2, 10_000)
		slowClients(b)
		var all []Decision
		var open []Ticket
		for n := range 400 {
			b.now = b.now.Add(time.Duration(n%7) * 170 * time.Millisecond)
			if look {
				b.c.View(b.now)
				b.c.Conversations(b.now, func(ConversationView) bool { return true })
			}
			var d Decision
			if tk, v := b.c.Arrive(b.now, sized(n%11, 1000+n%5*700), &d); v == Forward {
				open = append(open, tk)
				all = append(all, d)
			}
			if n%3 == 0 && len(open) > 2 {
				b.end(open[0], 2000)
				open = open[1:]
			}
			for _, r := range b.c.Released() {
				open = append(open, r.Ticket)
				all = append(all, r.Decision)
			}
		}
		for i := range all {
			all[i].Terms = nil // valid only until the next call
		}
		return all
	}
	plain, looked := play(false), play(true)
	if !slices.EqualFunc(plain, looked, func(a, b Decision) bool {
		return a.Replica == b.Replica && a.Class == b.Class && a.Wait == b.Wait && a.Conversation == b.Conversation
	}) {
		t.Error("looking at the core has changed its decisions")
	}
	var r rhythm
	for n := range rhythmEnough {
		r.gap(0, int64(n+1)*int64(time.Second), false)
	}
	r.keep(0, stakes{cache: 1})
	before := r.returns(int64(10 * time.Second))
	for n := range rhythmEnough {
		r.gap(0, int64(n+1)*int64(time.Millisecond), false)
	}
	r.quantile(0.5)
	if after := r.returns(int64(10 * time.Second)); after != before {
		t.Errorf("the chance of coming back was %v, and is %v once the median was looked at", before, after)
	}
}

// TestHeldReasonNamesTheLoss reads why each of three waits that had a place.
func TestHeldReasonNamesTheLoss(t *testing.T) {
	reason := func(b *box, n int) string {
		for _, h := range b.c.View(b.now).Queue {
			if h.Conversation == keyOf(n) {
				return h.Reason
			}
		}
		return ""
	}
	b := doorBox(t, 2, 10_000)
	first, d := b.arrive(sized(1, 5000))
	b.arrive(sized(2, 9000))
	b.end(first, 5000)
	b.ready(d.Replica, false, false)
	b.hold(sized(1, 5000))
	if got := reason(b, 1); !strings.Contains(got, "lost its place with its replica") {
		t.Errorf("after a death %q", got)
	}
	b = doorBox(t, 1, 10_000)
	idle, _ := b.arrive(sized(1, 4000))
	grows, _ := b.arrive(sized(2, 4000))
	b.end(idle, 4000)
	b.end(grows, 4000)
	b.arrive(sized(2, 9000))
	b.hold(sized(1, 4000))
	if got := reason(b, 1); !strings.Contains(got, "lost its place to others that have grown") {
		t.Errorf("after another has grown %q", got)
	}
}

// TestPricedTiesSpread prices three replicas alike that hold nothing of a conversation:
// the one that was chosen least recently gets the turn, not the first.
func TestPricedTiesSpread(t *testing.T) {
	s := DefaultSettings()
	s.Spill = SpillPriced
	b := newBox(t, 4, s)
	b.c.learned.prefill.add(0, 3000, 1)
	for n := range 4 {
		b.turn(turnOf(n))
	}
	home := b.turn(turnOf(0)).Replica
	latest, least := b.turn(turnOf(1)).Replica, b.turn(turnOf(2)).Replica
	b.turn(turnOf(3))
	b.turn(turnOf(1))
	if home != 0 || latest != 1 || least != 2 {
		t.Fatalf("homes %d, %d and %d", home, latest, least)
	}
	for n := range 3 { // a queue at home
		pin := sized(50+n, 50_000)
		pin.Rank = home
		b.arrive(pin)
	}
	if d := b.turn(turnOf(0)); d.Class != ClassSpilled || d.Replica != least {
		t.Errorf("%s: replica %d, want %d", d.Reason(), d.Replica, least)
	}
}
