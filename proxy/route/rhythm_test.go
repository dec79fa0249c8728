package route

import (
	"testing"
	"time"
)

func TestKeep(t *testing.T) {
	const s = int64(time.Second)
	repeat := func(n int, gaps ...int64) []int64 {
		var out []int64
		for range n {
			out = append(out, gaps...)
		}
		return out
	}
	tests := []struct {
		name    string
		gaps    []int64
		ends    int
		cost    int64
		reserve float64 // with turns of 6 s
		want    int64
	}{
		{"unknown rhythm keeps for the cost", repeat(19, s), 0, 10 * s, 0, 10 * s},
		{"steady clients keep for their gap", repeat(20, s), 0, 10 * s, 0, s},
		{"gaps beyond the cost are not worth it", repeat(20, 30*s), 0, 10 * s, 0, 0},
		{"a rare long gap is not waited for", repeat(20, s, s, s, s, s, s, s, s, s, 9*s), 40, 10 * s, 0, s},
		{"no ends, so it pays to wait for the long ones", repeat(20, s, s, s, 8*s), 0, 10 * s, 0, 8 * s},
		{"equal gaps below the cost leave no doubt", repeat(20, 9*s), 0, 10 * s, 0, 9 * s},
		{"room for growth is dearer than what is gained", repeat(20, 9*s), 0, 10 * s, 0.1, 0},
		{"room for growth is not", repeat(20, 8*s), 0, 10 * s, 0.1, 8 * s},
		{"a gain that may be chance is none", repeat(10, 2*s, 15*s), 20, 10 * s, 0, 0},
		{"more of the same gaps are no chance", repeat(100, 2*s, 15*s), 200, 10 * s, 0, 2 * s},
		{"many ends make even a short gap too dear", repeat(20, 9*s), 200, 10 * s, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r rhythm
			for _, g := range tt.gaps {
				r.gap(0, g, false)
			}
			for range tt.ends {
				r.end()
			}
			if got := r.keep(0, stakes{cache: tt.cost, turn: 6e9, reserve: tt.reserve}); got != tt.want {
				t.Errorf("keep for %v, want %v", time.Duration(got), time.Duration(tt.want))
			}
		})
	}
}

func TestKeepForgetsOldGaps(t *testing.T) {
	var r rhythm
	for range rhythmGaps {
		r.gap(0, int64(30*time.Second), false)
	}
	for range rhythmGaps {
		r.gap(0, int64(time.Second), false)
	}
	if got := r.keep(0, stakes{cache: int64(10 * time.Second)}); got != int64(time.Second) {
		t.Errorf("keep for %v, want 1 s: the old gaps are more than %d turns ago", time.Duration(got), rhythmGaps)
	}
}

// TestReturns takes the chance of a return from gaps of 1 and 8 s and as many ends as
// there are gaps of 8 s.
func TestReturns(t *testing.T) {
	const s = int64(time.Second)
	var r rhythm
	if got := r.returns(s); got != 0 {
		t.Errorf("chance %v before any gap, want 0", got)
	}
	for range 40 {
		r.gap(0, s, false)
		r.gap(0, 8*s, false)
		r.end()
	}
	r.keep(0, stakes{cache: 10 * s})
	for idle, want := range map[int64]float64{0: 2.0 / 3, s - 1: 2.0 / 3, s: 0.5, 7 * s: 0.5, 8 * s: 0, 60 * s: 0} {
		if got := r.returns(idle); got != want {
			t.Errorf("chance %v after %v, want %v", got, time.Duration(idle), want)
		}
	}
}

func TestReturnTakesTheEndBack(t *testing.T) {
	b := newBox(t, 1, DefaultSettings())
	b.turn(turnOf(1))
	b.wait(2 * time.Minute)
	ends := func() int {
		n := int(b.c.learned.rhythm.since)
		for _, e := range b.c.learned.rhythm.ends {
			n += int(e)
		}
		return n
	}
	if got := ends(); got != 1 {
		t.Fatalf("%d ends after two minutes, want 1", got)
	}
	b.turn(turnOf(1))
	if got := ends(); got != 0 {
		t.Errorf("%d ends after the return, want 0", got)
	}
	if r := &b.c.learned.rhythm; r.count != 1 || r.gaps[0] != int64(2*time.Minute) {
		t.Errorf("%d gaps, the first %v", r.count, time.Duration(r.gaps[0]))
	}
}
