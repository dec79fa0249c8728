package route

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// unequal has a replica that takes 18,000 tokens, and one that takes 40,000.
func unequal(t testing.TB, s Settings) *box {
	b := newBox(t, 2, s)
	b.reps[0].Capacity, b.reps[0].MaxModelLen = 20_000, 18_000
	b.reps[1].Capacity, b.reps[1].MaxModelLen = 46_000, 40_000
	b.apply()
	return b
}

// known teaches a box that four bytes make a token.
func (b *box) known() { b.end(first(b.arrive(sized(9999, 1000))), 1000) }

func first(t Ticket, _ Decision) Ticket { return t }

func TestLongPromptsGoWhereTheyFit(t *testing.T) {
	plain := func(r *Request) {}
	tests := []struct {
		name  string
		set   func(s *Settings)
		shape func(r *Request)
	}{
		{"least loaded", func(s *Settings) {}, plain},
		{"hash", func(s *Settings) { s.Policy = PolicyHash }, plain},
		{"round robin", func(s *Settings) { s.Policy = PolicyRoundRobin }, plain},
		{"random", func(s *Settings) { s.Policy = PolicyRandom }, plain},
		{"off", func(s *Settings) { s.Affinity = false }, plain},
		{"unkeyed", func(s *Settings) {}, func(r *Request) { r.Key = Key{} }},
		{"side", func(s *Settings) {}, func(r *Request) { r.Kind = KindSide }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := DefaultSettings()
			tt.set(&s)
			b := unequal(t, s)
			for n := range 6 {
				r := sized(n, 30_000)
				tt.shape(r)
				if _, d := b.arrive(r); d.Replica != 1 {
					t.Fatalf("a prompt of 30,000 tokens went to replica %d (%s)", d.Replica, d.Reason())
				}
			}
			r := sized(100, 1000)
			tt.shape(r)
			if _, d := b.arrive(r); tt.name == "least loaded" && d.Replica != 0 {
				t.Errorf("a short prompt went to replica %d, which carries more", d.Replica)
			}
		})
	}
}

// TestLongPromptsWaitForTheLargerReplica has room for one of them; the smaller replica
// stands empty and is not for the others, but for whom it can hold.
func TestLongPromptsWaitForTheLargerReplica(t *testing.T) {
	b := unequal(t, workingSet())
	tk, d := b.arrive(sized(1, 30_000))
	if d.Replica != 1 {
		t.Fatalf("the first went to replica %d", d.Replica)
	}
	b.hold(sized(2, 30_000))
	if _, d := b.arrive(sized(3, 12_000)); d.Replica != 0 {
		t.Errorf("a short one went to replica %d", d.Replica)
	}
	b.end(tk, 30_000)
	b.wait(5 * time.Minute)
	for _, d := range b.released() {
		if d.Replica != 1 {
			t.Errorf("it was let in to replica %d (%s)", d.Replica, d.Reason())
		}
		return
	}
	t.Error("it was not let in")
}

// TestConversationOutgrowsItsHome lets one grow on the smaller replica: near its limit it
// stays, for most of it is measured, and beyond it is rehomed.
func TestConversationOutgrowsItsHome(t *testing.T) {
	for name, s := range map[string]Settings{"none": DefaultSettings(), "working set": workingSet()} {
		b := unequal(t, s)
		b.known()
		b.reps[1].Draining = true
		b.apply()
		b.end(first(b.arrive(sized(1, 15_000))), 15_000)
		b.reps[1].Draining = false
		b.apply()
		tk, d := b.arrive(sized(1, 17_500))
		if d.Class != ClassSticky || d.Replica != 0 {
			t.Fatalf("%s: with 17,500 of 18,000 tokens: %s", name, d.Reason())
		}
		b.end(tk, 17_500)
		tk, d = b.arrive(sized(1, 19_000))
		if d.Class != ClassRehomed || d.Replica != 1 || d.Home != 0 || !strings.HasPrefix(d.Reason(), "rehomed: its prompt is too long for its home, replica 0;") {
			t.Fatalf("%s: with 19,000 of 18,000 tokens: %s", name, d.Reason())
		}
		b.end(tk, 19_000)
		if _, d = b.arrive(sized(1, 19_100)); d.Class != ClassSticky || d.Replica != 1 {
			t.Errorf("%s: after that: %s", name, d.Reason())
		}
	}
}

