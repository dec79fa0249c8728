package load

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// tell returns a conversation to its end, or its first turns.
func tell(t *Talk, most int) []Turn {
	var turns []Turn
	for len(turns) < most {
		turn, ok := t.Next()
		if !ok {
			break
		}
		turns = append(turns, turn)
	}
	return turns
}

// TestNamedLoads holds every named load to its own description.
func TestNamedLoads(t *testing.T) {
	seen := make(map[string]bool)
	for _, l := range Named() {
		if seen[l.Name] || l.About == "" {
			t.Errorf("load %q has a name twice or no description", l.Name)
		}
		seen[l.Name] = true
		if err := l.Validate(); err != nil {
			t.Errorf("%s: %v", l.Name, err)
		}
		found, err := Find(l.Name)
		if err != nil || !reflect.DeepEqual(found, l) {
			t.Errorf("%s is not found: %v", l.Name, err)
		}
		data, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var back Load
		if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, l) {
			t.Errorf("%s comes back from JSON as %+v: %v", l.Name, back, err)
		}
	}
	for name, mean := range map[string]time.Duration{"think-exp-5": 5 * time.Second, "think-exp-30": 30 * time.Second, "think-uniform": 10500 * time.Millisecond, "think-mix": 10420 * time.Millisecond} {
		if l, err := Find(name); err != nil || (l.Think.Mean()-mean).Abs() > time.Millisecond {
			t.Errorf("%s thinks %s on average, want %s", name, l.Think.Mean(), mean)
		}
	}
	if _, err := Find("nothing"); err == nil || !strings.Contains(err.Error(), "farm-27b") {
		t.Errorf("an unknown load gave %v, want the names that exist", err)
	}
}

// TestTalk holds conversations of all loads to their bounds and to their seed.
func TestTalk(t *testing.T) {
	loads := Named()
	rapid.Check(t, func(t *rapid.T) {
		l := loads[rapid.IntRange(0, len(loads)-1).Draw(t, "load")]
		seed, slot, number := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 99).Draw(t, "slot"), rapid.IntRange(0, 99).Draw(t, "number")
		talk := l.Begin(seed, slot, number)
		turns := tell(talk, 200)
		if again := tell(l.Begin(seed, slot, number), 200); len(again) != len(turns) || again[0].Tokens != turns[0].Tokens || again[len(again)-1].Think != turns[len(turns)-1].Think {
			t.Fatal("the same seed told two conversations")
		}
		if l.Begin(seed, slot, number+1).ID == talk.ID || l.Begin(seed, slot+1, number).ID == talk.ID {
			t.Fatal("two conversations have one name")
		}
		if l.Turns > 0 && (len(turns) != l.Turns || !turns[len(turns)-1].Last) || l.Turns == 0 && len(turns) != 200 {
			t.Fatalf("%d turns of %d", len(turns), l.Turns)
		}
		context := 0
		for i, turn := range turns {
			if turn.Number != i+1 || turn.Tokens < 1 || turn.Output < 1 || turn.Think < 0 {
				t.Fatalf("turn %+v", turn)
			}
			if turn.Rewritten {
				context = l.SharedTokens
			}
			context += turn.Tokens + turn.Output
			if context > l.Longest() {
				t.Fatalf("turn %d grows to %d tokens; the longest is said to be %d", turn.Number, context, l.Longest())
			}
			for _, agent := range turn.Agents {
				if turn.Last || agent.Kind != Agent || agent.ID == talk.ID || len(tell(agent, 200)) != l.Agents.Load.Turns {
					t.Fatalf("agent %+v of turn %d", agent, turn.Number)
				}
			}
		}
		if !turns[0].Rewritten || turns[0].Tokens < l.First.Min || turns[0].Tokens > l.First.Max {
			t.Fatalf("the first turn is %+v", turns[0])
		}
	})
}

