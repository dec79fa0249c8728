package route

import (
	"slices"
	"time"
)

// Working-set admission lets in, per replica, only as many conversations as its cache
// can hold. A conversation that is let in has a place on its home: its context counts
// against the capacity there. When it has been idle for longer than that pays, its place
// is free for the next one that finds no room; and a place may be taken for one that has
// waited long. The rest waits at the door, in order.
//
// A request passes the queue (does its conversation have a place?) and the gate of
// its replica (are there long prefills before it?):
//
//	Arrive -> queue -> gate -> in flight -> Done
//	              \_____________^ warm, or nobody waits

// Constants of the rule.
const (
	maxAnswer     = 4096.0                   // tokens of an answer that a place reserves at most
	guessPrefill  = 3000.0                   // tokens a second, until the first long prefill
	maxSpell      = int64(240 * time.Second) // bound of the spell, see door
	endsAtLeast   = int64(60 * time.Second)  // idle time before a conversation is taken for ended
	coldAtOnce    = 2                        // long prefills of a replica on their way
	secondsFlight = 0.3                      // what a request in flight adds to the cost of a place
	secondsFull   = 0.5                      // what a full budget adds to it

	// growthKept is how many turns' growth is kept free for each place. One is what all
	// grow in a turn; but those that began together also end together, and a place that is
	// lost to growth costs a whole context. Of 1, 1.25, 1.5 and 2 it gave the most on the
	// loads of docs/admission.md: with short pauses 1 % more output than 1 does and 2 points
	// more of hits, with long ones up to 1.5 % less output.
	growthKept = 1.5
)

// door is the state of admission.
type door struct {
	queue   []int32 // tickets that wait for a place, in order
	waiting int     // of these, not let in by the pump in progress
	choosy  int     // of those, they wait for their home though there is room elsewhere
	since   int64   // moment of the last place given, or since when anyone waits
	gated   int     // tickets at the gates of all replicas

	stranded []int32 // tickets that wait for a replica, see strand.go; in order of arrival

	figures

	released []Release
	spare    []Release // what Released handed out last
	yielding []int32   // conversations that give their places up when their turns end
	space    space
	victims  []int32 // of the replica that displace looks at
	chosen   []int32 // of the best one so far
}

// figures are what follows from the measured inputs.
type figures struct {
	open    bool    // capacities and figures are known, so requests may be held
	largest int64   // largest capacity of a usable replica
	prefill float64 // tokens a second
	fill    int64   // time to fill a cache
	keep    int64   // idle time for which a place is kept while others wait
	growth  int64   // tokens kept free for each place
	spell   int64   // residence before a place may be taken, and wait before one may take it
}

// derive works out the figures of the door.
func (c *Core) derive() { c.door.figures = c.figuresWith(&c.learned.rhythm) }

// figuresWith works out the figures of the door from a rhythm, which remembers its last
// answer for a while: who only looks hands over a copy, and changes nothing by it.
func (c *Core) figuresWith(r *rhythm) figures {
	d := c.door.figures
	var capacity, used, own, places, n int64
	d.largest = 0
	stale := int64(0)
	d.open = c.set.Admission == AdmissionWorkingSet && c.set.Affinity
	for i := range c.replicas[:c.present] {
		rep := &c.replicas[i]
		if !rep.usable() {
			continue
		}
		if rep.Capacity <= 0 {
			d.open = false
		}
		if rep.MetricsUnavailable {
			stale++
		}
		n++
		capacity += rep.Capacity
		used += rep.places.total()
		own += rep.places.own
		places += int64(rep.places.count)
		d.largest = max(d.largest, rep.Capacity)
	}
	// One engine that is slow to tell its figures is no reason to send all that wait at once:
	// what its cache holds is known, and who has a place there is our own count.
	if n == stale {
		d.open = false
	}
	if n == 0 {
		return d
	}
	d.prefill = guessPrefill
	if c.learned.prefill.known() {
		d.prefill = max(1, c.learned.prefill.value)
	}
	each := float64(capacity) / float64(n)
	d.fill = int64(each / d.prefill * 1e9)
	at := stakes{
		cache: int64(max(float64(used)/float64(n), each/2) / d.prefill * 1e9),
		turn:  c.learned.service.value * 1e9,
	}
	if own > 0 {
		at.reserve = growthKept * c.learned.growth.value * float64(places) / float64(own)
	}
	d.keep = r.keep(c.at, at)
	d.growth = 0
	if d.keep > 0 {
		d.growth = int64(growthKept * c.learned.growth.value)
	}
	d.spell = min(6*d.fill, maxSpell)
	return d
}

