package proxy

import (
	"testing"
	"time"

	"pgregory.net/rapid"
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
