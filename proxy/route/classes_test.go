package route

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestClasses drives one short story per class and looks at the last decision.
func TestClasses(t *testing.T) {
	side := func() *Request {
		return &Request{Key: keyOf(1), Group: keyOf(1), Kind: KindSide, Rank: -1, ChainFirst: -1}
	}
	tests := []struct {
		name  string
		story func(b *box) Decision
		class Class
		check func(d Decision) error
	}{
		{"new conversation", func(b *box) Decision { return b.turn(turnOf(1)) }, ClassPlaced, nil},
		{"second turn", func(b *box) Decision { b.turn(turnOf(1)); return b.turn(turnOf(1)) }, ClassSticky, nil},
		{"no id and no chain", func(b *box) Decision {
			return b.turn(&Request{Rank: -1, ChainFirst: -1})
		}, ClassUnkeyed, func(d Decision) error {
			if d.Conversation != (Key{}) || d.Home != -1 || d.Turn != 0 {
				return fmt.Errorf("an unkeyed request has a conversation: %+v", d)
			}
			return nil
		}},
		{"side call of a known group", func(b *box) Decision {
			b.turn(turnOf(1))
			return b.turn(side())
		}, ClassSide, func(d Decision) error {
			if d.Replica != d.Home {
				return fmt.Errorf("the home is idle, but the side call went to %d and not to %d", d.Replica, d.Home)
			}
			return nil
		}},
		{"side call while home is busy", func(b *box) Decision {
			b.turn(turnOf(1))
			b.arrive(turnOf(1))
			return b.turn(side())
		}, ClassSide, func(d Decision) error {
			if d.Replica == d.Home {
				return fmt.Errorf("the side call went to the busy home %d", d.Home)
			}
			return nil
		}},
		{"client names the replica", func(b *box) Decision {
			r := turnOf(1)
			r.Rank = 2
			return b.turn(r)
		}, ClassClientPinned, func(d Decision) error {
			if d.Replica != 2 {
				return fmt.Errorf("replica %d, want 2", d.Replica)
			}
			return nil
		}},
		{"rank out of range", func(b *box) Decision {
			r := turnOf(1)
			r.Rank = 4
			return b.turn(r)
		}, ClassPlaced, nil},
		{"affinity off", func(b *box) Decision {
			b.turn(turnOf(1))
			s := DefaultSettings()
			s.Affinity = false
			b.c.SetSettings(b.now, s)
			return b.turn(turnOf(1))
		}, ClassOff, nil},
		{"home is draining", func(b *box) Decision {
			home := b.turn(turnOf(1)).Replica
			b.reps[home].Draining = true
			b.apply()
			return b.turn(turnOf(1))
		}, ClassRehomed, func(d Decision) error {
			if d.Replica == d.Home || d.MissExpected != MissRehomed {
				return fmt.Errorf("%+v", d)
			}
			return nil
		}},
		{"home restarted", func(b *box) Decision {
			home := b.turn(turnOf(1)).Replica
			b.reps[home].Incarnation++
			b.apply()
			return b.turn(turnOf(1))
		}, ClassRehomed, func(d Decision) error {
			if d.MissExpected != MissReplicaRestarted {
				return fmt.Errorf("miss %v, want replica_restarted", d.MissExpected)
			}
			return nil
		}},
		{"home is gone", func(b *box) Decision {
			b.turn(turnOf(0)) // replica 0
			b.turn(turnOf(1)) // replica 1
			b.turn(turnOf(2))
			b.turn(turnOf(3))
			b.reps = b.reps[:1]
			b.apply()
			return b.turn(turnOf(3))
		}, ClassRehomed, nil},
		{"home past the threshold", func(b *box) Decision {
			home := b.turn(turnOf(1)).Replica
			for range 8 {
				pin := turnOf(99)
				pin.Rank = home
				b.arrive(pin)
			}
			return b.turn(turnOf(1))
		}, ClassSpilled, func(d Decision) error {
			if d.Replica == d.Home || d.HomeInFlight != 8 || d.Threshold != 8 {
				return fmt.Errorf("%+v", d)
			}
			return nil
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t, 4, DefaultSettings())
			d := tt.story(b)
			if d.Class != tt.class {
				t.Fatalf("class %v, want %v (%s)", d.Class, tt.class, d.Reason())
			}
			if !strings.HasPrefix(d.Reason(), tt.class.String()+": ") {
				t.Errorf("reason %q does not begin with its class", d.Reason())
			}
			if tt.check != nil {
				if err := tt.check(d); err != nil {
					t.Error(err)
				}
			}
			b.checkSums()
		})
	}
}

