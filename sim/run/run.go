package run

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/sim/engine"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

// How often the router is told that time passes: with somebody at the door, and
// without.
const (
	tickHeld = 100 * time.Millisecond
	tickIdle = time.Second
)

// arrival is a turn on its way to the box.
type arrival struct {
	at     time.Duration
	client *client
}

// arrivals is a heap, earliest first; of two at the same time the client that is older.
type arrivals []arrival

func (a arrivals) Len() int { return len(a) }
func (a arrivals) Less(i, j int) bool {
	if a[i].at != a[j].at {
		return a[i].at < a[j].at
	}
	return a[i].client.id < a[j].client.id
}
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push adds an arrival, for package heap.
func (a *arrivals) Push(x any) {
	if v, ok := x.(arrival); ok {
		*a = append(*a, v)
	}
}

// Pop takes the last arrival off, for package heap.
func (a *arrivals) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// world is the state of a run.
type world struct {
	cfg     Config
	core    *route.Core
	engines []*engine.Engine
	flights []map[engine.ID]*client // per engine
	held    map[route.Ticket]*client
	coming  arrivals
	plan    []planned // deaths and returns, earliest first
	prompts map[sharedPrompt]*engine.Hasher
	tick    time.Duration
	luck    *rand.Rand // of blind policies
	picker  picker     // in the router's place, or nil
	meter   *meter
	done    []*client // whose turn ended in the step just told
	clients int       // so far, subagents included
	open    int       // slots and conversations of a trace that have not ended
	err     error

	replicas []route.Replica   // as the router was last told
	retired  []engine.Counters // of engines that died
}

// origin is the moment at which the virtual clock reads 0. Any will do.
var origin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// clock turns a time of the run into one for the router.
func clock(t time.Duration) time.Time { return origin.Add(t) }

// Run plays a configuration to its end: that of its time or, if that comes first, of
// its trace. It fails when the configuration cannot be, or when ctx is cancelled.
func Run(ctx context.Context, cfg Config) (Result, error) {
	w, err := newWorld(cfg)
	if err != nil {
		return Result{}, err
	}
	end := cfg.Warmup + cfg.Length
	last := time.Duration(0)
	for i := 0; w.open > 0; i++ {
		if i%4096 == 0 && ctx.Err() != nil {
			return Result{}, fmt.Errorf("the run was stopped: %w", ctx.Err())
		}
		now, act := w.next()
		if now > end {
			last = end
			break
		}
		act(now)
		last = now
		if w.err != nil {
			return Result{}, w.err
		}
	}
	if last <= cfg.Warmup {
		return Result{}, fmt.Errorf("the trace ended after %s, within the warm-up of %s; nothing was measured", last.Round(time.Second), cfg.Warmup)
	}
	for _, d := range cfg.Deaths {
		if d.At > last {
			return Result{}, fmt.Errorf("the trace ended after %s, before replica %d was to die after %s", last.Round(time.Second), d.Replica, d.At)
		}
	}
	return w.result(last), nil
}

func newWorld(cfg Config) (*world, error) {
	b, err := cfg.build()
	if err != nil {
		return nil, err
	}
	w := &world{
		cfg: cfg, core: route.New(cfg.Policy.Settings, cfg.Seed), held: make(map[route.Ticket]*client),
		prompts: make(map[sharedPrompt]*engine.Hasher), luck: rand.New(rand.NewPCG(cfg.Seed, 0xb11d)),
	}
	w.replicas = make([]route.Replica, cfg.Replicas)
	for i := range w.replicas {
		e, err := engine.New(b.engine)
		if err != nil {
			return nil, err
		}
		w.engines = append(w.engines, e)
		w.flights = append(w.flights, make(map[engine.ID]*client))
		w.replicas[i] = route.Replica{
			Incarnation: 1, Ready: true, Capacity: int64(b.capacity),
			MaxNumSeqs: cfg.MaxNumSeqs, MaxBatchedTokens: cfg.MaxBatchedTokens,
		}
	}
	w.core.SetReplicas(clock(0), w.replicas)
	w.setPicker(b.capacity)
	w.plan = append(w.plan, planned{cfg.Warmup, func(time.Duration) { w.meter.before = w.counters() }})
	w.planDeaths(cfg.Deaths)
	w.meter = newMeter(cfg, w.slots())
	w.start()
	return w, nil
}

// setPicker makes the picker of the policy, if it has one.
func (w *world) setPicker(capacity int) {
	if w.cfg.Policy.picker == nil {
		return
	}
	spill := w.cfg.Policy.Settings.SpillThreshold
	if spill == 0 {
		spill = max(1, w.cfg.MaxNumSeqs/4)
	}
	w.picker = w.cfg.Policy.picker(pickerBox{w.cfg.Replicas, capacity, w.cfg.BlockSize, spill})
}

