package route

import (
	"strings"
	"testing"
	"time"
)

// doorBox is a box with admission: n replicas of so many tokens.
func doorBox(t testing.TB, n int, capacity int64) *box {
	b := newBox(t, n, workingSet())
	b.capacity(capacity)
	return b
}

// sized is the first turn of conversation n with a prompt of so many tokens, as long
// as four bytes make a token.
func sized(n, tokens int) *Request {
	r := turnOf(n)
	r.PromptBytes = 4 * tokens
	return r
}

// hold sends a request that must be held.
func (b *box) hold(r *Request) Ticket {
	b.t.Helper()
	var d Decision
	t, v := b.c.Arrive(b.now, r, &d)
	if v != Held {
		b.t.Fatalf("verdict %d, want held (%s)", v, d.Reason())
	}
	return t
}

// end serves a ticket with a prompt of so many tokens, four bytes each.
func (b *box) end(t Ticket, prompt int) {
	b.c.FirstByte(b.now, t)
	b.c.Done(b.now, t, Outcome{Served: true, Prompt: prompt, Cached: 0, Completion: 0})
}

// released takes what may go now.
func (b *box) released() map[Ticket]Decision {
	out := map[Ticket]Decision{}
	for _, r := range b.c.Released() {
		out[r.Ticket] = r.Decision
	}
	return out
}

func TestDoorHoldsWhatDoesNotFit(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	first, _ := b.arrive(sized(1, 1900))
	for n := 2; n <= 5; n++ {
		b.arrive(sized(n, 1900))
	}
	waits := b.hold(sized(6, 1900))
	v := b.c.View(b.now)
	if v.Held != 1 || v.OldestHeld != b.now || len(v.Queue) != 1 || v.Queue[0].Conversation != keyOf(6) {
		t.Fatalf("%d held since %v: %+v", v.Held, v.OldestHeld, v.Queue)
	}
	if !strings.Contains(v.Queue[0].Reason, "waits for room") {
		t.Errorf("reason %q", v.Queue[0].Reason)
	}
	b.wait(time.Second)
	b.end(first, 1900)
	if got := b.released(); len(got) != 0 {
		t.Fatalf("released %v at once: the conversation may come back", got)
	}
	b.wait(20 * time.Second) // longer than a cache is worth
	got := b.released()
	d, ok := got[waits]
	if !ok || d.Class != ClassPlaced || d.Wait != 21*time.Second || d.Home != -1 || len(d.Terms) != 1 {
		t.Fatalf("released %+v", got)
	}
	if want := "placed: replica 0 had room for a new conversation; waited 21.0 s"; d.Reason() != want {
		t.Errorf("reason %q, want %q", d.Reason(), want)
	}
}

func TestAdmittedConversationIsNotHeld(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	for n := range 5 {
		tk, _ := b.arrive(sized(n, 1900))
		b.end(tk, 1900)
	}
	b.hold(sized(6, 1900))
	for n := range 5 {
		if _, d := b.arrive(sized(n, 1900)); d.Class != ClassSticky || d.Wait != 0 {
			t.Errorf("conversation %d: %s", n, d.Reason())
		}
	}
}

func TestFirstComeFirstServed(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	running, _ := b.arrive(sized(0, 9000))
	var want []Ticket
	for n := 1; n <= 5; n++ {
		b.wait(time.Second)
		want = append(want, b.hold(sized(n, 9000)))
	}
	var got []Ticket
	for range want {
		b.end(running, 9000)
		b.wait(time.Minute)
		for tk := range b.released() {
			got = append(got, tk)
			running = tk
		}
	}
	if len(got) != len(want) {
		t.Fatalf("released %d of %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("place %d was given to %x, want %x", i, got[i], want[i])
		}
	}
}

func TestSmallOnesPassUntilTheHeadHasWaited(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	b.arrive(sized(0, 6000))
	b.hold(sized(1, 9000))
	b.arrive(sized(2, 1000)) // passes the head
	b.wait(4 * time.Second)  // longer than it takes to fill the cache at 3,000 tokens/s
	b.hold(sized(3, 1000))   // does not pass it any more
	if n := len(b.released()); n != 0 {
		t.Errorf("%d released", n)
	}
}

