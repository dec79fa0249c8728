package route

import "testing"

func TestReroute(t *testing.T) {
	tests := []struct {
		name   string
		before int // served turns before
		served bool
		class  Class // of the rerouted request
		next   Class // of the turn after it
	}{
		{"first turn, served elsewhere", 0, true, ClassPlaced, ClassSticky},
		{"first turn, failed everywhere", 0, false, ClassPlaced, ClassPlaced},
		{"later turn, served elsewhere", 1, true, ClassRehomed, ClassSticky},
		{"later turn, failed everywhere", 1, false, ClassRehomed, ClassRehomed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t, 2, DefaultSettings())
			for range tt.before {
				b.turn(turnOf(1))
			}
			tk, first := b.arrive(turnOf(1))
			var d Decision
			if !b.c.Reroute(b.now, tk, &d) {
				t.Fatal("the other replica was not offered")
			}
			if d.Replica == first.Replica || d.Class != tt.class {
				t.Fatalf("%v on %d after %d, want %v", d.Class, d.Replica, first.Replica, tt.class)
			}
			if b.c.Reroute(b.now, tk, &d) {
				t.Fatal("a third replica was offered of two")
			}
			if v := b.c.View(b.now); v.InFlight != 1 || v.Replicas[d.Replica].InFlight != 1 {
				t.Fatalf("in flight %+v, want 1 on replica %d", v.Replicas, d.Replica)
			}
			o := failed()
			if tt.served {
				o = served()
			}
			b.c.Done(b.now, tk, o)
			next := b.turn(turnOf(1))
			if next.Class != tt.next || tt.served && next.Replica != d.Replica {
				t.Errorf("next turn %v on %d", next.Class, next.Replica)
			}
			b.checkSums()
		})
	}
}

func TestRerouteRefuses(t *testing.T) {
	b := newBox(t, 2, DefaultSettings())
	pin := turnOf(1)
	pin.Rank = 0
	pinned, _ := b.arrive(pin)
	begun, _ := b.arrive(turnOf(2))
	b.c.FirstByte(b.now, begun)
	ended, _ := b.arrive(turnOf(3))
	b.c.Done(b.now, ended, served())
	for name, tk := range map[string]Ticket{"pinned": pinned, "begun": begun, "ended": ended, "zero": 0} {
		var d Decision
		if b.c.Reroute(b.now, tk, &d) {
			t.Errorf("a %s request was rerouted", name)
		}
	}
}

func TestEndedTicketIsDead(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	old, _ := b.arrive(turnOf(1))
	b.c.Done(b.now, old, served())
	b.arrive(turnOf(2)) // takes the slot
	b.c.Done(b.now, old, served())
	b.c.FirstByte(b.now, old)
	if v := b.c.View(b.now); v.InFlight != 1 {
		t.Fatalf("ending a ticket twice left %d in flight, want 1", v.InFlight)
	}
}