// TestEndless summarises at the limit, again and again.
func TestEndless(t *testing.T) {
	l, err := Find("endless")
	if err != nil {
		t.Fatal(err)
	}
	rewrites := 0
	for _, turn := range tell(l.Begin(1, 0, 0), 300) {
		if turn.Rewritten && turn.Number > 1 {
			rewrites++
			if turn.Tokens != l.SummaryTokens+l.TurnTokens {
				t.Errorf("a summary of %d tokens", turn.Tokens)
			}
		}
	}
	// From 7.9k to 30k at 656 a turn: every 33 turns or so, the first a little earlier.
	if rewrites < 8 || rewrites > 10 {
		t.Errorf("%d summaries in 300 turns", rewrites)
	}
}

// TestThink holds drawn times to what they say of themselves.
func TestThink(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range []string{"fixed:0.4", "fixed:0", "exp:5", "exp:0.25", "uniform:1-20", "uniform:2-2", "mix"} {
		think, err := ParseThink(s)
		if err != nil || think.String() != s {
			t.Errorf("%q reads as %q: %v", s, think, err)
		}
		sum := 0.0
		const n = 20_000
		for range n {
			d := think.draw(rng)
			if d < 0 {
				t.Fatalf("%s drew %s", s, d)
			}
			sum += d.Seconds()
		}
		if mean := sum / n; math.Abs(mean-think.Mean().Seconds()) > 0.05*think.Mean().Seconds()+1e-9 {
			t.Errorf("%s has the mean %.2f s, says %s", s, mean, think.Mean())
		}
	}
	for _, s := range []string{"", "exp", "exp:", "exp:-1", "exp:NaN", "exp:1e9", "uniform:5", "uniform:5-1", "uniform:-1-2", "often:3", "mix:1"} {
		if think, err := ParseThink(s); err == nil {
			t.Errorf("%q reads as %s", s, think)
		}
	}
}