func TestLongWaiterTakesAPlace(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	busy, _ := b.arrive(sized(1, 4500))
	keepalive, _ := b.arrive(sized(2, 4500))
	for _, tk := range []Ticket{busy, keepalive} { // read at 3,000 tokens a second
		b.wait(1500 * time.Millisecond)
		b.c.FirstByte(b.now, tk)
	}
	waits := b.hold(sized(3, 4500))
	for range 25 { // a spell is 20 s here: six times the time to fill the cache
		b.wait(time.Second)
	}
	if got := b.released(); len(got) != 0 {
		t.Fatalf("a turn in flight was interrupted: %v", got)
	}
	if v := b.c.View(b.now); v.InFlight != 2 {
		t.Fatalf("%d in flight, want 2", v.InFlight)
	}
	b.end(busy, 4500) // the longest resident yields with its turn, at once
	if got := b.released(); len(got) != 1 || got[waits].Class != ClassPlaced {
		t.Fatalf("released %v, want the one that waited a spell", got)
	}
	b.wait(time.Second)
	back := b.hold(sized(1, 4500))  // lost its place against its will
	newer := b.hold(sized(4, 4500)) // came later
	b.wait(time.Second)
	b.end(keepalive, 4500)
	b.wait(10 * time.Second)
	got := b.released()
	if _, ok := got[back]; !ok || len(got) != 1 {
		t.Errorf("released %v, want the one that lost its place and not %x", got, newer)
	}
}

func TestHoldLimit(t *testing.T) {
	s := workingSet()
	s.MaxHold = 10 * time.Second
	b := newBox(t, 2, s)
	b.capacity(10_000)
	b.arrive(sized(1, 9000))
	b.arrive(sized(2, 9500))
	waits := b.hold(sized(3, 9000))
	b.wait(9900 * time.Millisecond)
	if n := len(b.released()); n != 0 {
		t.Fatal("released before the limit")
	}
	b.wait(100 * time.Millisecond)
	d, ok := b.released()[waits]
	if !ok || d.Replica != 0 {
		t.Errorf("at the limit: %+v, want the less full replica 0", d)
	}
	checkInside(t, b.c)
}

// TestHeldRequestOutgrowsTheReplicas takes the larger replica away from one that
// waits: it can never have a place any more and is not held.
func TestHeldRequestOutgrowsTheReplicas(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	b.reps[0].Capacity = 30_000
	b.apply()
	b.arrive(sized(1, 25_000))
	b.arrive(sized(2, 9000))
	waits := b.hold(sized(3, 20_000))
	b.reps[0].Ready = false
	b.apply()
	if d, ok := b.released()[waits]; !ok || d.Replica != 1 {
		t.Errorf("released %+v, want forwarded to replica 1", d)
	}
}

// TestPlacesLeaveRoomForGrowth has two conversations of 3,000 tokens inside, where turns
// grow by 200: a third is let in as long as 300 stay free for each of the three.
func TestPlacesLeaveRoomForGrowth(t *testing.T) {
	for _, tt := range []struct {
		tokens int
		want   Verdict
	}{{3100, Forward}, {3101, Held}} {
		b := doorBox(t, 1, 10_000)
		b.c.learned.growth.add(b.c.at, 200)
		b.arrive(sized(1, 3000))
		b.arrive(sized(2, 3000))
		var d Decision
		if _, got := b.c.Arrive(b.now, sized(3, tt.tokens), &d); got != tt.want {
			t.Errorf("one of %d tokens: verdict %d, want %d", tt.tokens, got, tt.want)
		}
	}
}

func TestNothingIsHeldBelowCapacity(t *testing.T) {
	b := doorBox(t, 2, 100_000)
	for n := range 10 {
		b.arrive(sized(n, 9000)) // long prefills, all at once
	}
	if v := b.c.View(b.now); v.Held != 0 || v.InFlight != 10 {
		t.Errorf("%d held, %d in flight", v.Held, v.InFlight)
	}
}

// TestGuardRails lists what is never held.
func TestGuardRails(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(b *box)
		ask   *Request
	}{
		{"capacity unknown", func(b *box) { b.reps[1].Capacity = 0 }, sized(9, 9000)},
		{"figures too old", func(b *box) { b.reps[0].MetricsUnavailable, b.reps[1].MetricsUnavailable = true, true }, sized(9, 9000)},
		{"larger than a replica", func(*box) {}, sized(9, 20_000)},
		{"no conversation", func(*box) {}, &Request{Rank: -1, ChainFirst: -1, PromptBytes: 36_000}},
		{"side call", func(*box) {}, &Request{Rank: -1, ChainFirst: -1, Kind: KindSide, Key: keyOf(9), PromptBytes: 36_000}},
		{"client chose", func(*box) {}, &Request{Rank: 1, Key: keyOf(9), ChainFirst: -1, PromptBytes: 36_000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := doorBox(t, 2, 10_000)
			b.arrive(sized(1, 9000))
			b.arrive(sized(2, 9000))
			tt.spoil(b)
			b.apply()
			b.arrive(tt.ask)
			checkInside(t, b.c)
		})
	}
}

