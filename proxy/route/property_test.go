package route

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// machine drives a core with random events beside a plain model of what must hold.
type machine struct {
	c    *Core
	now  time.Time
	reps []Replica
	set  Settings

	trials    uint32
	open      []openTicket
	forwarded uint64
	classes   [NumClasses]uint64
}

type openTicket struct {
	t         Ticket
	key       Key // of a request that belongs to a conversation
	d         Decision
	firstByte bool
	held      bool
	asked     Key  // key of the request, or zero
	forgotten bool // its conversation was forgotten while it waited
	arrived   time.Time
}

func newMachine(t *rapid.T) *machine {
	m := &machine{now: start, set: DefaultSettings()}
	if rapid.Bool().Draw(t, "working set") {
		m.set.Admission = AdmissionWorkingSet
	}
	m.set.MaxConversations = rapid.IntRange(1, 12).Draw(t, "bound")
	m.c = New(m.set, rapid.Uint64().Draw(t, "seed"))
	drawRhythm(t, m.c)
	m.drawReplicas(t)
	return m
}

// drawRhythm teaches a core how its clients come back, as a sequence of events is too
// short to do: not at all, quickly, or so slowly that places last one turn and those who
// come back wait for their homes.
func drawRhythm(t *rapid.T, c *Core) {
	gap := rapid.SampledFrom([]time.Duration{0, 400 * time.Millisecond, 30 * time.Second}).Draw(t, "gap")
	for n := range int64(rhythmGaps) {
		if gap > 0 {
			c.learned.rhythm.gap(0, int64(gap)+n, false)
		}
	}
}

func (m *machine) drawReplicas(t *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(t, "replicas")
	old := m.reps
	m.reps = nil
	for i := range n {
		r := Replica{Incarnation: 1, Capacity: rapid.SampledFrom([]int64{0, 3000, 50_000}).Draw(t, "capacity")}
		if i < len(old) {
			r.Incarnation = old[i].Incarnation
		}
		if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
			r.Incarnation++
		}
		r.Ready = rapid.IntRange(0, 4).Draw(t, "ready") > 0
		r.Draining = rapid.IntRange(0, 4).Draw(t, "draining") == 0
		r.MaxModelLen = rapid.SampledFrom([]int64{0, 0, 2000}).Draw(t, "longest")
		r.MaxBatchedTokens = rapid.SampledFrom([]int{0, 100}).Draw(t, "batched")
		r.MaxNumSeqs = rapid.SampledFrom([]int{0, 4, 32}).Draw(t, "seqs")
		m.reps = append(m.reps, r)
	}
	m.c.SetReplicas(m.now, m.reps)
}

func drawRequest(t *rapid.T) *Request {
	r := &Request{
		Rank: rapid.IntRange(-1, 4).Draw(t, "rank"), ChainFirst: -1,
		PromptBytes: rapid.IntRange(0, 20_000).Draw(t, "bytes"),
		SharedHash:  rapid.Uint64Range(0, 2).Draw(t, "shared"),
		Kind:        rapid.SampledFrom([]Kind{KindMain, KindMain, KindAgent, KindSide}).Draw(t, "kind"),
		Patient:     rapid.Bool().Draw(t, "patient"),
	}
	if rapid.IntRange(0, 3).Draw(t, "named") == 0 {
		r.Rank = -1 // most requests name no replica, or a wrong one
	}
	if k := rapid.IntRange(0, 20).Draw(t, "key"); k > 0 {
		r.Key = keyOf(k)
	}
	if g := rapid.IntRange(0, 3).Draw(t, "group"); g > 0 {
		r.Group = keyOf(1000 + g)
	}
	if n := rapid.IntRange(0, 5).Draw(t, "chain"); n > 0 {
		h := rapid.Uint64Range(1, 4).Draw(t, "root")
		for k := range n {
			r.Chain = append(r.Chain, h)
			h = h*31 + uint64(k%2) + 1
		}
		r.ChainFirst = min(1, n-1)
	}
	return r
}

func (m *machine) Arrive(t *rapid.T) {
	r := drawRequest(t)
	var d Decision
	tk, v := m.c.Arrive(m.now, r, &d)
	usable := 0
	for _, rep := range m.reps {
		if rep.Ready && !rep.Draining {
			usable++
		}
	}
	switch v {
	case NoReplica:
		named := r.Rank >= 0 && r.Rank < len(m.reps)
		if (usable > 0 || r.Patient) && !named {
			t.Fatalf("refused with %d replicas usable, patient %t", usable, r.Patient)
		}
	case Forward:
		m.open = append(m.open, openTicket{t: tk, held: true, asked: r.Key, arrived: m.now})
		m.forward(t, tk, &d)
	case Held, RefusedFull:
		waits := usable == 0 && r.Patient
		if !waits && (m.set.Admission == AdmissionNone || !m.set.Affinity) {
			t.Fatalf("verdict %d without admission, with %d replicas usable", v, usable)
		}
		if v == Held {
			m.open = append(m.open, openTicket{t: tk, held: true, asked: r.Key, arrived: m.now})
		}
	}
	m.takeReleased(t)
}

