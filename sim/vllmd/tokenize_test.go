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
		a := newAnswer(sum, limits{tokens: limit, least: least, ignoreEnd: rapid.Bool().Draw(t, "ignore")})
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
		if got := tokenize(nil, a.shown); !slices.Equal(got, ids) {
			t.Fatalf("the text has the tokens %v, generated were %v", got, ids)
		}
		if b := newAnswer(sum+1, limits{tokens: limit}); limit > 20 && b.shown[:20] == a.shown[:20] {
			t.Fatal("two prompts got the same answer")
		}
	})
}

// TestStops checks that an answer is cut before the first stop that it would say, that a
// stream never shows a byte that the cut takes back, and that what it shows grows to the
// whole.
func TestStops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum, n := rapid.Uint64().Draw(t, "sum"), rapid.IntRange(1, 60).Draw(t, "limit")
		whole := newAnswer(sum, limits{tokens: n, ignoreEnd: true})
		l := limits{tokens: n, ignoreEnd: true, includeStop: rapid.Bool().Draw(t, "include")}
		for range rapid.IntRange(1, 3).Draw(t, "stops") {
			from := rapid.IntRange(0, len(whole.shown)-1).Draw(t, "from")
			l.stops = append(l.stops, whole.shown[from:rapid.IntRange(from+1, len(whole.shown)).Draw(t, "to")])
		}
		a := newAnswer(sum, l)
		if !a.ended || !slices.Contains(l.stops, a.stop.(string)) || !strings.HasPrefix(whole.shown, a.shown) {
			t.Fatalf("%q with the stops %q is %q, ended by %v", whole.shown, l.stops, a.shown, a.stop)
		}
		last := len(a.ids) - 1
		complete := whole.ends[last] - len(whole.pieces[last]) // what was said before the last token
		for _, s := range l.stops {
			if strings.Contains(whole.shown[:complete], s) {
				t.Fatalf("%q was said before the last token of %q", s, a.shown)
			}
		}
		before := 0
		for i := 1; i <= len(a.ids); i++ {
			shown := a.visible(i)
			if shown < before || shown > len(a.shown) {
				t.Fatalf("%d bytes are shown after %d tokens, %d before, %d in all", shown, i, before, len(a.shown))
			}
			before = shown
		}
		if before != len(a.shown) {
			t.Fatalf("%d of %d bytes are shown at the end", before, len(a.shown))
		}
	})
}

// TestDetokenize checks that tokens turn back into the text that they came from.
func TestDetokenize(t *testing.T) {
	const text = "Read the file main.go,\n\tthen fix it; été \u00fc \u65e5\u672c."
	ids := tokenize(nil, text)
	for _, id := range ids {
		spellings[id].Store(nil) // other tests have met many texts, some with these ids
	}
	if got := detokenize(tokenize(nil, text)); got != text {
		t.Errorf("%q came back as %q", text, got)
	}
	if got := detokenize([]uint32{tokStart, tokEnd, vocabulary, 1 << 31}); !strings.HasPrefix(got, "<|im_start|><|im_end|> ") {
		t.Errorf("special and unknown tokens are %q", got)
	}
}

func TestBytesPerToken(t *testing.T) {
	text := strings.Repeat("Read the file internal/server/handler.go, then fix the failing test and run it again. ", 20)
	if per := float64(len(text)) / float64(len(tokenize(nil, text))); per < 3.2 || per > 4.8 {
		t.Errorf("%.2f bytes a token, want about 4", per)
	}
}
