package bench

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var uuidShape = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// TestScript holds a conversation to its seed and its sizes.
func TestScript(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load := Load{
			SharedTokens:    rapid.IntRange(0, 500).Draw(t, "shared"),
			FirstMin:        rapid.IntRange(1, 500).Draw(t, "first"),
			TurnTokens:      rapid.IntRange(1, 200).Draw(t, "turn"),
			Turns:           rapid.IntRange(1, 8).Draw(t, "turns"),
			MaxOutputTokens: 1,
			BytesPerToken:   rapid.Float64Range(0.5, 8).Draw(t, "bytes per token"),
		}
		load.FirstMax = load.FirstMin + rapid.IntRange(0, 100).Draw(t, "spread")
		seed := rapid.Uint64().Draw(t, "seed")
		slot, number := rapid.IntRange(0, 99).Draw(t, "slot"), rapid.IntRange(0, 99).Draw(t, "number")

		script := NewScript(load, seed, "a", slot, number)
		again := NewScript(load, seed, "a", slot, number)
		if script.ID != again.ID || script.System != again.System || !slices.Equal(script.Turns, again.Turns) {
			t.Fatal("the same seed wrote two conversations")
		}
		other := NewScript(load, seed, "b", slot, number)
		if other.ID == script.ID {
			t.Fatal("another salt gave the same conversation")
		}
		if other.System != script.System {
			t.Fatal("the salt changed the shared prompt")
		}
		if !uuidShape.MatchString(script.ID) {
			t.Fatalf("id %q is no UUID", script.ID)
		}
		if len(script.Turns) != load.Turns {
			t.Fatalf("%d turns, want %d", len(script.Turns), load.Turns)
		}
		tokens := func(s string) int { return int(math.Round(float64(len(s)) / load.BytesPerToken)) }
		for i, said := range script.Turns {
			low, high := load.TurnTokens, load.TurnTokens
			if i == 0 {
				low, high = load.FirstMin, load.FirstMax
			}
			if n := tokens(said); n < low-1 || n > high+1 {
				t.Fatalf("turn %d has %d tokens, want %d to %d", i+1, n, low, high)
			}
			if len(said) != len(other.Turns[i]) {
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
			first := NewScript(AgentLoad(), 1, "", slot, number).Turns[0][:200]
			if seen[first] {
				t.Fatalf("slot %d conversation %d begins like another one", slot, number)
			}
			seen[first] = true
		}
	}
}

// TestLoadValidate names each field that is out of range.
func TestLoadValidate(t *testing.T) {
	if err := AgentLoad().Validate(); err != nil {
		t.Fatalf("the load of an agent is refused: %v", err)
	}
	tests := []struct {
		name   string
		change func(*Load)
		want   string
	}{
		{"no turns", func(l *Load) { l.Turns = 0 }, "at least 1 turn, not 0"},
		{"first message turned round", func(l *Load) { l.FirstMax = 10 }, "(10 tokens) is below the smallest (7200)"},
		{"negative gap", func(l *Load) { l.Gap = -time.Second }, "gap between turns"},
		{"no bytes", func(l *Load) { l.BytesPerToken = 0 }, "bytes per token"},
		{"no answer", func(l *Load) { l.MaxOutputTokens = 0 }, "an answer needs"},
		{"empty turn", func(l *Load) { l.TurnTokens = 0 }, "a turn needs"},
		{"negative prompt", func(l *Load) { l.SharedTokens = -1 }, "shared tokens"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			load := AgentLoad()
			test.change(&load)
			if err := load.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
