package proxyload

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Load is one shape of traffic.
type Load struct {
	// Connections is the number of streams that are open at the same time, and of
	// conversations: each connection carries one.
	Connections int
	// Streams per way that count, over all rounds.
	Streams int
	// Pace is the time over which an engine spreads the pieces of a stream; 0 as fast as
	// they go, which keeps every processor busy and measures throughput.
	Pace time.Duration
}

// String names the load: "512 connections, streams of 2s".
func (l Load) String() string {
	if l.Pace == 0 {
		return fmt.Sprintf("%d connections, streams as fast as they go", l.Connections)
	}
	return fmt.Sprintf("%d connections, streams of %s", l.Connections, l.Pace)
}

// Loads are the loads of a whole measurement: as fast as it goes, and at the pace of
// engines with few and with many streams really open.
func Loads() []Load {
	return []Load{
		{Connections: 32, Streams: 4096},
		{Connections: 32, Streams: 256, Pace: time.Second},
		{Connections: 512, Streams: 2048, Pace: 2 * time.Second},
	}
}

// QuickLoads are the same loads, too short for figures that mean something: they show
// that everything works.
func QuickLoads() []Load {
	return []Load{
		{Connections: 32, Streams: 64},
		{Connections: 32, Streams: 32, Pace: 64 * time.Millisecond},
		{Connections: 512, Streams: 512, Pace: 256 * time.Millisecond},
	}
}

// Options of a comparison.
type Options struct {
	// Ways to compare.
	Ways []Way
	// Load that each of them gets.
	Load Load
	// Rounds in which the ways take turns, at least 1. With as many rounds as ways each
	// of them has come once at each place.
	Rounds int
	// Body of each request.
	Body []byte
	// SetPace tells the engines the pace; nil when they have only one.
	SetPace func(time.Duration)
	// Progress is told what begins; nil for nobody.
	Progress func(string)
}

// Validate returns an error that names every option out of range, or nil.
func (o Options) Validate() error {
	var errs []error
	if len(o.Ways) == 0 {
		errs = append(errs, errors.New("there is no way to measure"))
	}
	for _, way := range o.Ways {
		if len(way.URLs) == 0 {
			errs = append(errs, fmt.Errorf("%s leads nowhere: it needs at least one URL", way.Name))
		}
	}
	if o.Load.Streams < 1 {
		errs = append(errs, fmt.Errorf("a comparison needs at least 1 stream, not %d", o.Load.Streams))
	}
	if o.Load.Connections < 1 {
		errs = append(errs, fmt.Errorf("at least 1 stream must be open at a time, not %d", o.Load.Connections))
	}
	if o.Load.Pace < 0 {
		errs = append(errs, fmt.Errorf("a stream cannot take %s", o.Load.Pace))
	}
	if o.Rounds < 1 {
		errs = append(errs, fmt.Errorf("a comparison needs at least 1 round, not %d", o.Rounds))
	}
	return errors.Join(errs...)
}

// Way is one way to the engines.
type Way struct {
	// Name of the way: "direct".
	Name string
	// URLs of its chat completions, which the connections share out among them.
	URLs []string
	// CPU returns the processor time that the way has used so far; nil when it is not a
	// way of its own, as the direct one.
	CPU func() (time.Duration, error)
}

// url is the address that a connection uses.
func (w Way) url(connection int) string { return w.URLs[connection%len(w.URLs)] }

// conversation is the header that makes a connection one conversation.
func conversation(h http.Header, connection int) {
	h.Set("X-Session-Id", fmt.Sprintf("bench-conversation-%d", connection))
}

// order returns the places of n ways in a round: each round begins one further, and
// each time all of them have begun once the order turns around.
func order(n, round int) []int {
	places := make([]int, n)
	for i := range places {
		places[i] = (i + round) % n
		if round/n%2 == 1 {
			places[i] = n - 1 - places[i]
		}
	}
	return places
}
