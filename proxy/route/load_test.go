package route

import (
	"math/rand/v2"
	"testing"
	"time"
)

// fourCards is the load that the rule was made for: 3.5k shared, 7.3k of its own, six
// turns, four caches of 46k.
func fourCards(sessions int) load {
	return load{
		sessions: sessions, turns: 6, shared: 3500, own: 7300, grow: 400, answer: 256,
		think:    func(*rand.Rand) time.Duration { return 550 * time.Millisecond },
		capacity: 46_000, speed: 3080, decode: 6 * time.Second, replicas: 4, length: 12 * time.Minute,
	}
}

func exponential(mean time.Duration) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration { return time.Duration(r.ExpFloat64() * float64(mean)) }
}

func workingSet() Settings {
	s := DefaultSettings()
	s.Admission = AdmissionWorkingSet
	return s
}

// TestWorkingSetKeepsCaches compares the rule with plain affinity on simple engines,
// below the edge of the caches, at it and beyond.
func TestWorkingSetKeepsCaches(t *testing.T) {
	with := func(l load, f func(l *load)) load { f(&l); return l }
	tests := []struct {
		name    string
		load    load
		gain    float64 // least ratio of turns to plain affinity
		hits    float64 // least share of prompt tokens from the cache
		holding bool    // whether anybody may be held at all
	}{
		{"8 sessions fit", fourCards(8), 1, 0.85, false},
		{"16 are at the edge", fourCards(16), 0.99, 0.85, true},
		{"24 are too many", fourCards(24), 1.4, 0.83, true},
		{"32", fourCards(32), 1.5, 0.83, true},
		{"48", fourCards(48), 1.5, 0.83, true},
		{"32 that think for 5 s", with(fourCards(32), func(l *load) { l.think = exponential(5 * time.Second) }), 1.1, 0.6, true},
		{"32 that think for 30 s", with(fourCards(32), func(l *load) { l.think = exponential(30 * time.Second) }), 0.97, 0, true},
		{"24 that never end", with(fourCards(24), func(l *load) { l.turns, l.grow = 1000, 10; l.answer = 10 }), 1, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plain := tt.load.run(DefaultSettings(), nil)
			held := tt.load.run(workingSet(), nil)
			t.Logf("turns %d -> %d, hits %.2f -> %.2f, later turns p50 %.2f s -> %.2f s, first %.1f s -> %.1f s, longest hold %.0f s",
				plain.turns, held.turns, plain.hits(), held.hits(), median(plain.laters).Seconds(), median(held.laters).Seconds(),
				median(plain.firsts).Seconds(), median(held.firsts).Seconds(), held.longest.Seconds())
			if got := float64(held.turns) / float64(plain.turns); got < tt.gain {
				t.Errorf("%.2f times the turns of plain affinity, want at least %.2f", got, tt.gain)
			}
			if held.hits() < tt.hits {
				t.Errorf("hits %.2f, want at least %.2f", held.hits(), tt.hits)
			}
			if !tt.holding && held.held > 0 {
				t.Errorf("%d requests were held below capacity", held.held)
			}
			if held.longest > 301*time.Second {
				t.Errorf("a request was held for %v", held.longest)
			}
		})
	}
}
