package route

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// doorMachine drives admission with conversations of fixed sizes on replicas that
// neither come nor go, where the rules about budgets and turns are exact.
type doorMachine struct {
	c        *Core
	now      time.Time
	capacity int64
	sizes    []int // tokens, by conversation
	open     []Ticket
	flying   map[Ticket]bool
	running  map[Key]bool // conversations with a place and a turn in flight
	forced   bool         // somebody waited to the limit, so budgets may be exceeded
}

func newDoorMachine(t *rapid.T) *doorMachine {
	s := workingSet()
	s.MaxHold = rapid.SampledFrom([]time.Duration{time.Hour, 30 * time.Second}).Draw(t, "limit")
	m := &doorMachine{
		c: New(s, 1), now: start, capacity: 10_000,
		flying: map[Ticket]bool{}, running: map[Key]bool{}, forced: s.MaxHold < time.Hour,
	}
	for range rapid.IntRange(1, 12).Draw(t, "conversations") {
		m.sizes = append(m.sizes, rapid.SampledFrom([]int{500, 1000, 3000, 6000, 9900}).Draw(t, "size"))
	}
	reps := make([]Replica, rapid.IntRange(1, 3).Draw(t, "replicas"))
	for i := range reps {
		reps[i] = Replica{Incarnation: 1, Ready: true, Capacity: m.capacity, MaxNumSeqs: 32, MaxBatchedTokens: 800}
	}
	m.c.SetReplicas(m.now, reps)
	return m
}

// known returns the tokens of all conversations that the core remembers.
func (m *doorMachine) known(also int) int64 {
	sum, found := 0, false
	m.c.Conversations(m.now, func(v ConversationView) bool {
		n := int(v.Key[0])
		sum += m.sizes[n]
		found = found || n == also
		return true
	})
	if !found {
		sum += m.sizes[also]
	}
	return int64(sum)
}

func (m *doorMachine) Arrive(t *rapid.T) {
	n := rapid.IntRange(0, len(m.sizes)-1).Draw(t, "conversation")
	fits := m.known(n) <= m.capacity
	var d Decision
	tk, v := m.c.Arrive(m.now, sized(n, m.sizes[n]), &d)
	switch {
	case v == Held && fits:
		t.Fatal("held, though all conversations together fit one replica")
	case v == Held || v == Forward:
		m.open = append(m.open, tk)
		m.flying[tk] = v == Forward
	default:
		t.Fatalf("verdict %d", v)
	}
}

func (m *doorMachine) pick(t *rapid.T) int {
	if len(m.open) == 0 {
		t.Skip("nothing open")
	}
	return rapid.IntRange(0, len(m.open)-1).Draw(t, "ticket")
}

func (m *doorMachine) FirstByte(t *rapid.T) { m.c.FirstByte(m.now, m.open[m.pick(t)]) }

func (m *doorMachine) Done(t *rapid.T) {
	i := m.pick(t)
	tk := m.open[i]
	o := failed()
	if m.flying[tk] && rapid.IntRange(0, 4).Draw(t, "failed") > 0 {
		tokens := int(m.c.tickets.at(m.c.tickets.find(tk)).bytes / 4)
		o = Outcome{Served: true, Prompt: tokens, Cached: 0, Completion: 0}
	}
	m.c.Done(m.now, tk, o)
	m.open = append(m.open[:i], m.open[i+1:]...)
	delete(m.flying, tk)
}

func (m *doorMachine) Wait(t *rapid.T) {
	m.now = m.now.Add(rapid.SampledFrom([]time.Duration{
		100 * time.Millisecond, time.Second, 5 * time.Second, 25 * time.Second,
	}).Draw(t, "wait"))
	m.c.Tick(m.now)
}

func (m *doorMachine) Check(t *rapid.T) {
	for _, r := range m.c.Released() {
		if flying, ok := m.flying[r.Ticket]; !ok || flying {
			t.Fatal("something was released that does not wait")
		}
		m.flying[r.Ticket] = true
	}
	if !m.forced {
		for i := range m.c.replicas {
			if p := &m.c.replicas[i].places; p.total() > m.capacity && p.count > 1 {
				t.Fatalf("%d places on replica %d take %d of %d tokens", p.count, i, p.total(), m.capacity)
			}
		}
	}
	running := map[Key]bool{}
	m.c.Conversations(m.now, func(v ConversationView) bool {
		if m.running[v.Key] && v.InFlight > 0 && !v.Admitted {
			t.Fatalf("conversation %d lost its place in the middle of a turn", v.Key[0])
		}
		if v.Admitted && v.InFlight > 0 {
			running[v.Key] = true
		}
		return true
	})
	m.running = running
	checkInside(t, m.c)
}

func TestDoorProperties(t *testing.T) { rapid.Check(t, doorProperties) }

// FuzzDoor looks for a sequence of events that breaks a property of admission.
func FuzzDoor(f *testing.F) { f.Fuzz(rapid.MakeFuzz(doorProperties)) }

func doorProperties(t *rapid.T) {
	m := newDoorMachine(t)
	t.Repeat(rapid.StateMachineActions(m))
	for _, tk := range m.open {
		m.c.Done(m.now, tk, failed())
	}
	m.now = m.now.Add(5 * time.Hour)
	m.c.Tick(m.now)
	m.c.Released()
	if v := m.c.View(m.now); v.Held != 0 || v.InFlight != 0 {
		t.Fatalf("all clients are gone, but %d are held and %d in flight", v.Held, v.InFlight)
	}
	for i := range m.c.replicas {
		if n := m.c.replicas[i].places.count; n != 0 {
			t.Fatalf("all clients are gone, but replica %d has %d places taken", i, n)
		}
	}
}

// TestOrderProperty lets conversations of equal size come once each: whatever ends
// when, they are let in as they came.
func TestOrderProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := workingSet()
		s.MaxHold = 100 * time.Hour
		c, now := New(s, 1), start
		reps := make([]Replica, rapid.IntRange(1, 3).Draw(t, "replicas"))
		for i := range reps {
			reps[i] = Replica{Incarnation: 1, Ready: true, Capacity: 10_000}
		}
		c.SetReplicas(now, reps)
		var flying []Ticket
		came := map[Ticket]int{}
		next, last := 0, -1
		forward := func(tk Ticket) {
			if came[tk] <= last {
				t.Fatalf("number %d was let in after number %d", came[tk], last)
			}
			last = came[tk]
			flying = append(flying, tk)
		}
		for range rapid.IntRange(1, 80).Draw(t, "events") {
			switch rapid.IntRange(0, 2).Draw(t, "event") {
			case 0:
				var d Decision
				tk, v := c.Arrive(now, sized(next, 4000), &d)
				came[tk] = next
				next++
				if v == Forward {
					forward(tk)
				}
			case 1:
				if len(flying) > 0 {
					i := rapid.IntRange(0, len(flying)-1).Draw(t, "ends")
					c.Done(now, flying[i], Outcome{Served: true, Prompt: 4000, Cached: 0, Completion: 0})
					flying = append(flying[:i], flying[i+1:]...)
				}
			case 2:
				now = now.Add(rapid.SampledFrom([]time.Duration{100 * time.Millisecond, 2 * time.Second, 20 * time.Second}).Draw(t, "wait"))
				c.Tick(now)
			}
			for _, r := range c.Released() {
				forward(r.Ticket)
			}
		}
	})
}
