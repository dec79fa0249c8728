package route

import (
	"strings"
	"testing"
)

// bound is a turn that only one replica can answer.
func bound(n, replica int) *Request {
	r := turnOf(n)
	r.Rank, r.Bound = replica, true
	return r
}

// What only one replica can answer goes there, whatever the settings and the load say,
// and a home elsewhere is kept.
func TestBoundGoesToItsReplica(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"default":            func(*Settings) {},
		"no client pinning":  func(s *Settings) { s.ClientPinning = false },
		"affinity off":       func(s *Settings) { s.Affinity = false },
		"admission":          func(s *Settings) { s.Admission = AdmissionWorkingSet },
		"threshold exceeded": func(s *Settings) { s.SpillThreshold = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := DefaultSettings()
			change(&s)
			b := newBox(t, 3, s)
			for i := range b.reps {
				b.reps[i].Capacity = 10_000
			}
			b.apply()
			home := b.turn(turnOf(1)).Replica
			to := (home + 1) % 3
			for range 4 {
				if _, d := b.arrive(bound(1, to)); d.Replica != to || !strings.Contains(d.Reason(), "alone holds") {
					t.Errorf("went to %d, want %d: %s", d.Replica, to, d.Reason())
				}
			}
			if d := b.turn(turnOf(1)); s.Affinity && s.SpillThreshold == 0 && d.Replica != home {
				t.Errorf("the next turn went to %d, want its home %d: %s", d.Replica, home, d.Reason())
			}
		})
	}
}

// A conversation without a home gets the replica that its first turn is bound to.
func TestBoundBecomesHome(t *testing.T) {
	b := newBox(t, 3, DefaultSettings())
	if d := b.turn(bound(1, 2)); d.Class != ClassPlaced || d.Replica != 2 {
		t.Errorf("got %s on %d", d.Class, d.Replica)
	}
	if d := b.turn(turnOf(1)); d.Class != ClassSticky || d.Replica != 2 {
		t.Errorf("got %s on %d, want it to stay", d.Class, d.Replica)
	}
	if d := b.turn(bound(1, 2)); d.Class != ClassSticky {
		t.Errorf("got %s at home, want sticky", d.Class)
	}
}

// Nobody else can answer it: it is neither placed elsewhere nor moved on.
func TestBoundIsNeverMoved(t *testing.T) {
	b := newBox(t, 3, DefaultSettings())
	ticket, d := b.arrive(bound(1, 2))
	if b.c.Reroute(b.now, ticket, &d) || b.c.Requeue(b.now, ticket) {
		t.Errorf("it was moved to %d", d.Replica)
	}
	b.c.Done(b.now, ticket, failed())
	b.reps[2].Draining = true
	b.apply()
	if _, v := b.c.Arrive(b.now, bound(1, 2), &d); v != NoReplica {
		t.Errorf("verdict %d, want no replica", v)
	}
	if n := b.c.View(b.now).InFlight; n != 0 {
		t.Errorf("%d in flight", n)
	}
}
