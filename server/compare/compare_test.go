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
	return c.Report(noon.Add(time.Hour), time.Minute, [2]string{"on", "off"}, true, 1)
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
			r := c.Report(noon.Add(time.Hour), time.Minute, [2]string{"on", "off"}, true, uint64(n))
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

// TestFewGiveNoInterval has each figure without an interval until enough conversations
// have had it: resamples of one conversation are all alike, which is no certainty.
func TestFewGiveNoInterval(t *testing.T) {
	for _, n := range []int{1, enough - 1, enough, 2 * enough} {
		c, rng := New(), rand.New(rand.NewPCG(1, 2))
		talks(c, 0, n, 1, rng)
		talks(c, 1, n, 3, rng)
		for k, f := range report(c).Figures {
			want := n >= Kind(k).leastConversations()
			if got := !math.IsNaN(f.Low) && !math.IsNaN(f.High) && !math.IsNaN(f.Noise); got != want {
				t.Errorf("%d conversations, figure %d: an interval %v, want %v (%+v)", n, k, got, want, f)
			}
			if math.IsNaN(f.Difference) {
				t.Errorf("%d conversations, figure %d: no difference", n, k)
			}
		}
	}
	// Many turns of few conversations are few still.
	c := New()
	for n := range 200 {
		c.Add(Turn{Arm: n % 2, Conversation: [16]byte{byte(n % 4)}, First: n < 4, Arrived: noon, FirstToken: time.Second, Prompt: 1})
	}
	if f := report(c).Figures[LaterTurnMean]; f.Observations[0] < 90 || !math.IsNaN(f.Low) {
		t.Errorf("two conversations of an arm: %+v", f)
	}
}

func TestVerdictSaysWhatIsInNoFigure(t *testing.T) {
	build := func(failedB int) string {
		c, rng := New(), rand.New(rand.NewPCG(1, 2))
		talks(c, 0, 40, 2.5, rng)
		talks(c, 1, 40, 1, rng)
		for range failedB {
			c.Add(Turn{Arm: 1, Conversation: [16]byte{4: 1}, Arrived: noon, Duration: time.Minute})
		}
		return report(c).Verdict
	}
	if got := build(60); !strings.HasPrefix(got, "off is better by ") || !strings.HasSuffix(got, "But off left 60 of 300 turns without a first token, on 0 of 240; these are in no figure.") {
		t.Errorf("the quicker arm lost its slowest turns: %q", got)
	}
	if got := build(3); strings.Contains(got, "But") {
		t.Errorf("three failures are no pattern: %q", got)
	}
}

func TestVerdictOfAnEnd(t *testing.T) {
	for running, want := range map[bool]string{
		true:  "Too early to tell: 0 and 0 conversations so far, at least 10 of each with an answer are needed.",
		false: "Too few to tell: 0 and 0 conversations, at least 10 of each with an answer are needed.",
	} {
		if got := New().Report(noon, time.Minute, [2]string{"a", "b"}, running, 1).Verdict; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// Arms that do exactly the same.
	c := New()
	for n := range 40 {
		c.Add(Turn{Arm: n % 2, Conversation: [16]byte{byte(n)}, First: true, Arrived: noon, FirstToken: time.Second})
	}
	if got := report(c); got.Verdict != "No difference can be told: the mean first token of off comes between 0.00 s sooner and 0.00 s later than that of on." || got.Figures[FirstTokenMean].Noise != 1 {
		t.Errorf("%q, noise %v", got.Verdict, got.Figures[FirstTokenMean].Noise)
	}
}
