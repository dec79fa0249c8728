package route

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// doorMachine drives admission with conversations of known sizes, where the rules about
// budgets and turns are exact, and with growth, shared prompts, and replicas that come, go
// and fail where that is drawn.
type doorMachine struct {
	c        *Core
	now      time.Time
	capacity int64 // of the smallest replica
	reps     []Replica
	sizes    []int // tokens, by conversation
	grows    int   // tokens from turn to turn
	shared   int   // tokens that conversations of odd numbers share, or 0
	fill     int64 // longest time that filling a cache has taken
	open     []Ticket
	flying   map[Ticket]bool
	running  map[Key]bool // conversations with a place and a turn in flight
	forced   bool         // budgets may be exceeded: somebody waited to the limit, has grown or was moved
}

func newDoorMachine(t *rapid.T) *doorMachine {
	s := workingSet()
	s.MaxHold = rapid.SampledFrom([]time.Duration{time.Hour, 30 * time.Second}).Draw(t, "limit")
	m := &doorMachine{
		c: New(s, 1), now: start, capacity: 10_000,
		flying: map[Ticket]bool{}, running: map[Key]bool{}, forced: s.MaxHold < time.Hour,
		grows:  rapid.SampledFrom([]int{0, 0, 300}).Draw(t, "growth"),
		shared: rapid.SampledFrom([]int{0, 400}).Draw(t, "shared"),
	}
	m.forced = m.forced || m.grows > 0
	drawRhythm(t, m.c)
	for range rapid.IntRange(1, 12).Draw(t, "conversations") {
		m.sizes = append(m.sizes, rapid.SampledFrom([]int{500, 1000, 3000, 6000, 9900}).Draw(t, "size"))
	}
	least := rapid.SampledFrom([]int64{10_000, 10_000, 4_000}).Draw(t, "least")
	for i := range rapid.IntRange(1, 3).Draw(t, "replicas") {
		r := Replica{Incarnation: 1, Ready: true, Capacity: 10_000, MaxNumSeqs: 32, MaxBatchedTokens: 800}
		if i > 0 {
			r.Capacity, m.capacity = least, least
		}
		m.reps = append(m.reps, r)
	}
	m.c.SetReplicas(m.now, m.reps)
	return m
}

// known returns the tokens that all conversations take at most that the core remembers,
// with the room for growth that their places may need.
func (m *doorMachine) known(also int) int64 {
	sum, count, found := 0, 0, false
	m.c.Conversations(m.now, func(v ConversationView) bool {
		n := int(v.Key[0])
		sum += m.sizes[n]
		count++
		found = found || n == also
		return true
	})
	if !found {
		sum += m.sizes[also]
		count++
	}
	growth := m.c.learned.growth.value // of several turns, where they overlap
	return int64(sum + int(growthKept*growth+1)*(count+1))
}

// Turn is one from arrival to a served end, if nothing holds it, and a pause after it.
func (m *doorMachine) Turn(t *rapid.T) {
	before := len(m.open)
	m.Arrive(t)
	if tk := m.open[before]; m.flying[tk] {
		m.c.FirstByte(m.now, tk)
		m.serve(before)
	}
	m.now = m.now.Add(100 * time.Millisecond)
}

func (m *doorMachine) Arrive(t *rapid.T) {
	n := rapid.IntRange(0, len(m.sizes)-1).Draw(t, "conversation")
	fits := m.known(n) <= m.capacity
	r := sized(n, m.sizes[n])
	if m.shared > 0 && n%2 == 1 {
		r.SharedHash = 7
	}
	var d Decision
	tk, v := m.c.Arrive(m.now, r, &d)
	m.fill = max(m.fill, m.c.door.fill) // a turn that ends at once may change it before the next check
	switch {
	case v == Held && fits:
		t.Fatal("held, though all conversations together fit one replica")
	case v == Held || v == Forward:
		m.open = append(m.open, tk)
		m.flying[tk] = v == Forward
		if v == Forward {
			checkReach(t, m.c, tk, &d)
		}
		if inside := m.c.table.at(m.c.tickets.at(m.c.tickets.find(tk)).conv); v == Forward && d.Class == ClassSticky && inside.admitted {
			home := &m.c.replicas[inside.home]
			if over := home.places.total() - home.Capacity - int64(m.c.learned.growth.value); over > 0 && home.idle.first != none && home.idle.first != home.idle.last {
				t.Fatalf("after a turn that has grown the places on replica %d are %d tokens over, and several there are idle", inside.home, over)
			}
		}
	default:
		t.Fatalf("verdict %d", v)
	}
}

