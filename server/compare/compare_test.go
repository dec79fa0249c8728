package compare

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// talks adds n conversations of six turns to an arm, each with a pace of its own around
// the mean seconds to the first token: turns of one conversation are alike.
func talks(c *Comparison, arm, n int, mean float64, rng *rand.Rand) {
	for i := range n {
		var key [16]byte
		binary.LittleEndian.PutUint64(key[:], uint64(arm<<32+i))
		pace := mean * (0.5 + rng.Float64())
		at := noon
		for turn := range 6 {
			c.Add(Turn{
				Arm: arm, Conversation: key, First: turn == 0, Arrived: at, Duration: 2 * time.Second,
				FirstToken: time.Duration(pace * 1e9), Prompt: 1000, Cached: 800 - 300*arm, Completion: 100,
			})
			at = at.Add(3 * time.Second)
		}
	}
}

func report(c *Comparison) *Report {
	return c.Report(noon.Add(time.Hour), time.Minute, [2]string{"on", "off"}, 1)
}

func TestVerdict(t *testing.T) {
	tests := []struct {
		name   string
		n      int
		on     float64
		off    float64
		begins string
	}{
		{"too few", 9, 1, 5, "Too early to tell: 9 and 9"},
		{"off is slower", 60, 1, 2.5, "on is better by 1."},
		{"off is faster", 60, 2.5, 1, "off is better by 1."},
		{"alike", 60, 1, 1, "No difference can be told"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, rng := New(), rand.New(rand.NewPCG(1, 2))
			talks(c, 0, tt.n, tt.on, rng)
			talks(c, 1, tt.n, tt.off, rng)
			if got := report(c).Verdict; !strings.HasPrefix(got, tt.begins) {
				t.Errorf("verdict %q, want it to begin with %q", got, tt.begins)
			}
		})
	}
}

func TestFigures(t *testing.T) {
	c := New()
	add := func(arm int, key byte, first bool, at, duration, token time.Duration, prompt, cached int) {
		c.Add(Turn{
			Arm: arm, Conversation: [16]byte{key}, First: first, Arrived: noon.Add(at), Duration: duration,
			FirstToken: token, Prompt: prompt, Cached: cached, Completion: 60,
		})
	}
	const s = time.Second
	add(0, 1, true, 0, 10*s, 4*s, 1000, 0)
	add(0, 1, false, 20*s, 10*s, 1*s, 1000, 900)
	add(0, 1, false, 50*s, 10*s, 2*s, 1000, -1) // not reported counts as computed
	add(0, 2, true, 0, 5*s, 8*s, -1, -1)        // one turn: no session
	add(0, 3, false, 0, 5*s, 1*s, 1, 1)         // its first turn was before
	add(0, 2, false, 3590*s, 5*s, 0, -1, -1)    // failed, and still at work
	add(1, 9, true, 0, 5*s, 3*s, 100, 50)
	r := report(c)
	if a := r.Arms[0]; a != (ArmCount{Conversations: 2, Ended: 1, Turns: 5, Failed: 1}) {
		t.Errorf("arm 0: %+v", a)
	}
	for kind, want := range map[Kind]float64{
		FirstTokenMean: 3.75, FirstTurnMean: 6, FirstTurnP50: 4, FirstTurnP95: 8, LaterTurnMean: 1.5, LaterTurnP50: 1, LaterTurnP95: 2,
		SessionMean: 60, HitShare: 0.3, OutputPerMinute: 180,
	} {
		if got := r.Figures[kind].Value[0]; math.Abs(got-want) > 1e-9 {
			t.Errorf("figure %d is %v, want %v", kind, got, want)
		}
	}
	if f := r.Figures[SessionMean]; !math.IsNaN(f.Value[1]) || !math.IsNaN(f.Low) || f.Observations != [2]int{1, 0} {
		t.Errorf("nothing of arm 1 has ended: %+v", f)
	}
	if r.Figures[HitShare].Difference != 0.5-0.3 {
		t.Errorf("the difference of the hits is %v", r.Figures[HitShare].Difference)
	}
}

// TestIntervalsHoldWhatTheyPromise makes many comparisons whose true difference is known,
// none among them: about one interval in twenty may leave out the truth, and so many
// verdicts may see a difference where there is none.
func TestIntervalsHoldWhatTheyPromise(t *testing.T) {
	const times = 60
	for _, truth := range []float64{0, 0.5, -0.5} {
		missed, named := 0, map[string]int{}
		for n := range times {
			c, rng := New(), rand.New(rand.NewPCG(uint64(n), 7))
			talks(c, 0, 25, 1, rng)
			talks(c, 1, 25, 1+truth, rng)
			r := c.Report(noon.Add(time.Hour), time.Minute, [2]string{"on", "off"}, uint64(n))
			if f := r.Figures[FirstTokenMean]; f.Low > truth || f.High < truth {
				missed++
			}
			word, _, _ := strings.Cut(r.Verdict, " ")
			named[word]++
		}
		if missed > times/8 || missed == 0 {
			t.Errorf("a true difference of %g: %d of %d intervals leave it out, want about %d", truth, missed, times, times/20)
		}
		switch {
		case truth == 0 && named["on"]+named["off"] > times/8:
			t.Errorf("%d of %d verdicts see a difference where there is none", named["on"]+named["off"], times)
		case truth > 0 && (named["on"] < times*9/10 || named["off"] > 0), truth < 0 && (named["off"] < times*9/10 || named["on"] > 0):
			t.Errorf("a true difference of %g: the verdicts begin with %v", truth, named)
		}
	}
}

func TestIntervalProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Float64Range(-10, 10), 1, 300).Draw(t, "differences")
		low, high, noise := interval(d)
		if low > high || noise <= 0 || noise > 1 {
			t.Fatalf("interval %v to %v, noise %v", low, high, noise)
		}
		if (low > 0 || high < 0) && noise > 0.06+2.0/float64(len(d)) {
			t.Fatalf("0 is outside %v to %v, but the chance of noise is %v", low, high, noise)
		}
	})
}

func TestArmsAreBounded(t *testing.T) {
	c := New()
	for i := range MaxConversations + 5 {
		var key [16]byte
		binary.LittleEndian.PutUint64(key[:], uint64(i))
		c.Add(Turn{Conversation: key, First: true, Arrived: noon, FirstToken: time.Second})
	}
	if r := report(c); r.Arms[0].Conversations != MaxConversations || !c.Full() {
		t.Errorf("%d conversations are kept, full %v", r.Arms[0].Conversations, c.Full())
	}
}