// TestOneSlowEngineOpensNoDoor has one of two engines keep its figures to itself: who waits
// goes on waiting, and goes where a turn ends.
func TestOneSlowEngineOpensNoDoor(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	first, d := b.arrive(sized(1, 9000))
	b.arrive(sized(2, 9000))
	waits := b.hold(sized(3, 9000))
	b.reps[1-d.Replica].MetricsUnavailable = true
	b.apply()
	b.wait(time.Second)
	if got := b.released(); len(got) > 0 {
		t.Fatalf("released %+v", got)
	}
	b.end(first, 9000)
	b.wait(time.Minute)
	if got, ok := b.released()[waits]; !ok || got.Replica != d.Replica {
		t.Errorf("released %+v, want to replica %d", got, d.Replica)
	}
	checkInside(t, b.c)
}

func TestLosingTheFiguresReleasesAll(t *testing.T) {
	for name, breakIt := range map[string]func(b *box){
		"capacity": func(b *box) { b.reps[0].Capacity = 0; b.apply() },
		"metrics":  func(b *box) { b.reps[0].MetricsUnavailable = true; b.apply() },
		"none":     func(b *box) { b.c.SetSettings(b.now, DefaultSettings()) },
		"off":      func(b *box) { s := workingSet(); s.Affinity = false; b.c.SetSettings(b.now, s) },
	} {
		t.Run(name, func(t *testing.T) {
			b := doorBox(t, 1, 10_000)
			b.arrive(sized(1, 9000))
			waits := b.hold(sized(2, 9000))
			breakIt(b)
			d, ok := b.released()[waits]
			want := ClassPlaced
			if name == "off" {
				want = ClassOff
			}
			if !ok || d.Class != want {
				t.Errorf("released %+v, want %v", d, want)
			}
			checkInside(t, b.c)
		})
	}
}

func TestCancelledWhileHeldCostsNothing(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	b.arrive(sized(1, 9000))
	before := b.c.View(b.now)
	waits := b.hold(sized(2, 9000))
	b.wait(time.Second)
	if m := b.c.Done(b.now, waits, served()); m != MissNone {
		t.Errorf("a request that was never forwarded missed: %v", m)
	}
	after := b.c.View(b.now)
	if after.Held != 0 || after.InFlight != before.InFlight || after.Counts != before.Counts || after.Conversations != 1 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	checkInside(t, b.c)
}

func TestQueueIsBounded(t *testing.T) {
	s := workingSet()
	s.MaxQueue = 2
	b := newBox(t, 1, s)
	b.capacity(10_000)
	b.arrive(sized(1, 9000))
	b.hold(sized(2, 9000))
	b.hold(sized(3, 9000))
	var d Decision
	if tk, v := b.c.Arrive(b.now, sized(4, 9000), &d); v != RefusedFull || tk != 0 {
		t.Errorf("verdict %d, ticket %d", v, tk)
	}
	if n := b.c.View(b.now).Conversations; n != 3 {
		t.Errorf("%d conversations, want 3", n)
	}
}

// TestDeadReplicaSendsBackToTheDoor lets one of two replicas die: its places are
// free, and its request without a first byte waits again, with its time of arrival.
func TestDeadReplicaSendsBackToTheDoor(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	lost, d := b.arrive(sized(1, 9000))
	other, _ := b.arrive(sized(2, 9000))
	b.wait(time.Second)
	late := b.hold(sized(3, 9000))
	b.reps[d.Replica].Ready = false
	b.apply()
	if !b.c.Requeue(b.now, lost) {
		t.Fatal("the request of the dead replica was not taken back")
	}
	if v := b.c.View(b.now); v.Held != 2 || v.InFlight != 1 || v.Counts[ClassPlaced] != 1 {
		t.Fatalf("%d held, %d in flight, counts %v", v.Held, v.InFlight, v.Counts)
	}
	b.end(other, 9000)
	b.wait(time.Minute)
	got := b.released()
	if _, ok := got[lost]; !ok || len(got) != 1 {
		t.Fatalf("released %v, want the earlier one and not %x", got, late)
	}
	b.end(lost, 9000)
	b.wait(time.Minute)
	if _, ok := b.released()[late]; !ok {
		t.Error("the later one is still held")
	}
	checkInside(t, b.c)
}