// Replicas restarts, drains and revives replicas, and takes the last one away or gives one
// more; one is always usable.
func (m *doorMachine) Replicas(t *rapid.T) {
	i := rapid.IntRange(0, len(m.reps)-1).Draw(t, "replica")
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		m.reps[i].Incarnation++
	case 1:
		m.reps[i].Draining = !m.reps[i].Draining
	case 2:
		m.reps[i].Avoid = !m.reps[i].Avoid
	case 3:
		if len(m.reps) > 1 && rapid.Bool().Draw(t, "fewer") {
			m.reps = m.reps[:len(m.reps)-1]
		} else if len(m.reps) < 4 {
			m.reps = append(m.reps, Replica{Incarnation: 1, Ready: true, Capacity: m.capacity, MaxNumSeqs: 32, MaxBatchedTokens: 800})
		}
	}
	if !slices.ContainsFunc(m.reps, func(r Replica) bool { return !r.Draining }) {
		m.reps[0].Draining = false
	}
	m.c.SetReplicas(m.now, m.reps)
	clear(m.running) // the places on a replica end with it
}

func (m *doorMachine) Move(t *rapid.T) {
	n := rapid.IntRange(0, len(m.sizes)-1).Draw(t, "conversation")
	to := rapid.IntRange(0, len(m.reps)-1).Draw(t, "to")
	if m.c.Move(m.now, keyOf(n), to) {
		m.forced = true // over the budget where all others are in the middle of a turn
		delete(m.running, keyOf(n))
	}
}

// Requeue sends a request without a first byte back to the door.
func (m *doorMachine) Requeue(t *rapid.T) {
	tk := m.open[m.pick(t)]
	if !m.c.Requeue(m.now, tk) {
		return
	}
	if !m.flying[tk] {
		t.Fatal("a request that waits went back to the door")
	}
	m.flying[tk] = false
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
	if m.flying[tk] && rapid.IntRange(0, 4).Draw(t, "failed") > 0 {
		m.serve(i)
		return
	}
	m.c.Done(m.now, tk, failed())
	m.close(i)
}

// serve ends the turn of a ticket that flies.
func (m *doorMachine) serve(i int) {
	tk := m.open[i]
	tokens := int(m.c.tickets.at(m.c.tickets.find(tk)).bytes / 4)
	if n := m.number(tk); m.sizes[n]+m.grows <= 9900 {
		m.sizes[n] += m.grows
	}
	m.c.Done(m.now, tk, Outcome{Served: true, Prompt: tokens, Cached: m.shared, Completion: 0})
	m.close(i)
}

func (m *doorMachine) close(i int) {
	tk := m.open[i]
	m.open = append(m.open[:i], m.open[i+1:]...)
	delete(m.flying, tk)
}

// number returns the conversation of a ticket.
func (m *doorMachine) number(tk Ticket) int {
	return int(m.c.table.at(m.c.tickets.at(m.c.tickets.find(tk)).conv).key[0])
}

func (m *doorMachine) Wait(t *rapid.T) {
	m.now = m.now.Add(rapid.SampledFrom([]time.Duration{
		100 * time.Millisecond, time.Second, 5 * time.Second, 25 * time.Second,
	}).Draw(t, "wait"))
	m.c.Tick(m.now)
	for was := m.c.door.waiting + 1; m.c.door.waiting < was; { // one that goes may leave a place elsewhere
		was = m.c.door.waiting
		m.c.Tick(m.now)
	}
	m.checkQueue(t)
}

// checkQueue fails when one waits in the queue although a replica has room for it, before
// anybody has waited for so long that he is not to be passed: unless it waits for its home,
// for no longer than filling a cache takes.
func (m *doorMachine) checkQueue(t *rapid.T) {
	m.fill = max(m.fill, m.c.door.fill)
	for _, ti := range m.c.door.queue {
		tk := m.c.tickets.at(ti)
		if tk.awaits != none && (m.c.at >= tk.patience || tk.patience > tk.arrived+m.fill || m.c.door.keep > 0) {
			t.Fatalf("a request waits for its home for %v, until %v after it came", time.Duration(m.c.at-tk.arrived), time.Duration(tk.patience-tk.arrived))
		}
		for i := range m.c.replicas[:m.c.present] {
			if tk.awaits == none && m.c.eligible(tk, i) && m.c.takes(tk, i) && !m.c.table.at(tk.conv).admitted {
				t.Fatalf("a request waits although replica %d has room for it", i)
			}
		}
		if m.c.at-tk.arrived > m.c.door.fill && len(tk.tried) == 0 {
			return // nobody passes this one
		}
	}
}

func (m *doorMachine) Check(t *rapid.T) {
	for _, r := range m.c.Released() {
		if flying, ok := m.flying[r.Ticket]; !ok || flying {
			t.Fatal("something was released that does not wait")
		}
		m.flying[r.Ticket] = true
		checkReach(t, m.c, r.Ticket, &r.Decision)
	}
	if !m.forced {
		for i := range m.c.replicas {
			if p := &m.c.replicas[i].places; p.total() > m.c.replicas[i].Capacity && p.count > 1 {
				t.Fatalf("%d places on replica %d take %d of %d tokens", p.count, i, p.total(), m.c.replicas[i].Capacity)
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
