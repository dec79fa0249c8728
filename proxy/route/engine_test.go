package route

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// load is a closed loop of sessions against replicas that behave like engines as far
// as caches matter: prompts are read one after the other at a fixed speed, only what
// is not cached; answers take a fixed time; a cache holds the contexts used last.
type load struct {
	sessions, turns int
	shared, own     int // tokens of the first prompt
	grow, answer    int // tokens that a turn adds
	think           func(*rand.Rand) time.Duration
	capacity        int64
	speed           float64       // tokens a second
	decode          time.Duration // of a whole answer
	replicas        int
	length          time.Duration
}

// result sums up a run after its first quarter.
type result struct {
	turns, prompt, cached int
	firsts, laters        []time.Duration // to the first byte
	longest               time.Duration   // longest wait at the door
	held                  int
}

func (r *result) hits() float64 { return float64(r.cached) / float64(r.prompt) }

func median(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	s := slices.Clone(ds)
	slices.Sort(s)
	return s[len(s)/2]
}

// agent is one slot of the load: it runs one session after the other.
type agent struct {
	id, turn, context int
	sent              time.Time
	ticket            Ticket
	cached            int
	on                int
	ends              time.Time // end of its answer as far as known
}

// kv is the cache of one replica: conversations in order of use, the last at the end.
type kv struct {
	ids     []int
	tokens  map[int]int
	answers []*agent
	running []int // being read or answered; their contexts cannot go
	line    []*agent
	reading bool
	used    bool
}

// held returns the tokens of all running contexts without the shared prompt.
func (k *kv) held(shared int) int {
	sum := 0
	for _, id := range k.running {
		sum += k.tokens[id] - shared
	}
	return sum
}

type event struct {
	at time.Time
	do func()
}

type agenda []event

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	old := *a
	e := old[len(old)-1]
	*a = old[:len(old)-1]
	return e
}

// run drives a core through the load in virtual time.
type run struct {
	load
	c       *Core
	rng     *rand.Rand
	now     time.Time
	agenda  agenda
	caches  []kv
	waiting map[Ticket]*agent
	next    int
	out     result
	check   func(c *Core)
}

func (l load) run(s Settings, check func(c *Core)) result {
	r := &run{load: l, c: New(s, 1), rng: rand.New(rand.NewPCG(1, 2)), now: start, waiting: map[Ticket]*agent{}, check: check}
	reps := make([]Replica, l.replicas)
	for i := range reps {
		reps[i] = Replica{Incarnation: 1, Ready: true, Capacity: l.capacity, MaxNumSeqs: 32}
		r.caches = append(r.caches, kv{tokens: map[int]int{}})
	}
	r.c.SetReplicas(r.now, reps)
	for range l.sessions {
		a := &agent{}
		r.at(time.Duration(r.rng.Int64N(int64(5*time.Second))), func() { r.begin(a) })
	}
	r.at(0, r.tick)
	end := start.Add(l.length)
	for len(r.agenda) > 0 && r.now.Before(end) {
		e := heap.Pop(&r.agenda).(event)
		r.now = e.at
		e.do()
		for _, rel := range r.c.Released() {
			a := r.waiting[rel.Ticket]
			delete(r.waiting, rel.Ticket)
			r.forward(a, &rel.Decision)
		}
		if r.check != nil {
			r.check(r.c)
		}
	}
	return r.out
}

func (r *run) at(in time.Duration, do func()) {
	heap.Push(&r.agenda, event{r.now.Add(in), do})
}

func (r *run) tick() {
	r.c.Tick(r.now)
	r.at(100*time.Millisecond, r.tick)
}

func (r *run) begin(a *agent) {
	r.next++
	*a = agent{id: r.next, turn: 1, context: r.shared + r.own}
	r.send(a)
}