// endsAfter returns the idle time after which a conversation is taken for ended.
func (c *Core) endsAfter() int64 { return max(endsAtLeast, 4*c.door.fill) }

// held returns the requests that wait: for room, at the gates, and for a replica.
func (c *Core) held() int { return c.door.waiting + c.door.gated + len(c.door.stranded) }

// holdable tells whether a request may be held at all: admission is on, all that it
// needs is known, the request has a conversation and fits a replica.
func (c *Core) holdable(t *ticket) bool {
	return c.door.open && t.conv != none && !c.tooLarge(t, c.budget(t))
}

// tooLarge tells whether a ticket that needs so many tokens of its own is larger than all
// caches, or longer than any replica takes.
func (c *Core) tooLarge(t *ticket, need int64) bool {
	return need+c.shadow.shared.size(t.shared) > c.door.largest || t.tokens > c.most
}

// mayHold is holdable after a fresh look at the replicas.
func (c *Core) mayHold(t *ticket) bool {
	c.derive()
	return c.holdable(t)
}

// knock takes a request of a conversation to the door.
func (c *Core) knock(ti int32, d *Decision) Verdict {
	t := c.tickets.at(ti)
	v := c.table.at(t.conv)
	switch {
	case !v.admitted || v.yield || !c.homeServes(t):
		c.enqueue(ti)
		c.pump()
		if t.queued && c.held() > c.set.MaxQueue {
			c.leaveDoor(ti)
			return RefusedFull
		}
	case v.through >= convInFlight:
		c.decideKeyed(ti, d)
		return Forward
	default:
		home := int(v.home)
		c.pass(t)
		c.resize(t.conv, t)
		c.relieve(home)
		c.toGate(ti, home, ClassSticky)
	}
	return c.takeOwn(ti, d)
}

// takeOwn takes the release of a ticket that was let in at once back out of the list.
func (c *Core) takeOwn(ti int32, d *Decision) Verdict {
	name := c.tickets.name(ti)
	for k := len(c.door.released) - 1; k >= 0; k-- {
		if c.door.released[k].Ticket == name {
			*d = c.door.released[k].Decision
			c.door.released = slices.Delete(c.door.released, k, k+1)
			return Forward
		}
	}
	return Held
}

// relieve takes places of idle conversations, longest idle first, while a replica is over
// its capacity by more than a turn grows. A prompt that ends in a cache that is full by
// less pushes out the end of one that is idle, which then reads about a turn again; a place
// that is taken is a whole context read again, and a wait at the door before it.
func (c *Core) relieve(i int) {
	r := &c.replicas[i]
	bound := r.Capacity + int64(c.learned.growth.value)
	for r.places.total() > bound && r.idle.first != none {
		c.expel(r.idle.first, lossRelief)
	}
}

// toGate takes a ticket whose conversation has a place on replica i to the gate
// there. Long prefills pass few at a time, and in order, while anyone waits at the
// door; all others pass at once.
func (c *Core) toGate(ti int32, i int, class Class) {
	t := c.tickets.at(ti)
	r := &c.replicas[i]
	t.class, t.replica = class, int32(i)
	c.pass(t)
	uncached := max(0, t.tokens-c.shadow.cached(c, t.conv, t.shared, i))
	if uncached <= int64(c.chunk(i)) || len(r.gate) == 0 && c.gateOpen(i) {
		c.forward(ti)
		return
	}
	t.gated, t.uncached = true, uncached
	r.gate = append(r.gate, ti)
	r.gated += uncached
	c.door.gated++
}

// gateOpen tells whether a long prefill may pass the gate of replica i. Those who choose
// to wait for another one do not want its places, so they keep nobody from it.
func (c *Core) gateOpen(i int) bool {
	r := &c.replicas[i]
	return r.cold < coldAtOnce || c.door.waiting-c.door.choosy+r.awaited == 0
}