// checkSums fails unless the classes add up to the requests, per replica and in all.
func (b *box) checkSums() {
	b.t.Helper()
	v := b.c.View(b.now)
	var perReplica [NumClasses]uint64
	inFlight := 0
	for _, r := range v.Replicas {
		for k, n := range r.Counts {
			perReplica[k] += n
		}
		inFlight += r.InFlight
	}
	if len(v.Replicas) == len(b.c.replicas) && perReplica != v.Counts {
		b.t.Errorf("replicas count %v, the model %v", perReplica, v.Counts)
	}
	if len(v.Replicas) == len(b.c.replicas) && inFlight != v.InFlight {
		b.t.Errorf("replicas have %d in flight, the model %d", inFlight, v.InFlight)
	}
}

func TestSpillKeepsHome(t *testing.T) {
	b := newBox(t, 2, DefaultSettings())
	home := b.turn(turnOf(1)).Replica
	var crowd []Ticket
	for range 8 {
		pin := turnOf(99)
		pin.Rank = home
		tk, _ := b.arrive(pin)
		crowd = append(crowd, tk)
	}
	if d := b.turn(turnOf(1)); d.Class != ClassSpilled {
		t.Fatalf("class %v, want spilled", d.Class)
	}
	b.c.Done(b.now, crowd[0], served()) // 7 in flight
	if d := b.turn(turnOf(1)); d.Class != ClassSticky || d.Replica != home {
		t.Fatalf("after the crowd %v on %d, want sticky on %d", d.Class, d.Replica, home)
	}
}

func TestSpillNeedsSomebodyFreer(t *testing.T) {
	s := DefaultSettings()
	s.SpillThreshold = 2
	b := newBox(t, 2, s)
	home := b.turn(turnOf(1)).Replica
	for i := range 2 {
		for range 2 {
			pin := turnOf(99 + i)
			pin.Rank = i
			b.arrive(pin)
		}
	}
	d := b.turn(turnOf(1))
	if d.Class != ClassSticky || d.Replica != home {
		t.Fatalf("both have 2 in flight, but %s", d.Reason())
	}
	if !strings.Contains(d.Reason(), "no other replica has fewer") {
		t.Errorf("reason %q", d.Reason())
	}
}

func TestThreshold(t *testing.T) {
	for _, tt := range []struct{ set, seqs, want int }{
		{0, 32, 8}, {0, 256, 64}, {0, 3, 1}, {0, 1, 1}, {0, 0, autoThreshold}, {5, 32, 5},
	} {
		s := DefaultSettings()
		s.SpillThreshold = tt.set
		b := newBox(t, 1, s)
		b.reps[0].MaxNumSeqs = tt.seqs
		b.apply()
		v := b.c.View(b.now)
		if v.SpillThreshold != tt.want || v.SpillAuto != (tt.set == 0) {
			t.Errorf("setting %d, %d sequences: %d (auto %t), want %d", tt.set, tt.seqs, v.SpillThreshold, v.SpillAuto, tt.want)
		}
	}
}

func TestScore(t *testing.T) {
	b := newBox(t, 3, DefaultSettings())
	for i := range b.reps {
		b.reps[i].Capacity = 10_000
	}
	b.apply()
	b.turn(turnOf(1)) // replica 0: 1,100 of 10,000 tokens, one live
	b.arrive(turnOf(2))
	_, d := b.arrive(turnOf(3))
	want := []Term{
		{Replica: 0, Live: 1, Fill: 0.11, Score: 1.88, Price: -1, Eligible: true},
		{Replica: 1, InFlight: 1, Live: 1, Score: 2, Price: -1, Eligible: true},
		{Replica: 2, Price: -1, Eligible: true},
	}
	for i, w := range want {
		got := d.Terms[i]
		if diff := got.Score - w.Score; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("replica %d scores %v, want %v", i, got.Score, w.Score)
		}
		got.Score, w.Score = 0, 0
		if diff := got.Fill - w.Fill; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("replica %d is filled to %v, want %v", i, got.Fill, w.Fill)
		}
		got.Fill, w.Fill = 0, 0
		if got != w {
			t.Errorf("replica %d: %+v, want %+v", i, got, w)
		}
	}
	if d.Replica != 2 {
		t.Errorf("replica %d, want 2", d.Replica)
	}

	b.reps[1].Capacity = 0 // one unknown leaves the fill out for all
	b.apply()
	_, d = b.arrive(turnOf(4))
	for _, m := range d.Terms {
		if m.Fill != -1 || m.Score != float64(m.InFlight)+float64(m.Live) {
			t.Errorf("replica %d: %+v counts the fill without all capacities", m.Replica, m)
		}
	}
}

