package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Resamples: as many as make a report quick, within these bounds.
const (
	mostResamples  = 1000
	leastResamples = 200
	resampleBudget = 20_000_000 // turns looked at
)

// enough is how many conversations each arm needs before a verdict is given.
const enough = 10

// Figure is one figure of both arms. Values that nothing was observed for are NaN, and so
// are interval and noise while too few conversations have had the figure.
type Figure struct {
	Kind         Kind
	Value        [2]float64
	Observations [2]int
	Difference   float64 // of arm 1 from arm 0
	Low, High    float64 // its 95 % confidence interval
	Noise        float64 // chance that such a difference comes about without a cause, 0 to 1
}

// ArmCount is how much an arm has seen.
type ArmCount struct {
	Conversations, Ended, Turns int
	Failed                      int // turns without a first token
}

// Report is what a comparison has shown so far.
type Report struct {
	Arms      [2]ArmCount
	Figures   [NumKinds]Figure
	Resamples int
	Verdict   string
}

// Report computes all figures. A conversation counts as ended when it has been idle for
// quiet at now, which is the comparison's end once it has ended; names are what the arms
// are called in the verdict, and running says whether more turns may come. The seed makes
// the intervals repeatable.
func (c *Comparison) Report(now time.Time, quiet time.Duration, names [2]string, running bool, seed uint64) *Report {
	r := &Report{}
	var s [2]*sample
	turns := 1
	for i, a := range c.copies() {
		s[i] = prepare(a.talks, now, quiet)
		turns += a.turns
		r.Arms[i] = ArmCount{Conversations: len(a.talks), Turns: a.turns, Failed: a.failed}
		for _, ended := range s[i].ended {
			if ended {
				r.Arms[i].Ended++
			}
		}
	}
	r.Resamples = min(max(resampleBudget/(turns*int(NumKinds)), leastResamples), mostResamples)
	differences := resample(s, r.Resamples, seed)
	for k := range NumKinds {
		f := &r.Figures[k]
		f.Kind = k
		for i := range s {
			f.Value[i] = s[i].figure(k, once(len(s[i].talks)))
			f.Observations[i] = s[i].observations(k)
		}
		f.Difference = f.Value[1] - f.Value[0]
		f.Low, f.High, f.Noise = math.NaN(), math.NaN(), math.NaN()
		if min(s[0].conversations(k), s[1].conversations(k)) >= k.leastConversations() {
			f.Low, f.High, f.Noise = interval(differences[k])
		}
	}
	r.Verdict = r.verdict(names, running) + r.unanswered(names)
	return r
}

// once weighs every conversation alike.
func once(n int) []int {
	w := make([]int, n)
	for i := range w {
		w[i] = 1
	}
	return w
}

// resample draws conversations with replacement, each arm by itself, and returns the
// differences of each figure.
func resample(s [2]*sample, times int, seed uint64) (differences [NumKinds][]float64) {
	rng := rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15))
	var weights [2][]int
	for i := range s {
		weights[i] = make([]int, len(s[i].talks))
	}
	for range times {
		for i := range weights {
			clear(weights[i])
			for range weights[i] {
				weights[i][rng.IntN(len(weights[i]))]++
			}
		}
		for k := range NumKinds {
			if d := s[1].figure(k, weights[1]) - s[0].figure(k, weights[0]); !math.IsNaN(d) {
				differences[k] = append(differences[k], d)
			}
		}
	}
	return differences
}

// interval returns the 2.5th and 97.5th percentile of the differences, and twice the
// share of them on the other side of 0; NaN when there are none.
func interval(d []float64) (low, high, noise float64) {
	if len(d) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	slices.Sort(d)
	below, above := 1, 1 // no finite number of resamples shows that a chance is 0
	for _, x := range d {
		if x <= 0 {
			below++
		}
		if x >= 0 {
			above++
		}
	}
	n := float64(len(d) + 1)
	at := func(share float64) float64 { return d[min(int(share*float64(len(d))), len(d)-1)] }
	return at(0.025), at(0.975), min(1, 2*float64(min(below, above))/n)
}

// verdict says in words what the mean time to the first token shows.
func (r *Report) verdict(names [2]string, running bool) string {
	f := &r.Figures[FirstTokenMean]
	if math.IsNaN(f.Low) {
		early, far := "Too early to tell", " so far"
		if !running {
			early, far = "Too few to tell", ""
		}
		return fmt.Sprintf("%s: %d and %d conversations%s, at least %d of each with an answer are needed.", early, r.Arms[0].Conversations, r.Arms[1].Conversations, far, enough)
	}
	if f.Low <= 0 && f.High >= 0 {
		return fmt.Sprintf("No difference can be told: the mean first token of %s comes between %.2f s sooner and %.2f s later than that of %s.", names[1], max(0, -f.Low), max(0, f.High), names[0])
	}
	better, low, high := names[0], f.Low, f.High
	if f.High < 0 {
		better, low, high = names[1], -f.High, -f.Low
	}
	return fmt.Sprintf("%s is better by %.2f to %.2f s to the first token, on the mean of all turns; %s chance that this is noise.", better, low, high, percent(f.Noise))
}

// unansweredTells is by how much the shares of turns without a first token may differ
// before a verdict must say so: who gave up or failed is in no mean, so that the arm which
// loses its slowest turns looks quicker than it is.
const unansweredTells = 0.02

// unanswered warns when one arm has left clearly more turns without a first token.
func (r *Report) unanswered(names [2]string) string {
	a, b := &r.Arms[0], &r.Arms[1]
	if a.Turns == 0 || b.Turns == 0 {
		return ""
	}
	shares := [2]float64{float64(a.Failed) / float64(a.Turns), float64(b.Failed) / float64(b.Turns)}
	worse := 0
	if shares[1] > shares[0] {
		worse = 1
	}
	if shares[worse]-shares[1-worse] <= unansweredTells || r.Arms[worse].Failed < enough {
		return ""
	}
	return fmt.Sprintf(" But %s left %d of %d turns without a first token, %s %d of %d; these are in no figure.", names[worse], r.Arms[worse].Failed, r.Arms[worse].Turns, names[1-worse], r.Arms[1-worse].Failed, r.Arms[1-worse].Turns)
}

func percent(share float64) string {
	if share < 0.01 {
		return "less than 1 %"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}
