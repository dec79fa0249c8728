package vllmd

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPrefix checks that a longer text begins with the tokens of a shorter one, but for
// the shorter one's last.
func TestPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.String().Draw(t, "text")
		b := a + rapid.String().Draw(t, "more")
		ta, tb := tokenize(nil, a), tokenize(nil, b)
		if n := max(0, len(ta)-1); len(tb) < n || !slices.Equal(ta[:n], tb[:n]) {
			t.Fatalf("%v is not the beginning of %v", ta, tb)
		}
	})
}

// TestAnswerTokens checks that an answer sent back as text has the tokens with which it
// was generated, that it keeps its limit, and that other prompts get other answers.
func TestAnswerTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 1000).Draw(t, "limit")
		sum := rapid.Uint64().Draw(t, "sum")
		least := rapid.IntRange(0, 1000).Draw(t, "least")
		a := newAnswer(sum, limit, least, rapid.Bool().Draw(t, "ignore"))
		if a.ended && len(a.ids) <= least {
			t.Fatalf("it ended after %d tokens, at least %d were asked for", len(a.ids), least)
		}
		ids := a.ids
		if len(ids) > limit || (!a.ended && len(ids) != limit) {
			t.Fatalf("%d tokens with a limit of %d, ended %t", len(ids), limit, a.ended)
		}
		if a.ended {
			ids = ids[:len(ids)-1]
		}
		if got := tokenize(nil, a.text(0, len(a.pieces))); !slices.Equal(got, ids) {
			t.Fatalf("the text has the tokens %v, generated were %v", got, ids)
		}
		if b := newAnswer(sum+1, limit, 0, false); limit > 20 && b.text(0, 10) == a.text(0, 10) {
			t.Fatal("two prompts got the same answer")
		}
	})
}

func TestBytesPerToken(t *testing.T) {
	text := strings.Repeat("Read the file internal/server/handler.go, then fix the failing test and run it again. ", 20)
	if per := float64(len(text)) / float64(len(tokenize(nil, text))); per < 3.2 || per > 4.8 {
		t.Errorf("%.2f bytes a token, want about 4", per)
	}
}
