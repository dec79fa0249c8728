package route

import (
	"testing"
	"time"
)

// agentOf is a subagent's request: its own key, the group and the parent of session 1.
func agentOf(n int, shared uint64) *Request {
	r := turnOf(1000 + n)
	r.Kind, r.Group, r.Parent, r.SharedHash = KindAgent, keyOf(1), keyOf(1), shared
	return r
}

func TestSiblingsShareAReplicaWithRoom(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	b.turn(turnOf(1))
	_, first := b.arrive(agentOf(0, 7))
	for n := 1; n < 6; n++ {
		if _, d := b.arrive(agentOf(n, 7)); d.Replica != first.Replica {
			t.Fatalf("sibling %d went to %d, the prefix is on %d: %s", n, d.Replica, first.Replica, d.Reason())
		}
	}
	for n := 6; n < 20; n++ {
		b.arrive(agentOf(n, 7))
	}
	for i, r := range b.c.View(b.now).Replicas {
		if r.InFlight > 8 {
			t.Errorf("replica %d has %d subagents in flight, want at most 8", i, r.InFlight)
		}
	}
}

func TestSubagentFollowsItsParent(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	b.turn(turnOf(0)) // moves the tie away from the parent's home
	parent := b.turn(turnOf(1)).Replica
	if d := b.turn(agentOf(0, 0)); d.Replica != parent || d.Class != ClassPlaced {
		t.Errorf("%s, want the parent's home %d", d.Reason(), parent)
	}
	for n := range 8 {
		r := turnOf(500 + n)
		r.Rank = parent
		b.arrive(r)
	}
	if d := b.turn(agentOf(1, 0)); d.Replica == parent {
		t.Error("the parent's home is loaded, but the subagent went there")
	}
}

// TestKinMeetAtTheDoor asks the same of admission: a subagent goes to its parent, unless
// that is about to read a long prompt, its siblings to it, and a duplicate to the prompt
// that is being read.
func TestKinMeetAtTheDoor(t *testing.T) {
	b := doorBox(t, 4, 1_000_000)
	b.turn(turnOf(0)) // moves the tie away from the parent's home
	parent := b.turn(turnOf(1)).Replica
	b.turn(turnOf(2))
	if d := b.turn(agentOf(0, 0)); d.Replica != parent || d.Class != ClassPlaced || !d.ByAdmission() {
		t.Errorf("%s, want the parent's home %d", d.Reason(), parent)
	}
	long := sized(3, 50_000)
	long.Rank = parent
	b.arrive(long)
	_, first := b.arrive(agentOf(1, 7))
	if first.Replica == parent {
		t.Errorf("%s, where a long prompt is about to be read", first.Reason())
	}
	for n := 2; n < 6; n++ {
		if _, d := b.arrive(agentOf(n, 7)); d.Replica != first.Replica {
			t.Errorf("sibling %d: %s, the prefix is on %d", n, d.Reason(), first.Replica)
		}
	}
	x := newChat(1)
	_, one := b.arrive(x.request())
	if _, two := b.arrive(x.request()); two.Replica != one.Replica || two.Conversation == one.Conversation {
		t.Errorf("%s, the same prompt is being read on %d", two.Reason(), one.Replica)
	}
}

// TestSubagentFollowsItsGroup sends a subagent that names its group and no parent: with
// Claude Code the group is the key of the main conversation.
func TestSubagentFollowsItsGroup(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	b.turn(turnOf(0))
	b.turn(turnOf(2))
	home := b.turn(turnOf(1)).Replica
	r := agentOf(0, 0)
	r.Parent = Key{}
	if d := b.turn(r); d.Replica != home {
		t.Errorf("%s, want the group's home %d", d.Reason(), home)
	}
}

func TestSideCallFindsItsGroup(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	main := turnOf(1)
	main.Group = keyOf(50)
	b.turn(turnOf(0))
	home := b.turn(main).Replica
	side := &Request{Group: keyOf(50), Kind: KindSide, Rank: -1, ChainFirst: -1}
	if d := b.turn(side); d.Class != ClassSide || d.Replica != home || d.Conversation != keyOf(1) {
		t.Errorf("%+v, want the group's home %d", d, home)
	}
}

func TestSpillPriced(t *testing.T) {
	s := DefaultSettings()
	s.Spill = SpillPriced
	story := func(context int) (Decision, int) {
		b := newBox(t, 2, s)
		// The engine computes 1,000 tokens a second.
		sized := func(n, tokens int) *Request {
			r := turnOf(n)
			r.PromptBytes = 4 * tokens
			return r
		}
		tk, _ := b.arrive(sized(90, 3000))
		b.now = b.now.Add(3 * time.Second)
		b.c.FirstByte(b.now, tk)
		b.c.Done(b.now, tk, Outcome{Served: true, Prompt: 3000, Cached: 0, Completion: 1})

		tk, d := b.arrive(sized(1, context))
		b.c.FirstByte(b.now, tk)
		b.c.Done(b.now, tk, Outcome{Served: true, Prompt: context, Cached: 0, Completion: 100})
		wall := sized(2, 20_000) // waits at home for its prefill
		wall.Rank = d.Replica
		b.arrive(wall)
		return b.turn(sized(1, context)), d.Replica
	}
	if d, home := story(2_000); d.Class != ClassSpilled || d.Replica == home || d.Terms[home].Price <= d.Terms[d.Replica].Price {
		t.Errorf("a small context waits: %s", d.Reason())
	}
	if d, home := story(60_000); d.Class != ClassSticky || d.Replica != home || d.Terms[home].Price > d.Terms[1-home].Price {
		t.Errorf("a large context leaves: %s", d.Reason())
	}
}

func TestPoliciesAreSeeded(t *testing.T) {
	for _, p := range []Policy{PolicyHash, PolicyRoundRobin, PolicyRandom} {
		s := DefaultSettings()
		s.Policy = p
		a, b := newBox(t, 5, s), newBox(t, 5, s)
		seen := map[int]bool{}
		for n := range 100 {
			x, y := a.turn(turnOf(n)), b.turn(turnOf(n))
			if x.Replica != y.Replica {
				t.Fatalf("policy %d: two cores with one seed chose %d and %d", p, x.Replica, y.Replica)
			}
			seen[x.Replica] = true
		}
		if len(seen) != 5 {
			t.Errorf("policy %d used %d of 5 replicas", p, len(seen))
		}
	}
}

// TestHashMovesFew takes a replica away: only its own conversations move.
func TestHashMovesFew(t *testing.T) {
	s := DefaultSettings()
	s.Policy = PolicyHash
	all, fewer := newBox(t, 4, s), newBox(t, 4, s)
	fewer.reps[3].Ready = false
	fewer.apply()
	for n := range 200 {
		x, y := all.turn(turnOf(n)).Replica, fewer.turn(turnOf(n)).Replica
		if x != 3 && x != y {
			t.Fatalf("conversation %d moved from %d to %d, though %d is still there", n, x, y, x)
		}
	}
}