// forward records that a request went out.
func (m *machine) forward(t *rapid.T, tk Ticket, d *Decision) {
	m.checkDecision(t, d)
	checkReach(t, m.c, tk, d)
	for i := range m.open {
		o := &m.open[i]
		if o.t != tk {
			continue
		}
		if !o.held {
			t.Fatalf("a request was released twice (%s)", d.Reason())
		}
		o.held, o.d = false, *d
		if !o.forgotten {
			o.key = d.Conversation
		}
		m.forwarded++
		m.classes[d.Class]++
		return
	}
	t.Fatalf("a request was released that nobody waits for (%s)", d.Reason())
}

func (m *machine) takeReleased(t *rapid.T) {
	for _, r := range m.c.Released() {
		m.forward(t, r.Ticket, &r.Decision)
	}
}

func (m *machine) Requeue(t *rapid.T) {
	i := m.pick(t)
	o := &m.open[i]
	if !m.c.Requeue(m.now, o.t) {
		return
	}
	if o.held || o.firstByte {
		t.Fatal("a request that waits, or whose answer had begun, went back to the door")
	}
	m.forwarded--
	m.classes[o.d.Class]--
	o.held, o.key = true, Key{}
	m.takeReleased(t)
}

func (m *machine) Strand(t *rapid.T) {
	i := m.pick(t)
	o := &m.open[i]
	if !m.c.Strand(m.now, o.t) {
		return
	}
	if o.held || o.firstByte {
		t.Fatal("a request that waits, or whose answer had begun, was made to wait for a replica")
	}
	m.forwarded--
	m.classes[o.d.Class]--
	o.held, o.key = true, Key{}
	m.takeReleased(t)
}

// checkDecision fails when new work goes where none may go.
func (m *machine) checkDecision(t *rapid.T, d *Decision) {
	if d.Replica < 0 || d.Replica >= len(m.reps) {
		t.Fatalf("replica %d of %d", d.Replica, len(m.reps))
	}
	if r := m.reps[d.Replica]; !r.Ready || r.Draining {
		t.Fatalf("%s: replica %d is not ready or draining", d.Reason(), d.Replica)
	}
	if d.Class == ClassNone || d.Class >= NumClasses {
		t.Fatalf("class %v", d.Class)
	}
}

func (m *machine) pick(t *rapid.T) int {
	if len(m.open) == 0 {
		t.Skip("nothing open")
	}
	return rapid.IntRange(0, len(m.open)-1).Draw(t, "ticket")
}

func (m *machine) FirstByte(t *rapid.T) {
	i := m.pick(t)
	m.c.FirstByte(m.now, m.open[i].t)
	m.open[i].firstByte = !m.open[i].held
	m.takeReleased(t)
}

func (m *machine) Reroute(t *rapid.T) {
	i := m.pick(t)
	var d Decision
	if !m.c.Reroute(m.now, m.open[i].t, &d) {
		return
	}
	m.checkDecision(t, &d)
	checkReach(t, m.c, m.open[i].t, &d)
	if m.open[i].firstByte {
		t.Fatal("a request whose answer had begun was rerouted")
	}
	m.classes[m.open[i].d.Class]--
	m.classes[d.Class]++
	m.open[i].d = d
}

func (m *machine) Done(t *rapid.T) {
	i := m.pick(t)
	o := Outcome{Prompt: -1, Cached: -1, Completion: -1, Served: rapid.Bool().Draw(t, "served")}
	if o.Served && rapid.Bool().Draw(t, "measured") {
		o.Prompt = rapid.IntRange(0, 10_000).Draw(t, "prompt")
		o.Cached = rapid.IntRange(0, o.Prompt).Draw(t, "cached")
		o.Completion = rapid.IntRange(0, 500).Draw(t, "completion")
		o.ChainNext = rapid.Uint64Range(0, 5).Draw(t, "next")
	}
	tk := m.open[i].t
	m.c.Done(m.now, tk, o)
	m.c.Done(m.now, tk, o) // twice is once
	m.open = append(m.open[:i], m.open[i+1:]...)
	m.takeReleased(t)
}

func (m *machine) Replicas(t *rapid.T) {
	m.drawReplicas(t)
	m.takeReleased(t)
}