// TestStart spreads the slots over the stagger.
func TestStart(t *testing.T) {
	l := Seed()
	if at := l.Start(1, 5); at != 0 {
		t.Errorf("without a stagger slot 5 begins at %s", at)
	}
	l.Stagger = time.Minute
	low, high := time.Hour, time.Duration(0)
	for slot := range 200 {
		low, high = min(low, l.Start(1, slot)), max(high, l.Start(1, slot))
	}
	if low < 0 || low > 3*time.Second || high > time.Minute || high < 57*time.Second {
		t.Errorf("200 slots begin between %s and %s", low, high)
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Load){
		"0 sessions":        func(l *Load) { l.Sessions = 0 },
		"shared prompt":     func(l *Load) { l.SharedTokens = -1 },
		"first message":     func(l *Load) { l.First.Min = 0 },
		"below the smalle":  func(l *Load) { l.First.Max = 5 },
		"-1 turns":          func(l *Load) { l.Turns = -1 },
		"without an end":    func(l *Load) { l.Turns = 0 },
		"a turn needs":      func(l *Load) { l.TurnTokens = 0 },
		"an answer needs":   func(l *Load) { l.OutputTokens = 0 },
		"begin over":        func(l *Load) { l.Stagger = -1 },
		"begin every":       func(l *Load) { l.StartEvery = -1 },
		"no room":           func(l *Load) { l.MaxContext, l.SummaryTokens = 100, 50 },
		"a summary":         func(l *Load) { l.MaxContext = 100_000 },
		"need a count":      func(l *Load) { l.Agents = &Agents{Load: Seed()} },
		"begin agents":      func(l *Load) { l.Agents = &Agents{1, 1, Load{Agents: &Agents{}}} },
		"the agents:":       func(l *Load) { l.Agents = &Agents{1, 1, Load{Turns: 1}} },
		"conversation must": func(l *Load) { l.Agents = &Agents{1, 1, Load{}} },
	} {
		l := Seed()
		change(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestTrace reads a small trace back as conversations.
func TestTrace(t *testing.T) {
	tr, err := ReadTrace(strings.NewReader(`
{"at":0,"done":4,"conversation":"a","prompt":1000,"output":50,"shared":"s","sharedTokens":300}
{"at":1,"conversation":"b","prompt":900,"output":20,"shared":"s","sharedTokens":300}
{"at":6.5,"done":7,"conversation":"a","prompt":1200,"output":60}

{"at":8,"conversation":"t","kind":"side","prompt":40,"output":5}
{"at":9,"conversation":"a","prompt":500,"output":10}
{"at":10,"conversation":"b","prompt":1000,"output":20}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]Turn{
		{
			{Number: 1, Rewritten: true, Tokens: 700, Output: 50},
			{Number: 2, Think: 2500 * time.Millisecond, Tokens: 150, Output: 60},
			{Number: 3, Think: 2 * time.Second, Rewritten: true, Tokens: 200, Output: 10, Last: true},
		},
		{
			{Number: 1, At: time.Second, Rewritten: true, Tokens: 600, Output: 20},
			{Number: 2, At: 10 * time.Second, Tokens: 80, Output: 20, Last: true},
		},
		{{Number: 1, At: 8 * time.Second, Rewritten: true, Tokens: 40, Output: 5, Last: true}},
	}
	var got [][]Turn
	for i := range tr.Conversations() {
		got = append(got, tell(tr.Begin(i), 10))
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Talk{})); diff != "" {
		t.Error(diff)
	}
	if tr.Begin(2).Kind != Side || tr.Begin(0).Kind != Main || tr.Begin(0).ID == tr.Begin(1).ID || tr.Longest() != 1260 || tr.Span() != 10*time.Second {
		t.Errorf("kinds %s and %s, longest %d, span %s", tr.Begin(2).Kind, tr.Begin(0).Kind, tr.Longest(), tr.Span())
	}
}

func TestTraceRefusals(t *testing.T) {
	good := `{"at":5,"conversation":"a","prompt":100,"output":5}` + "\n"
	for line, want := range map[string]string{
		``:                     "no request",
		good + `{"at":`:        "line 2",
		`{"at":1,"prompt":5}`:  "names no conversation",
		`{"conversation":"a"}`: "tokens cannot be",
		good + strings.Replace(good, "5", "4", 1):                                                                                        "goes back in time",
		`{"conversation":"a","prompt":5,"output":1,"kind":"x"}`:                                                                          "kind",
		`{"conversation":"a","prompt":5,"output":1,"at":-1}`:                                                                             "times",
		`{"conversation":"a","prompt":5,"output":1,"at":9,"done":3}`:                                                                     "times",
		`{"conversation":"a","prompt":5,"output":1,"shared":"s","sharedTokens":5}`:                                                       "shared",
		`{"conversation":"a","prompt":5,"output":1,"sharedTokens":2}`:                                                                    "shared",
		`{"conversation":"a","prompt":9,"output":1,"shared":"s","sharedTokens":5}` + "\n" + `{"conversation":"a","prompt":3,"output":1}`: "does not hold",
	} {
		if _, err := ReadTrace(strings.NewReader(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gave %v, want an error with %q", line, err, want)
		}
	}
}

// FuzzTrace reads anything; what it accepts can be played to its end.
func FuzzTrace(f *testing.F) {
	f.Add(`{"at":0,"done":4,"conversation":"a","prompt":1000,"output":50,"shared":"s","sharedTokens":300}`)
	f.Add(`{"at":1e300,"conversation":"a","prompt":1,"output":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := ReadTrace(strings.NewReader(text))
		if err != nil {
			return
		}
		for i := range tr.Conversations() {
			talk, context := tr.Begin(i), 0
			for {
				turn, ok := talk.Next()
				if !ok {
					break
				}
				if turn.Rewritten {
					context = talk.SharedTokens
				}
				context += turn.Tokens + turn.Output
				if turn.Tokens < 1 || turn.Think < 0 || turn.At < 0 || context > tr.Longest() {
					t.Fatalf("turn %+v of %d tokens, longest %d", turn, context, tr.Longest())
				}
			}
		}
	})
}
