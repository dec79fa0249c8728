package route

import "testing"

// A replica that is slow for a while keeps its conversations and gets no new ones, by
// every policy, as long as another one can be had.
func TestAvoidedReplicaKeepsItsHomesAndGetsNoNewOnes(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"least loaded": func(*Settings) {},
		"hash":         func(s *Settings) { s.Policy = PolicyHash },
		"round robin":  func(s *Settings) { s.Policy = PolicyRoundRobin },
		"random":       func(s *Settings) { s.Policy = PolicyRandom },
		"priced":       func(s *Settings) { s.Spill = SpillPriced },
		"working set":  func(s *Settings) { s.Admission = AdmissionWorkingSet },
		"affinity off": func(s *Settings) { s.Affinity = false },
	} {
		t.Run(name, func(t *testing.T) {
			s := DefaultSettings()
			change(&s)
			b := newBox(t, 2, s)
			b.capacity(1_000_000)
			var here []int
			for n := range 16 {
				if b.turn(turnOf(n)).Replica == 0 {
					here = append(here, n)
				}
			}
			if len(here) == 0 {
				t.Fatal("nobody lives on replica 0")
			}
			b.reps[0].Avoid = true
			b.apply()
			for _, n := range here {
				if d := b.turn(turnOf(n)); s.Affinity && (d.Replica != 0 || d.Class != ClassSticky) {
					t.Errorf("conversation %d: class %d on replica %d, want its home", n, d.Class, d.Replica)
				}
			}
			for n := range 16 {
				if d := b.turn(turnOf(100 + n)); d.Replica != 1 {
					t.Errorf("new conversation %d went to the replica to be avoided", n)
				}
			}
			b.reps[1].Ready = false
			b.apply()
			if d := b.turn(turnOf(200)); d.Replica != 0 {
				t.Errorf("with no other replica it went to %d", d.Replica)
			}
		})
	}
}

// A request that failed elsewhere goes to a replica to be avoided before it fails.
func TestAvoidedReplicaIsTheLastResort(t *testing.T) {
	b := newBox(t, 3, DefaultSettings())
	b.reps[0].Avoid = true
	b.apply()
	tk, d := b.arrive(turnOf(1))
	tried := []int{d.Replica}
	for b.c.Reroute(b.now, tk, &d) {
		tried = append(tried, d.Replica)
	}
	if len(tried) != 3 || tried[2] != 0 {
		t.Errorf("tried %v, want replica 0 last of three", tried)
	}
}

// Who waits at the door is let in elsewhere, unless the slow replica is its home.
func TestDoorAvoidsToo(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	b.reps[0].Avoid = true
	b.apply()
	for n := range 5 {
		if _, d := b.arrive(sized(n, 1900)); d.Replica != 1 {
			t.Errorf("conversation %d was let in on replica %d", n, d.Replica)
		}
	}
	waits := b.hold(sized(6, 1900))
	b.reps[0].Avoid = false
	b.apply()
	if d, ok := b.released()[waits]; !ok || d.Replica != 0 {
		t.Errorf("the held one got %+v, %v; want replica 0 once it is well again", d, ok)
	}
}