// openGate lets through what may pass the gate of replica i now.
func (c *Core) openGate(i int) {
	r := &c.replicas[i]
	for len(r.gate) > 0 {
		next := 0
		if !c.gateOpen(i) {
			next = slices.IndexFunc(r.gate, func(ti int32) bool { return c.overdue(c.tickets.at(ti)) })
		}
		if next < 0 {
			return
		}
		ti := r.gate[next]
		t := c.tickets.at(ti)
		c.ungate(ti)
		if v := c.table.at(t.conv); !v.admitted || v.home != int32(i) || !c.holds(t, i) {
			c.back(t) // its place is gone, or one that holds it has come
			c.enqueue(ti)
			continue
		}
		c.forward(ti)
	}
}

// ungate takes a ticket out of the gate of its replica.
func (c *Core) ungate(ti int32) {
	t := c.tickets.at(ti)
	r := &c.replicas[t.replica]
	r.gate = slices.DeleteFunc(r.gate, func(x int32) bool { return x == ti })
	r.gated -= t.uncached
	t.gated, t.uncached = false, 0
	c.door.gated--
}

// forward decides a ticket that passed door and gate and hands it out.
func (c *Core) forward(ti int32) {
	t := c.tickets.at(ti)
	t.wait = c.at - t.arrived
	d := Decision{Replica: none, Home: none, note: noteDoor}
	if t.class != ClassSticky {
		d.Terms = t.terms
	}
	c.decide(ti, &d, t.class, int(t.replica))
	c.handOut(ti, &d)
}

func (c *Core) handOut(ti int32, d *Decision) {
	c.door.released = append(c.door.released, Release{Ticket: c.tickets.name(ti), Decision: *d})
}

// overdue tells whether a request has waited as long as any may.
func (c *Core) overdue(t *ticket) bool { return c.at-t.arrived >= int64(c.set.MaxHold) }

// clearGate sends what waits at the gate of replica i back to the queue, with its time
// of arrival.
func (c *Core) clearGate(i int) {
	r := &c.replicas[i]
	for len(r.gate) > 0 {
		ti := r.gate[0]
		c.ungate(ti)
		c.back(c.tickets.at(ti))
		c.enqueue(ti)
	}
}

// expelAll takes all places of replica i.
func (c *Core) expelAll(i int, lost loss) {
	r := &c.replicas[i]
	for r.idle.first != none {
		c.expel(r.idle.first, lost)
	}
	for r.busy.first != none {
		c.expel(r.busy.first, lost)
	}
}

// evacuate clears replica i, which takes no requests any more or has lost its cache.
func (c *Core) evacuate(i int) {
	c.clearGate(i)
	c.expelAll(i, lossReplica)
}

// closeDoor lets everybody through that waits. Places are kept while only a figure is
// missing, and end with admission itself.
func (c *Core) closeDoor() {
	for i := range c.replicas {
		c.clearGate(i)
		if c.set.Admission != AdmissionWorkingSet || !c.set.Affinity {
			c.expelAll(i, lossNone)
		}
	}
	if c.usable == 0 {
		return // they wait for a replica
	}
	for _, ti := range c.door.queue {
		c.letPlain(ti)
	}
	c.compact()
}

// letPlain forwards a ticket of the queue by plain affinity, without a place.
func (c *Core) letPlain(ti int32) {
	c.unqueue(c.tickets.at(ti))
	c.goPlain(ti)
}

// goPlain decides a ticket that has waited by plain affinity and hands it out.
func (c *Core) goPlain(ti int32) {
	t := c.tickets.at(ti)
	t.wait = c.at - t.arrived
	d := Decision{Replica: none, Home: none}
	if !c.untried(t) {
		t.tried = t.tried[:0] // one that failed it is better than none
	}
	c.now = c.settingsOf(t)
	switch {
	case !c.now.Affinity:
		c.decide(ti, &d, ClassOff, c.placeOff(t, &d))
	case len(t.tried) > 0:
		to := c.elsewhere(t, &d)
		c.decide(ti, &d, c.rerouteClass(t, to), to)
	case t.unkeyed:
		c.decide(ti, &d, ClassUnkeyed, c.placeFree(t, &d))
	case t.kind == KindSide:
		c.decideSide(ti, &d)
	default:
		c.decideKeyed(ti, &d)
	}
	c.now = &c.set
	t.terms = append(t.terms[:0], d.Terms...)
	d.Terms = t.terms
	c.handOut(ti, &d)
}

// spent tells whether an idle conversation with a place has been idle for longer than it
// pays to keep the place while others wait.
func (c *Core) spent(v *conv) bool { return c.at-v.lastActive > c.door.keep }