func TestPinNeedsAServedRequest(t *testing.T) {
	b := newBox(t, 2, DefaultSettings())
	tk, _ := b.arrive(turnOf(1))
	b.c.Done(b.now, tk, failed())
	if n := b.c.View(b.now).Conversations; n != 0 {
		t.Fatalf("a failed first request left %d conversations", n)
	}
	if d := b.turn(turnOf(1)); d.Class != ClassPlaced || d.Turn != 1 {
		t.Fatalf("after a failed first request: %v, turn %d", d.Class, d.Turn)
	}
}

func TestConcurrentFirstRequestsShareAReplica(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	t1, d1 := b.arrive(turnOf(1))
	t2, d2 := b.arrive(turnOf(1))
	if d1.Replica != d2.Replica {
		t.Fatalf("replicas %d and %d", d1.Replica, d2.Replica)
	}
	b.c.Done(b.now, t1, failed()) // the other one still vouches for the home
	b.c.Done(b.now, t2, served())
	if d := b.turn(turnOf(1)); d.Class != ClassSticky || d.Replica != d1.Replica {
		t.Fatalf("%v on %d, want sticky on %d", d.Class, d.Replica, d1.Replica)
	}
}

func TestOneKeyDoesNotQueueOnOneReplica(t *testing.T) {
	s := DefaultSettings()
	s.SpillThreshold = 4096
	b := newBox(t, 4, s)
	b.turn(turnOf(1))
	var most int
	for range 32 {
		b.arrive(turnOf(1))
	}
	for _, r := range b.c.View(b.now).Replicas {
		most = max(most, r.InFlight)
	}
	if most > convInFlight {
		t.Errorf("one conversation has %d in flight on a replica, want at most %d", most, convInFlight)
	}
}

func TestSideCallsTouchNoPin(t *testing.T) {
	side := &Request{Key: keyOf(1), Group: keyOf(1), Kind: KindSide, Rank: -1, ChainFirst: -1}
	b := newBox(t, 2, DefaultSettings())
	b.turn(side) // before its conversation
	if n := b.c.View(b.now).Conversations; n != 0 {
		t.Fatalf("a side call made %d conversations", n)
	}
	b.turn(turnOf(1))
	var before, after ConversationView
	b.c.Conversations(b.now, func(v ConversationView) bool { before = v; return true })
	b.wait(time.Minute)
	b.turn(side)
	b.c.Conversations(b.now, func(v ConversationView) bool { after = v; return true })
	if before != after {
		t.Errorf("a side call changed %+v to %+v", before, after)
	}
}

func TestClientPinned(t *testing.T) {
	b := newBox(t, 2, DefaultSettings())
	r := turnOf(1)
	r.Rank = 1
	b.turn(r)
	if d := b.turn(turnOf(1)); d.Class != ClassPlaced {
		t.Errorf("a client's choice made a pin: %v", d.Class)
	}
	b.reps[1].Ready = false
	b.apply()
	var d Decision
	if tk, v := b.c.Arrive(b.now, r, &d); v != NoReplica || tk != 0 {
		t.Errorf("the client's replica is not ready, but the verdict is %d", v)
	}
	s := DefaultSettings()
	s.ClientPinning = false
	b.c.SetSettings(b.now, s)
	if d := b.turn(r); d.Class == ClassClientPinned {
		t.Error("client pinning is off, but the client chose")
	}
}

func TestNoReplica(t *testing.T) {
	b := newBox(t, 2, DefaultSettings())
	for i := range b.reps {
		b.reps[i].Ready = false
	}
	b.apply()
	var d Decision
	if tk, v := b.c.Arrive(b.now, turnOf(1), &d); v != NoReplica || tk != 0 {
		t.Fatalf("verdict %d, ticket %d", v, tk)
	}
	if n := b.c.View(b.now).Conversations; n != 0 {
		t.Errorf("a refused request left %d conversations", n)
	}
}

// TestTiesGoToFewerLiveConversations compares one request in flight with one live
// conversation, which score alike.
func TestTiesGoToFewerLiveConversations(t *testing.T) {
	b := newBox(t, 2, DefaultSettings())
	b.turn(turnOf(1))                                    // replica 0: one live
	_, d := b.arrive(&Request{Rank: -1, ChainFirst: -1}) // replica 1: one in flight
	if d.Replica != 1 {
		t.Fatalf("the request without a conversation went to %d", d.Replica)
	}
	if _, d := b.arrive(turnOf(2)); d.Replica != 1 {
		t.Errorf("of two that score 1 the one with a live conversation was chosen: %+v", d.Terms)
	}
}