func (r *run) send(a *agent) {
	a.sent = r.now
	q := &Request{Key: keyOf(a.id), Rank: -1, PromptBytes: 4 * a.context, SharedHash: 7, ChainFirst: -1}
	var d Decision
	t, v := r.c.Arrive(r.now, q, &d)
	a.ticket = t
	if v == Held {
		r.out.held++
		r.waiting[t] = a
		return
	}
	r.forward(a, &d)
}

// forward puts the prompt behind those that came to the replica before it.
func (r *run) forward(a *agent, d *Decision) {
	r.out.longest = max(r.out.longest, d.Wait)
	a.on = d.Replica
	k := &r.caches[a.on]
	k.line = append(k.line, a)
	r.read(k)
}

// read begins with the next prompt if the replica is free and can hold it beside all
// that it is answering.
func (r *run) read(k *kv) {
	if k.reading || len(k.line) == 0 {
		return
	}
	a := k.line[0]
	if len(k.running) > 0 && r.shared+k.held(r.shared)+a.context-r.shared > int(r.capacity) {
		return
	}
	k.line = k.line[1:]
	k.reading = true
	a.cached = min(a.context, k.tokens[a.id])
	if k.used {
		a.cached = max(a.cached, r.shared)
	}
	k.running = append(k.running, a.id)
	k.use(a.id, a.context, r.shared, r.capacity)
	took := time.Duration(float64(a.context-a.cached) / r.speed * 1e9)
	for _, b := range k.answers { // a step of reading takes as long as many of answering
		b.ends = b.ends.Add(took)
	}
	r.at(took, func() { r.first(a) })
}

func (r *run) first(a *agent) {
	r.c.FirstByte(r.now, a.ticket)
	k := &r.caches[a.on]
	k.reading = false
	if r.now.Sub(start) > r.length/4 {
		wait := r.now.Sub(a.sent)
		if a.turn == 1 {
			r.out.firsts = append(r.out.firsts, wait)
		} else {
			r.out.laters = append(r.out.laters, wait)
		}
		r.out.turns++
		r.out.prompt += a.context
		r.out.cached += a.cached
	}
	a.ends = r.now.Add(r.decode)
	k.answers = append(k.answers, a)
	r.read(k)
	r.at(r.decode, func() { r.done(a) })
}

func (r *run) done(a *agent) {
	if r.now.Before(a.ends) {
		r.at(a.ends.Sub(r.now), func() { r.done(a) })
		return
	}
	r.c.Done(r.now, a.ticket, Outcome{Served: true, Prompt: a.context, Cached: a.cached, Completion: r.answer})
	a.context += r.answer
	k := &r.caches[a.on]
	k.use(a.id, a.context, r.shared, r.capacity)
	k.answers = slices.DeleteFunc(k.answers, func(b *agent) bool { return b == a })
	k.running = slices.DeleteFunc(k.running, func(id int) bool { return id == a.id })
	r.read(k)
	a.turn++
	a.context += r.grow
	think := r.think(r.rng)
	if a.turn > r.turns {
		r.at(think, func() { r.begin(a) })
		return
	}
	r.at(think, func() { r.send(a) })
}

// use makes a context the one used last and forgets the longest unused ones that no
// longer fit, from their ends. Running ones stay.
func (k *kv) use(id, tokens, shared int, capacity int64) {
	k.used = true
	if i := slices.Index(k.ids, id); i >= 0 {
		k.ids = slices.Delete(k.ids, i, i+1)
	}
	k.ids = append(k.ids, id)
	k.tokens[id] = tokens
	over := shared - int(capacity)
	for _, t := range k.tokens {
		over += t - shared
	}
	k.ids = slices.DeleteFunc(k.ids, func(id int) bool {
		own := k.tokens[id] - shared
		switch {
		case over <= 0 || slices.Contains(k.running, id):
			return false
		case own > over:
			k.tokens[id] -= over
			over = 0
			return false
		default:
			over -= own
			delete(k.tokens, id)
			return true
		}
	})
}
