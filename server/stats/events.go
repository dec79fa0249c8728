package stats

import (
	"context"
	"sync"
	"time"
)

// EventsSize is the number of events that are remembered.
const EventsSize = 1024

// Severity says how grave an event is.
type Severity int

// The severities.
const (
	Note    Severity = iota + 1 // worth knowing
	Warning                     // needs a look
	Error                       // something is broken
)

// Event is something that happened on the box.
type Event struct {
	ID       uint64 // counts up from 1
	Time     time.Time
	Severity Severity
	Kind     string // machine-readable: "replica_failed"
	Model    string // or empty
	Replica  int    // index, or -1
	Message  string // what happened, why, and what to do
}

// Events is a bounded log of events. It is safe for concurrent use.
type Events struct {
	mu     sync.Mutex
	events []Event       // by (ID-1) modulo EventsSize
	last   uint64        // id of the newest event
	more   chan struct{} // closed and replaced with each event
}

// NewEvents returns an empty log.
func NewEvents() *Events {
	return &Events{events: make([]Event, EventsSize), more: make(chan struct{})}
}

// Add appends an event, gives it its id and, when it has none, the time.
func (e *Events) Add(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	ev.ID = e.last
	if ev.Time.IsZero() {
		ev.Time = time.Now()
	}
	e.events[(ev.ID-1)%EventsSize] = ev
	close(e.more)
	e.more = make(chan struct{})
}

// Page returns up to size events of a model (empty means all), newest first, with
// ids below before (0 means from the newest), and the before of the next page, 0
// when there is none.
func (e *Events) Page(model string, before uint64, size int) (page []Event, next uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if before == 0 || before > e.last+1 {
		before = e.last + 1
	}
	for id := before - 1; id > e.oldest(); id-- {
		ev := e.events[(id-1)%EventsSize]
		if model != "" && ev.Model != model {
			continue
		}
		if len(page) == size {
			return page, id + 1
		}
		page = append(page, ev)
	}
	return page, 0
}

// oldest returns the highest id that is forgotten.
func (e *Events) oldest() uint64 {
	if e.last <= EventsSize {
		return 0
	}
	return e.last - EventsSize
}

// Last returns the id of the newest event, 0 when there is none.
func (e *Events) Last() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// After returns the events of a model (empty means all) with ids above id, oldest
// first. It waits until there is one or ctx ends, whose error it then returns.
func (e *Events) After(ctx context.Context, model string, id uint64) ([]Event, error) {
	for {
		events, more := e.after(model, id)
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (e *Events) after(model string, id uint64) ([]Event, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var events []Event
	for n := max(id, e.oldest()) + 1; n <= e.last; n++ {
		if ev := e.events[(n-1)%EventsSize]; model == "" || ev.Model == model {
			events = append(events, ev)
		}
	}
	return events, e.more
}

// More returns a channel that is closed with the next event.
func (e *Events) More() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.more
}
