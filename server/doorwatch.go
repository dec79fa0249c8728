package server

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
)

// With admission nothing thrashes: what does not fit waits at the door instead. So a
// model whose caches are too small shows it there, and is told of when somebody waits for
// room most of the time.
const (
	doorSpan  = 5 * time.Minute
	doorStep  = 10 * time.Second
	doorSteps = int64(doorSpan / doorStep)
	// doorBegins and doorEnds are the shares of the span in which somebody waits for room
	// from which a door counts as crowded, and below which it does no more.
	doorBegins = 0.8
	doorEnds   = 0.2
)

// doorLog is who waited for room at the door of a model over the last span.
type doorLog struct {
	at      time.Time // of the last look
	waiting int       // conversations that waited then
	steps   [doorSteps]doorStretch
	crowded bool
}

// doorStretch is one step of it.
type doorStretch struct {
	number  int64   // of the step, since the epoch
	seen    float64 // seconds looked at
	crowded float64 // of these, with somebody waiting
	waited  float64 // conversations times seconds
}

// look takes over how many wait now, and tells whether the door became crowded or calm.
func (d *doorLog) look(now time.Time, waiting int) (changed bool) {
	if dt := min(now.Sub(d.at), doorStep).Seconds(); !d.at.IsZero() && dt > 0 {
		n := now.UnixNano() / int64(doorStep)
		s := &d.steps[n%doorSteps]
		if s.number != n {
			*s = doorStretch{number: n}
		}
		s.seen += dt
		s.waited += dt * float64(d.waiting)
		if d.waiting > 0 {
			s.crowded += dt
		}
	}
	d.at, d.waiting = now, waiting
	share, _ := d.figures()
	if d.crowded && share >= doorEnds || !d.crowded && share < doorBegins {
		return false
	}
	d.crowded = !d.crowded
	return true
}

// figures returns the share of the span in which somebody waited, and how many did on
// average over what was seen of it.
func (d *doorLog) figures() (share, mean float64) {
	var sum doorStretch
	n := d.at.UnixNano() / int64(doorStep)
	for _, s := range d.steps {
		if s.number > n-doorSteps && s.number <= n {
			sum.seen += s.seen
			sum.crowded += s.crowded
			sum.waited += s.waited
		}
	}
	if sum.seen == 0 {
		return 0, 0
	}
	return sum.crowded / doorSpan.Seconds(), sum.waited / sum.seen
}

// doors is what is known of the doors of all models. Its methods are safe for concurrent
// use.
type doors struct {
	mu     sync.Mutex
	logs   map[string]*doorLog
	shown  map[string]*lmwardenv1.DoorPressure // of those that are crowded; never changed once here
	source *stats.Collector
}

func newDoors(source *stats.Collector) *doors {
	return &doors{logs: make(map[string]*doorLog), shown: make(map[string]*lmwardenv1.DoorPressure), source: source}
}

// pressure returns what the door of a model lacks, or nil while it is not crowded.
func (d *doors) pressure(model string) *lmwardenv1.DoorPressure {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shown[model]
}

// look takes over a view of a model and tells whether its door became crowded or calm,
// with what to say of it.
func (d *doors) look(m *lmwardenv1.Model, v route.View, full fullness, now time.Time) (p *lmwardenv1.DoorPressure, changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := m.GetName()
	log := d.logs[name]
	if log == nil {
		log = &doorLog{}
		d.logs[name] = log
	}
	changed = log.look(now, v.Waiting)
	if !log.crowded && !changed {
		return nil, false
	}
	share, mean := log.figures()
	p = pressureOf(m, v, full, share, mean, d.source.Latency(name, now, doorSpan).Waited)
	if log.crowded {
		d.shown[name] = p
	} else {
		delete(d.shown, name)
	}
	return p, changed
}

// dropIf forgets the models that gone names.
func (d *doors) dropIf(gone func(model string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.logs, func(model string, _ *doorLog) bool { return gone(model) })
	maps.DeleteFunc(d.shown, func(model string, _ *lmwardenv1.DoorPressure) bool { return gone(model) })
}