// TestDoubtIsAboutGuesses places first prompts that may be longer than they look on the
// larger replica, and keeps at home what was measured and has become less.
func TestDoubtIsAboutGuesses(t *testing.T) {
	b := unequal(t, DefaultSettings())
	b.known()
	if _, d := b.arrive(sized(1, 17_000)); d.Replica != 1 {
		t.Errorf("a guess of 17,000 tokens went to replica %d, which takes 18,000", d.Replica)
	}
	if _, d := b.arrive(sized(2, 16_900)); d.Replica != 0 {
		t.Errorf("a guess of 16,900 tokens went to replica %d", d.Replica)
	}
	b.reps[1].Draining = true
	b.apply()
	r := sized(3, 20_000)
	b.end(first(b.arrive(r)), 17_000) // it has fewer tokens than it looks
	b.reps[1].Draining = false
	b.apply()
	r.PromptBytes -= 400
	if _, d := b.arrive(r); d.Class != ClassSticky {
		t.Errorf("one that shrank below what was measured left its home: %s", d.Reason())
	}
}

// TestLargerReplicaIsWorthAWait has a larger replica that is slow, or has failed the
// request: the smaller one could only refuse it.
func TestLargerReplicaIsWorthAWait(t *testing.T) {
	b := unequal(t, DefaultSettings())
	b.reps[1].Avoid = true
	b.apply()
	tk, d := b.arrive(sized(1, 30_000))
	if d.Replica != 1 {
		t.Fatalf("it went to replica %d, because the larger one is to be avoided", d.Replica)
	}
	if b.c.Reroute(b.now, tk, &d) {
		t.Errorf("rerouted to replica %d", d.Replica)
	}
	b.reps[1].Ready = false
	b.apply()
	if !b.c.Reroute(b.now, tk, &d) || d.Replica != 0 {
		t.Error("the larger one is away, so the engine of the smaller one may say that it cannot")
	}
}

// TestNobodyHoldsIt sends what is longer than any replica takes to the largest at once.
func TestNobodyHoldsIt(t *testing.T) {
	for name, s := range map[string]Settings{"none": DefaultSettings(), "working set": workingSet()} {
		b := unequal(t, s)
		b.arrive(sized(1, 30_000))
		if _, d := b.arrive(sized(2, 41_000)); d.Replica != 1 {
			t.Errorf("%s: it went to replica %d", name, d.Replica)
		}
	}
}

// TestGateOfASmallReplica has a prompt that may be too long wait at the gate of the only
// replica that is ready; when the one comes that holds it, it goes there.
func TestGateOfASmallReplica(t *testing.T) {
	b := unequal(t, workingSet())
	b.reps[0].Capacity, b.reps[0].MaxModelLen = 60_000, 18_000
	b.ready(1, false, false)
	for n := range 4 {
		b.end(first(b.arrive(sized(n, 12_000))), 12_000)
	}
	b.hold(sized(9, 15_000)) // somebody waits, so the gate counts
	b.arrive(sized(0, 15_000))
	b.arrive(sized(1, 15_000))
	gated := b.hold(sized(2, 17_800))
	if !b.c.tickets.at(b.c.tickets.find(gated)).gated {
		t.Fatal("it does not wait at the gate")
	}
	b.ready(1, true, false)
	b.wait(100 * time.Millisecond)
	if d, ok := b.released()[gated]; !ok || d.Replica != 1 || d.Class != ClassRehomed {
		t.Errorf("released: %t, %s", ok, d.Reason())
	}
}

// checkReach fails when a request was sent where its prompt does not fit, though it would
// elsewhere.
func checkReach(t *rapid.T, c *Core, tk Ticket, d *Decision) {
	if d.Class == ClassClientPinned || d.note == noteBound {
		return
	}
	needs := c.tickets.at(c.tickets.find(tk)).needs
	fits := func(r *Replica) bool {
		return (r.Capacity == 0 || needs <= r.Capacity) && (r.MaxModelLen == 0 || needs <= r.MaxModelLen)
	}
	if fits(&c.replicas[d.Replica].Replica) {
		return
	}
	for i := range c.replicas[:c.present] {
		if r := &c.replicas[i]; r.usable() && fits(&r.Replica) {
			t.Fatalf("a prompt of %d tokens went to replica %d, though replica %d holds it (%s)", needs, d.Replica, i, d.Reason())
		}
	}
}
