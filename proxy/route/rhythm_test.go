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
		name string
		gaps []int64
		ends int
		cost int64
		want int64
	}{
		{"unknown rhythm keeps for the cost", repeat(19, s), 0, 10 * s, 10 * s},
		{"steady clients keep for their gap", repeat(20, s), 0, 10 * s, s},
		{"gaps beyond the cost are not worth it", repeat(20, 30*s), 0, 10 * s, 0},
		{"a rare long gap is not waited for", repeat(20, s, s, s, s, s, s, s, s, s, 9*s), 40, 10 * s, s},
		{"no ends, so it pays to wait for the long ones", repeat(20, s, s, s, 8*s), 0, 10 * s, 8 * s},
		{"a gain within the noise is none", repeat(20, 9*s), 0, 10 * s, 0},
		{"a clear one is", repeat(20, 8*s), 0, 10 * s, 8 * s},
		{"many ends make even a short gap too dear", repeat(20, 9*s), 200, 10 * s, 0},
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
			if got := r.keep(0, tt.cost); got != tt.want {
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
	if got := r.keep(0, int64(10*time.Second)); got != int64(time.Second) {
		t.Errorf("keep for %v, want 1 s: the old gaps are more than %d turns ago", time.Duration(got), rhythmGaps)
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