// watchDoor tells when the door of a model becomes crowded, and when it is calm again.
func (r *reconciler) watchDoor(m *lmwardenv1.Model, v route.View, full fullness, now time.Time) {
	p, changed := r.doors.look(m, v, full, now)
	switch {
	case !changed:
	case r.doors.pressure(m.GetName()) != nil:
		r.events.Add(stats.Event{Severity: stats.Warning, Kind: "door_crowded", Model: m.GetName(), Replica: -1, Message: pressureMessage(p, " of "+m.GetName())})
	default:
		r.events.Add(stats.Event{Severity: stats.Note, Kind: "door_calm", Model: m.GetName(), Replica: -1, Message: fmt.Sprintf("Hardly anybody waits at the door of %s for room any more: %s conversations on average in the last %s.", m.GetName(), oneDigit(p.GetMeanWaiting()), minutes(doorSpan))})
	}
}

// pressureOf works out what would let in those who wait.
func pressureOf(m *lmwardenv1.Model, v route.View, full fullness, share, mean float64, waits stats.Quantiles) *lmwardenv1.DoorPressure {
	p := &lmwardenv1.DoorPressure{Span: durationpb.New(doorSpan), Share: min(share, 1), MeanWaiting: mean}
	if waits.Count > 0 {
		p.MeanWait = durationpb.New(waits.Mean)
	}
	now, doubled, smallest := int64(0), int64(0), int64(math.MaxInt64)
	shared := max(v.SharedTokens, 0)
	for _, r := range v.Replicas {
		if r.Capacity <= 0 || full.mean <= 0 {
			smallest = 0
			break
		}
		holds := placesIn(r.Capacity-shared, full.mean, v.Reserve, true)
		now += holds
		doubled += placesIn(2*r.Capacity-shared, full.mean, v.Reserve, true)
		smallest = min(smallest, holds)
	}
	if len(v.Replicas) > 0 && smallest > 0 {
		p.MoreReplicas = known[uint32](int64(math.Ceil(mean / float64(smallest))))
		p.ReplicaHolds = known[uint32](smallest)
		if m.GetSpec().GetKvCacheType() != lmwardenv1.KvCacheType_KV_CACHE_TYPE_FP8 {
			p.Fp8More = known[uint32](doubled - now)
		}
	}
	p.Message = pressureMessage(p, "")
	return p
}

// pressureMessage says who waited at the door, how long, and what would let them in. Of
// says of which model, where that is not clear.
func pressureMessage(p *lmwardenv1.DoorPressure, of string) string {
	message := fmt.Sprintf("In the last %s %s conversations on average waited at the door%s for room", minutes(p.GetSpan().AsDuration()), oneDigit(p.GetMeanWaiting()), of)
	if p.MeanWait != nil {
		message += fmt.Sprintf("; turns that had to wait did so for %.0f s on average", math.Ceil(p.GetMeanWait().AsDuration().Seconds()))
	}
	var help []string
	if n := p.GetMoreReplicas(); n > 0 {
		replicas := "replicas"
		if n == 1 {
			replicas = "replica"
		}
		help = append(help, fmt.Sprintf("%d more %s (one holds about %d of the present size)", n, replicas, p.GetReplicaHolds()))
	}
	if n := p.GetFp8More(); n > 0 {
		help = append(help, fmt.Sprintf("a KV cache of type fp8 where the cards support it (about %d more)", n))
	}
	help = append(help, fmt.Sprintf("about %.0f fewer at once", math.Ceil(p.GetMeanWaiting())))
	return message + ". What would let them in: " + strings.Join(help, ", or ") + "."
}

func oneDigit(n float64) string { return fmt.Sprintf("%.1f", n) }

func minutes(d time.Duration) string { return fmt.Sprintf("%.0f minutes", d.Minutes()) }
