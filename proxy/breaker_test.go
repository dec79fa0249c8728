package proxy

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lmwarden/lmwarden/proxy/route"
)

func TestBreakerOpensAndProbes(t *testing.T) {
	now := time.Unix(0, 0)
	var b breaker
	for range 2 {
		if b.strike(now, strikeBroken, false) {
			t.Fatal("it opened too early")
		}
	}
	if !b.strike(now, strikeBroken, false) || b.admits(now) {
		t.Fatal("it did not open after three broken connections")
	}
	now = now.Add(firstPause)
	if b.state(now) != breakerHalfOpen || !b.seat(now) || b.seat(now) || b.admits(now) {
		t.Fatal("half-open lets through exactly one")
	}
	if !b.strike(now, strikeStatus, true) || b.pause != 2*firstPause {
		t.Fatalf("a failed probe opens it for twice as long, got %v", b.pause)
	}
	now = now.Add(2 * firstPause)
	if !b.seat(now) || !b.abandon(true) || !b.admits(now) {
		t.Fatal("an abandoned probe lets the next one through")
	}
	if !b.answered() || b.state(now) != breakerClosed || b.strikes != 0 {
		t.Fatal("an answer closes it")
	}
}

// Whatever happens, a breaker admits a request again after the longest pause, as long
// as probes end.
func TestBreakerNeverStaysShut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		var b breaker
		probe := false
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				b.strike(now, rapid.SampledFrom([]int{strikeBroken, strikeStatus}).Draw(t, "weight"), probe)
				probe = false
			case 1:
				b.answered()
				probe = false
			case 2:
				b.abandon(probe)
				probe = false
			case 3:
				if b.admits(now) && !probe {
					probe = b.seat(now)
				}
			case 4:
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(longestPause)).Draw(t, "time")))
			}
			if b.pause > longestPause {
				t.Fatalf("a pause of %v", b.pause)
			}
		}
		b.abandon(probe)
		if !b.admits(now.Add(longestPause)) {
			t.Fatalf("shut for ever: %+v", b)
		}
	})
}

// What becomes of a request that the incarnation before got says nothing about the
// present one: neither its failure nor its success, nor that it was the probe.
func TestBreakerForgetsTheIncarnationBefore(t *testing.T) {
	p := New(Options{})
	defer p.Close()
	spec := func(incarnation uint64) *Snapshot {
		return &Snapshot{Models: []Model{{Name: "m", Routing: route.DefaultSettings(), Replicas: []Replica{
			{ID: "m/0", Rank: -1, Route: route.Replica{Incarnation: incarnation, Ready: true}},
		}}}}
	}
	p.Apply(spec(1))
	m, now := p.table.Load().named["m"], time.Now()
	place := func() *reservation {
		v := &reservation{cut: func(error) {}}
		if got := m.reserve(now, &route.Request{Rank: -1}, v); got != route.Forward {
			t.Fatalf("verdict %d", got)
		}
		return v
	}
	var old []*reservation
	for range 3 {
		old = append(old, place())
	}
	p.Apply(spec(2))
	r := m.known["m/0"]
	for _, v := range old {
		m.judge(now, v, strikeBroken)
	}
	if r.breaker != (breaker{}) {
		t.Errorf("failures of the old life count against the new one: %+v", r.breaker)
	}
	for range 3 {
		m.judge(now, place(), strikeBroken)
	}
	if r.breaker.state(now) != breakerOpen {
		t.Fatalf("the breaker is not open: %+v", r.breaker)
	}
	now = now.Add(firstPause)
	probe := place()
	if !probe.probe {
		t.Fatal("the next request is no probe")
	}
	old[0].probe = true
	m.judge(now, old[0], 0)
	m.release(now, old[0], route.Outcome{})
	if r.breaker.state(now) != breakerHalfOpen || !r.breaker.probing {
		t.Errorf("a success of the old life closed the breaker, or its end gave the probe's place away: %+v", r.breaker)
	}
}