func (m *machine) Settings(t *rapid.T) {
	m.set.Affinity = rapid.IntRange(0, 3).Draw(t, "affinity") > 0
	m.set.ClientPinning = rapid.Bool().Draw(t, "pinning")
	m.set.SpillThreshold = rapid.IntRange(0, 3).Draw(t, "threshold")
	m.set.Spill = rapid.SampledFrom([]SpillRule{SpillCount, SpillPriced}).Draw(t, "spill")
	m.set.Policy = rapid.SampledFrom([]Policy{PolicyLeastLoaded, PolicyHash, PolicyRoundRobin, PolicyRandom}).Draw(t, "policy")
	m.set.MaxConversations = rapid.IntRange(1, 12).Draw(t, "bound")
	m.set.Admission = rapid.SampledFrom([]Admission{AdmissionNone, AdmissionWorkingSet, AdmissionWorkingSet}).Draw(t, "admission")
	m.set.MaxQueue = rapid.IntRange(1, 8).Draw(t, "queue")
	m.c.SetSettings(m.now, m.set)
	m.takeReleased(t)
}

func (m *machine) Wait(t *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{-time.Second, time.Second, time.Minute, 6 * time.Minute, 5 * time.Hour}).Draw(t, "wait")
	m.now = m.now.Add(d)
	m.c.Tick(m.now)
	m.takeReleased(t)
	usable := false
	for _, r := range m.reps {
		usable = usable || r.Ready && !r.Draining
	}
	for _, o := range m.open {
		if waited := m.c.at - int64(o.arrived.Sub(m.c.epoch)); o.held && usable && waited > int64(m.set.MaxHold) {
			t.Fatalf("a request waits for %v, the limit is %v", time.Duration(waited), m.set.MaxHold)
		}
	}
}

func (m *machine) Move(t *rapid.T) {
	m.c.Move(m.now, keyOf(rapid.IntRange(1, 20).Draw(t, "key")), rapid.IntRange(-1, 4).Draw(t, "to"))
}

func (m *machine) Forget(t *rapid.T) {
	k := keyOf(rapid.IntRange(1, 20).Draw(t, "key"))
	m.c.Forget(k)
	for i := range m.open {
		if o := &m.open[i]; o.asked == k {
			o.key, o.forgotten = Key{}, true
		}
	}
}

func (m *machine) Check(t *rapid.T) {
	v := m.c.View(m.now)
	if v.Counts != m.classes {
		t.Fatalf("classes %v, want %v", v.Counts, m.classes)
	}
	var sum uint64
	for _, n := range v.Counts {
		sum += n
	}
	if sum != m.forwarded {
		t.Fatalf("classes add up to %d of %d forwarded", sum, m.forwarded)
	}
	perReplica := make([]int, len(m.c.replicas))
	held := 0
	for _, o := range m.open {
		if o.held {
			held++
		} else {
			perReplica[o.d.Replica]++
		}
	}
	if v.InFlight != len(m.open)-held || v.Held != held {
		t.Fatalf("%d in flight and %d held, want %d and %d", v.InFlight, v.Held, len(m.open)-held, held)
	}
	for i := range m.c.replicas {
		if n := m.c.replicas[i].inFlight; n != perReplica[i] {
			t.Fatalf("replica %d has %d in flight, want %d", i, n, perReplica[i])
		}
	}
	known := map[Key]bool{}
	var list []ConversationView
	m.c.Conversations(m.now, func(cv ConversationView) bool {
		known[cv.Key], list = true, append(list, cv)
		return true
	})
	checkWorking(t, m.c, &v, list)
	for _, o := range m.open {
		if o.key != (Key{}) && o.d.Class != ClassSide && !known[o.key] {
			t.Fatalf("the conversation of a request in flight is gone (%s)", o.d.Reason())
		}
	}
	checkInside(t, m.c)
}

func TestCoreProperties(t *testing.T) { rapid.Check(t, coreProperties) }

// FuzzCore looks for a sequence of events that breaks a property.
func FuzzCore(f *testing.F) { f.Fuzz(rapid.MakeFuzz(coreProperties)) }

func coreProperties(t *rapid.T) {
	m := newMachine(t)
	t.Repeat(rapid.StateMachineActions(m))
	for _, o := range m.open {
		m.c.Done(m.now, o.t, failed())
	}
	if v := m.c.View(m.now); v.InFlight != 0 || v.Held != 0 || m.c.table.lists[listBusy].count != 0 || m.c.tickets.count != 0 {
		t.Fatalf("all ended, but %d in flight, %d busy, %d tickets", v.InFlight, m.c.table.lists[listBusy].count, m.c.tickets.count)
	}
	m.now = m.now.Add(5 * time.Hour)
	m.c.Tick(m.now)
	for i := range m.c.replicas {
		if n := m.c.replicas[i].places.count; n != 0 {
			t.Fatalf("all clients are gone for long, but replica %d has %d places taken", i, n)
		}
		if m.c.replicas[i].prefill != 0 {
			t.Fatalf("all ended, but replica %d waits for %d tokens", i, m.c.replicas[i].prefill)
		}
	}
	checkInside(t, m.c)
}