// TestWaitIsCreditedOnce has a request wait for 3 s, lose its replica after 2 s, and wait
// for 1 s more: its conversation has waited for 6 s, not for 3 and 6.
func TestWaitIsCreditedOnce(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	first, d := b.arrive(sized(1, 9000))
	second, _ := b.arrive(sized(3, 9000))
	waits := b.hold(sized(2, 9000))
	leave := func(tk Ticket, n int) {
		b.end(tk, 9000)
		b.c.Forget(keyOf(n))
		b.c.Tick(b.now)
	}
	b.now = b.now.Add(3 * time.Second)
	leave(first, 1)
	if got := b.released()[waits]; got.Replica != d.Replica {
		t.Fatalf("released %+v", got)
	}
	b.now = b.now.Add(2 * time.Second)
	b.ready(d.Replica, false, false)
	if !b.c.Requeue(b.now, waits) {
		t.Fatal("not taken back")
	}
	b.now = b.now.Add(time.Second)
	leave(second, 3)
	if _, ok := b.released()[waits]; !ok {
		t.Fatal("still held")
	}
	if got := b.c.table.at(b.c.table.find(keyOf(2))).waited; got != int64(6*time.Second) {
		t.Errorf("waited %v, want 6 s", time.Duration(got))
	}
	checkInside(t, b.c)
}

func TestRequeueRefuses(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	begun, _ := b.arrive(sized(1, 4000))
	b.c.FirstByte(b.now, begun)
	plain, _ := b.arrive(&Request{Rank: -1, ChainFirst: -1})
	for name, tk := range map[string]Ticket{"begun": begun, "unkeyed": plain, "zero": 0} {
		if b.c.Requeue(b.now, tk) {
			t.Errorf("a %s request went back to the door", name)
		}
	}
}

func TestMovedConversationKeepsItsPlace(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	tk, d := b.arrive(sized(1, 4000))
	b.end(tk, 4000)
	to := 1 - d.Replica
	if !b.c.Move(b.now, keyOf(1), to) {
		t.Fatal("not moved")
	}
	checkInside(t, b.c)
	if _, d := b.arrive(sized(1, 4000)); d.Class != ClassSticky || d.Replica != to {
		t.Errorf("after the move %s", d.Reason())
	}
}

// TestVictimIsPardoned lets the one that a place was to be taken for find room
// elsewhere: the busy conversation keeps its place.
func TestVictimIsPardoned(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	victim, d := b.arrive(sized(1, 9000))
	other, _ := b.arrive(sized(2, 9000))
	waits := b.hold(sized(3, 9000))
	b.wait(25 * time.Second)
	i := b.c.table.find(keyOf(1))
	if !b.c.table.at(i).yield {
		victim, other = other, victim
		i = b.c.table.find(keyOf(2))
	}
	if !b.c.table.at(i).yield {
		t.Fatalf("after a spell nobody is to yield (first on %d)", d.Replica)
	}
	b.c.Done(b.now, other, failed()) // leaves nothing, so its place is free
	if _, ok := b.released()[waits]; !ok {
		t.Fatal("the free place was not given to the one that waits")
	}
	b.end(victim, 9000)
	if !b.c.table.at(i).admitted {
		t.Error("the conversation gave its place up for nobody")
	}
}

// TestSentBackWhenTheDoorCloses sends a request back to the door whose replica failed
// it, and then switches admission, or affinity with it, off: it goes to the replica that
// has not failed it or, when that is gone too, to the one that has.
func TestSentBackWhenTheDoorCloses(t *testing.T) {
	for _, affinity := range []bool{true, false} {
		for _, gone := range []bool{false, true} {
			b := doorBox(t, 2, 10_000)
			failing, d := b.arrive(sized(1, 9000))
			failed, other := d.Replica, 1-d.Replica
			b.arrive(sized(2, 9000))
			if !b.c.Requeue(b.now, failing) || len(b.released()) != 0 {
				t.Fatal("a request that was failed does not wait for the other replica")
			}
			want := other
			if gone {
				want = failed
				b.reps[other].Ready = false
				b.apply()
			}
			s := DefaultSettings()
			s.Affinity = affinity
			b.c.SetSettings(b.now, s)
			got, ok := b.released()[failing]
			if !ok || got.Replica != want {
				t.Errorf("affinity %v, other gone %v: %+v, want replica %d", affinity, gone, got, want)
			}
			checkInside(t, b.c)
		}
	}
}
