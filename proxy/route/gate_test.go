package route

import (
	"strings"
	"testing"
	"time"
)

func TestGateLetsTwoLongPrefillsPass(t *testing.T) {
	b := doorBox(t, 1, 100_000)
	for n := range 4 {
		tk, _ := b.arrive(sized(n, 20_000))
		b.end(tk, 20_000)
	}
	waits := b.hold(sized(9, 30_000)) // somebody waits, so the gates count
	var cold []Ticket
	for n := range 4 { // long prompts of conversations with a place
		var d Decision
		tk, v := b.c.Arrive(b.now, sized(n, 24_500), &d)
		if want := n < 2; (v == Forward) != want {
			t.Fatalf("long prefill %d: verdict %d", n, v)
		}
		cold = append(cold, tk)
	}
	if v := b.c.View(b.now); v.Held != 3 {
		t.Fatalf("%d held, want 3", v.Held)
	}
	b.c.Conversations(b.now, func(cv ConversationView) bool {
		if held := cv.Key != keyOf(0) && cv.Key != keyOf(1); cv.Waits != held {
			t.Errorf("%v waits: %t, want %t", cv.Key, cv.Waits, held)
		}
		return true
	})
	b.c.FirstByte(b.now, cold[0])
	if got := b.released(); len(got) != 1 || got[cold[2]].Class != ClassSticky {
		t.Fatalf("released %v, want the third", got)
	}
	b.c.Done(b.now, cold[1], failed()) // ended without a first byte
	if got := b.released(); len(got) != 1 || got[cold[3]].Class != ClassSticky {
		t.Fatalf("released %v, want the fourth", got)
	}
	b.c.Done(b.now, waits, failed())
	checkInside(t, b.c)
}

// TestLeavingTheGate cancels one request at a gate and moves the conversation of
// another: the first costs nothing, the second goes back to the door.
func TestLeavingTheGate(t *testing.T) {
	b := doorBox(t, 2, 100_000)
	var homes [2][]int
	for n := range 8 {
		tk, d := b.arrive(sized(n, 20_000))
		homes[d.Replica] = append(homes[d.Replica], n)
		b.end(tk, 20_000)
	}
	waits := b.hold(sized(9, 90_000))
	var flying []Ticket
	for _, n := range homes[0][:2] {
		tk, _ := b.arrive(sized(n, 23_000))
		flying = append(flying, tk)
	}
	cancelled, moved := b.hold(sized(homes[0][2], 23_000)), b.hold(sized(homes[0][3], 23_000))
	b.c.Done(b.now, cancelled, failed())
	if v := b.c.View(b.now); v.Held != 2 || v.InFlight != 2 {
		t.Fatalf("%d held and %d in flight, want 2 and 2", v.Held, v.InFlight)
	}
	checkInside(t, b.c)
	b.c.Move(b.now, keyOf(homes[0][3]), 1)
	b.c.FirstByte(b.now, flying[0]) // opens the gate
	b.wait(100 * time.Millisecond)
	if d, ok := b.released()[moved]; !ok || d.Replica != 1 || d.Class != ClassSticky {
		t.Errorf("released %+v, want sticky on its new home 1", d)
	}
	b.c.Done(b.now, waits, failed())
	checkInside(t, b.c)
}

// TestGateOfADeadReplica lets a replica die whose gate holds a request: it finds
// another place, with its time of arrival.
func TestGateOfADeadReplica(t *testing.T) {
	b := doorBox(t, 2, 100_000)
	homes := map[int][]int{}
	for n := range 8 {
		tk, d := b.arrive(sized(n, 20_000))
		homes[d.Replica] = append(homes[d.Replica], n)
		b.end(tk, 20_000)
	}
	waits := b.hold(sized(9, 90_000))
	var gated []Ticket
	for k, n := range homes[0] {
		r := sized(n, 23_000)
		if k < 2 {
			b.arrive(r)
			continue
		}
		gated = append(gated, b.hold(r))
	}
	if v := b.c.View(b.now); v.Replicas[0].Held != len(gated) || !strings.Contains(v.Queue[0].Reason, "has a place") {
		t.Fatalf("%d at the gate, want %d: %+v", v.Replicas[0].Held, len(gated), v.Queue)
	}
	b.wait(time.Second)
	b.reps[0].Ready = false
	b.apply()
	checkInside(t, b.c)
	b.c.Done(b.now, waits, failed())
	b.wait(time.Minute) // the idle conversations of the other replica make room
	got := b.released()
	for _, tk := range gated {
		if d, ok := got[tk]; !ok || d.Replica != 1 || d.Class != ClassRehomed || d.Wait < time.Second {
			t.Errorf("released %+v, want rehomed on 1", d)
		}
	}
}
