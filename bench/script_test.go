package bench

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lmwarden/lmwarden/sim/run/load"
)

var uuidShape = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// tell writes a script to its end.
func tell(s *Script) []Said {
	var all []Said
	for {
		said, ok := s.Next()
		if !ok {
			return all
		}
		all = append(all, said)
	}
}

// TestScript holds a conversation to its seed and its sizes.
func TestScript(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Load{
			Load: load.Load{
				Sessions:     1,
				SharedTokens: rapid.IntRange(0, 500).Draw(t, "shared"),
				First:        load.Size{Min: rapid.IntRange(1, 500).Draw(t, "first")},
				TurnTokens:   rapid.IntRange(1, 200).Draw(t, "turn"),
				Turns:        rapid.IntRange(1, 8).Draw(t, "turns"),
				OutputTokens: 1,
			},
			BytesPerToken: rapid.Float64Range(0.5, 8).Draw(t, "bytes per token"),
		}
		l.First.Max = l.First.Min + rapid.IntRange(0, 100).Draw(t, "spread")
		seed := rapid.Uint64().Draw(t, "seed")
		slot, number := rapid.IntRange(0, 99).Draw(t, "slot"), rapid.IntRange(0, 99).Draw(t, "number")

		script, again, other := NewScript(l, seed, "a", slot, number), NewScript(l, seed, "a", slot, number), NewScript(l, seed, "b", slot, number)
		turns, sameTurns, otherTurns := tell(script), tell(again), tell(other)
		if script.ID != again.ID || script.System != again.System {
			t.Fatal("the same seed wrote two conversations")
		}
		if other.ID == script.ID {
			t.Fatal("another salt gave the same conversation")
		}
		if other.System != script.System {
			t.Fatal("the salt changed the shared prompt")
		}
		if !uuidShape.MatchString(script.ID) {
			t.Fatalf("id %q is no UUID", script.ID)
		}
		if len(turns) != l.Turns {
			t.Fatalf("%d turns, want %d", len(turns), l.Turns)
		}
		tokens := func(s string) int { return int(math.Round(float64(len(s)) / l.BytesPerToken)) }
		for i, said := range turns {
			if said.Text != sameTurns[i].Text {
				t.Fatal("the same seed wrote two texts")
			}
			low, high := l.TurnTokens, l.TurnTokens
			if i == 0 {
				low, high = l.First.Min, l.First.Max
			}
			if n := tokens(said.Text); n < low-1 || n > high+1 {
				t.Fatalf("turn %d has %d tokens, want %d to %d", i+1, n, low, high)
			}
			if len(said.Text) != len(otherTurns[i].Text) {
				t.Fatalf("the salt changed the size of turn %d", i+1)
			}
		}
	})
}

// TestScriptsDiffer makes sure that no two conversations share a first message, so
// that only the system prompt can be found in another conversation's cache.
func TestScriptsDiffer(t *testing.T) {
	seen := make(map[string]bool)
	for slot := range 20 {
		for number := range 20 {
			said, _ := NewScript(AgentLoad(), 1, "", slot, number).Next()
			if first := said.Text[:200]; seen[first] {
				t.Fatalf("slot %d conversation %d begins like another one", slot, number)
			} else {
				seen[first] = true
			}
		}
	}
}

// TestLoadValidate names each field that is out of range.
func TestLoadValidate(t *testing.T) {
	l := AgentLoad()
	if err := l.Validate(); err != nil {
		t.Fatalf("the load of an agent is refused: %v", err)
	}
	l.BytesPerToken, l.TurnTokens = 0, 0
	err := l.Validate()
	for _, want := range []string{"bytes per token", "a turn needs"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
