package route

import (
	"testing"
	"time"
)

// patient is a turn that waits for a replica when there is none.
func patient(r *Request) *Request {
	r.Patient = true
	return r
}

// ready tells the core whether replica i takes requests.
func (b *box) ready(i int, ready, newLife bool) {
	b.reps[i].Ready = ready
	if newLife {
		b.reps[i].Incarnation++
	}
	b.apply()
}

// While the only replica restarts requests of every kind wait, and go in order when it is
// back; each has the class that it would have had.
func TestWaitForTheOnlyReplica(t *testing.T) {
	for _, admission := range []Admission{AdmissionNone, AdmissionWorkingSet} {
		s := DefaultSettings()
		s.Admission = admission
		b := newBox(t, 1, s)
		b.capacity(50_000)
		b.turn(turnOf(1))
		b.ready(0, false, false)
		var d Decision
		if _, v := b.c.Arrive(b.now, turnOf(1), &d); v != NoReplica {
			t.Fatalf("verdict %d for one that does not wait, want NoReplica", v)
		}
		pinned := patient(turnOf(2))
		pinned.Rank = 0
		if _, v := b.c.Arrive(b.now, pinned, &d); v != NoReplica {
			t.Fatalf("verdict %d for one that names its replica, want NoReplica", v)
		}
		side := patient(turnOf(1))
		side.Kind = KindSide
		unkeyed := &Request{Rank: -1, ChainFirst: -1, Patient: true}
		want := map[Ticket]Class{
			b.hold(patient(turnOf(1))): ClassRehomed,
			b.hold(patient(turnOf(2))): ClassPlaced,
			b.hold(side):               ClassSide,
			b.hold(unkeyed):            ClassUnkeyed,
		}
		b.wait(30 * time.Second)
		v := b.c.View(b.now)
		if v.Held != 4 || v.InFlight != 0 || len(v.Queue) != 4 || v.Queue[0].Reason != "waits for a replica" {
			t.Fatalf("held %d, in flight %d, queue %+v", v.Held, v.InFlight, v.Queue)
		}
		b.ready(0, true, true)
		got := b.released()
		for tk, class := range want {
			if d, ok := got[tk]; !ok || d.Class != class || d.Wait != 30*time.Second {
				t.Errorf("admission %d: %v after %v, want %v", admission, d.Class, d.Wait, class)
			}
			b.c.Done(b.now, tk, served())
		}
		b.checkSums()
		checkInside(t, b.c)
	}
}

// The cause of the miss of a turn that waited for a restart is the restart.
func TestMissAfterARestartThatWasWaitedFor(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	b.measured(turnOf(1), 1000, 0, 100)
	b.ready(0, false, false)
	tk := b.hold(patient(turnOf(1)))
	b.ready(0, true, true)
	if d := b.released()[tk]; d.MissExpected != MissReplicaRestarted {
		t.Errorf("expected %v", d.MissExpected)
	}
	if m := b.c.Done(b.now, tk, Outcome{Served: true, Prompt: 1200, Cached: 0, Completion: 10}); m != MissReplicaRestarted {
		t.Errorf("the miss is %v, want replica_restarted", m)
	}
}

// A request that its only replica failed goes on when that one has begun a new life, when
// it was away, or when another one comes; never to the life that failed it, before the
// longest hold is over.
func TestStrand(t *testing.T) {
	for name, c := range map[string]struct {
		then    func(b *box)
		replica int // that takes it; none when it still waits
	}{
		"nothing":       {func(b *box) { b.wait(time.Second) }, none},
		"told again":    {func(b *box) { b.apply() }, none},
		"a new life":    {func(b *box) { b.ready(0, true, true) }, 0},
		"away and back": {func(b *box) { b.ready(0, false, false); b.ready(0, true, false) }, 0},
		"another one":   {func(b *box) { b.ready(1, true, false) }, 1},
		"long waited":   {func(b *box) { b.wait(5 * time.Minute) }, 0},
		"away for long": {func(b *box) { b.ready(0, false, false); b.wait(5 * time.Minute) }, none},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, 2, DefaultSettings())
			b.reps[1].Ready = false
			b.apply()
			b.turn(turnOf(1))
			tk, _ := b.arrive(turnOf(1))
			var d Decision
			if b.c.Requeue(b.now, tk) || b.c.Reroute(b.now, tk, &d) {
				t.Fatal("a replica was found where there is none")
			}
			if !b.c.Strand(b.now, tk) {
				t.Fatal("it cannot wait")
			}
			if v := b.c.View(b.now); v.Held != 1 || v.InFlight != 0 {
				t.Fatalf("held %d, in flight %d", v.Held, v.InFlight)
			}
			c.then(b)
			d, went := b.released()[tk]
			if went != (c.replica != none) || went && d.Replica != c.replica {
				t.Errorf("went %t to %d, want %d", went, d.Replica, c.replica)
			}
			b.c.Done(b.now, tk, failed())
			b.checkSums()
			checkInside(t, b.c)
		})
	}
}

func TestStrandRefuses(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	pin := turnOf(1)
	pin.Rank = 0
	pinned, _ := b.arrive(pin)
	begun, _ := b.arrive(turnOf(2))
	b.c.FirstByte(b.now, begun)
	for name, tk := range map[string]Ticket{"pinned": pinned, "begun": begun, "zero": 0} {
		if b.c.Strand(b.now, tk) {
			t.Errorf("a %s request was made to wait", name)
		}
	}
}

// Those that wait for a replica are bounded like those that wait for room, and leave
// nothing behind when they go.
func TestWaitForAReplicaIsBounded(t *testing.T) {
	s := DefaultSettings()
	s.MaxQueue = 2
	b := newBox(t, 1, s)
	b.ready(0, false, false)
	first := b.hold(patient(turnOf(1)))
	b.hold(patient(turnOf(2)))
	var d Decision
	if _, v := b.c.Arrive(b.now, patient(turnOf(3)), &d); v != RefusedFull {
		t.Fatalf("verdict %d, want RefusedFull", v)
	}
	b.c.Done(b.now, first, failed())
	third := b.hold(patient(turnOf(3)))
	if v := b.c.View(b.now); v.Held != 2 || v.Conversations != 2 {
		t.Errorf("held %d, conversations %d", v.Held, v.Conversations)
	}
	b.ready(0, true, true)
	if got := b.released(); len(got) != 2 || got[third].Replica != 0 {
		t.Errorf("released %v", got)
	}
}