// ready is true while a replica can be sent turns.
func (w *world) ready(replica int) bool { return w.replicas[replica].Ready }

// ended lets the picker know that a turn no longer runs.
func (w *world) ended(now time.Duration, c *client) {
	if w.picker != nil {
		w.picker.ended(now, c, c.replica)
	}
}

// send has a client send a turn at that time.
func (w *world) send(c *client, turn load.Turn, at time.Duration) {
	c.take(turn, at, w.shared(c.talk))
	heap.Push(&w.coming, arrival{at + w.cfg.Network, c})
}

// next returns what happens next and when: a step ends, a turn arrives, or the router
// is told the time. Of things at the same time a step comes first, by its replica, and
// then what is planned.
func (w *world) next() (time.Duration, func(time.Duration)) {
	at, act := w.tick, w.passTime
	if len(w.coming) > 0 && w.coming[0].at <= at {
		at, act = w.coming[0].at, w.arrive
	}
	if len(w.plan) > 0 && w.plan[0].at <= at {
		at, act = w.plan[0].at, w.followPlan
	}
	for i := len(w.engines) - 1; i >= 0; i-- {
		if end, busy := w.engines[i].Next(); busy && end <= at {
			at, act = end, func(now time.Duration) { w.step(i, now) }
		}
	}
	return at, act
}

// passTime tells the router that time passes.
func (w *world) passTime(now time.Duration) {
	w.core.Tick(clock(now))
	w.release(now)
	w.tick = now + tickIdle
	if len(w.held) > 0 {
		w.tick = now + tickHeld
	}
}

// arrive hands the next turn to the router.
func (w *world) arrive(now time.Duration) {
	a, ok := heap.Pop(&w.coming).(arrival)
	if !ok {
		return
	}
	ask := a.client.ask()
	// A client names the replica where the policy is not the router's: it is not overridden.
	switch {
	case w.cfg.Policy.Blind:
		ask.Rank = w.cfg.Policy.Rank(w.luck, len(w.engines))
	case w.picker != nil:
		ask.Rank = w.picker.pick(now, a.client, w.ready)
	}
	var d route.Decision
	ticket, verdict := w.core.Arrive(clock(now), ask, &d)
	a.client.ticket = ticket
	switch verdict {
	case route.Forward:
		w.forward(now, a.client, d)
	case route.Held:
		w.held[ticket] = a.client
		w.tick = min(w.tick, now+tickHeld)
	case route.RefusedFull, route.NoReplica:
		// The client comes again, as an agent does after a 503.
		w.meter.refused++
		heap.Push(&w.coming, arrival{now + retryAfter, a.client})
	}
	w.release(now)
}

// release forwards what may leave the door.
func (w *world) release(now time.Duration) {
	for _, r := range w.core.Released() {
		c := w.held[r.Ticket]
		delete(w.held, r.Ticket)
		w.forward(now, c, r.Decision)
	}
}

// forward gives a turn to its engine.
func (w *world) forward(now time.Duration, c *client, d route.Decision) {
	c.begun, c.replica = false, d.Replica
	id, err := w.engines[d.Replica].Add(now, c.request)
	if err != nil {
		w.err = fmt.Errorf("replica %d refused a turn: %w", d.Replica, err)
		return
	}
	w.flights[d.Replica][id] = c
	if w.picker != nil {
		w.picker.sent(now, c, d.Replica)
	}
	w.meter.class(now, d.Class)
}

// step ends a step of an engine and lets the router and the clients know.
func (w *world) step(replica int, now time.Duration) {
	w.done = w.done[:0]
	flights := w.flights[replica]
	w.engines[replica].Advance(now, func(ev engine.Event) {
		c := flights[ev.ID]
		w.meter.token(now)
		if ev.Output == 1 {
			w.core.FirstByte(clock(now), c.ticket)
			c.begun = true
			if !c.counted {
				c.counted = true
				w.meter.first(now, c, ev.Cached)
			}
		}
		if ev.Done {
			delete(flights, ev.ID)
			w.ended(now, c)
			w.core.Done(clock(now), c.ticket, route.Outcome{
				Served: true, Prompt: c.request.Prompt, Cached: ev.Cached, Completion: c.request.Output,
			})
			w.done = append(w.done, c)
		}
	})
	w.release(now)
	for _, c := range w.done {
		w.finish(c, now)
	}
}
