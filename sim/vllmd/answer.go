package vllmd

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// words that answers are made of. Each with a space before it is one token, so that an
// answer sent back in the next turn has the tokens with which it was generated.
var words = shortWords(`
	the a file is in test line code now run done next check fix build state cache
	block step first last then each when with from into over under after new
	old same other more less read write call send wait hold keep move find show list
	store point value count size time rate load path name type field error case loop
	set map key node tree graph edge root leaf left right start stop end open
	close lock free used full empty part whole one two three four five six seven`)

// shortWords keeps the words that are one token with their space.
func shortWords(text string) []string {
	return slices.DeleteFunc(strings.Fields(text), func(w string) bool { return len(w) >= longestToken })
}

// Answers that end by themselves have at least shortestAnswer tokens and at most
// longestAnswer, the one that ends it included.
const (
	shortestAnswer = 128
	longestAnswer  = 640
)

// answer is what the model will say, decided before the first token is computed.
type answer struct {
	pieces []string // text of each token
	ids    []uint32
	ended  bool // by itself: the last token ends the message and has no text
}

// newAnswer returns the answer to the prompt with that sum: at most limit tokens, at
// least one more than least if the limit allows, and exactly limit when it may not end
// by itself.
func newAnswer(sum uint64, limit, least int, ignoreEnd bool) answer {
	rng := rand.New(rand.NewPCG(sum, 1))
	n := shortestAnswer + rng.IntN(longestAnswer-shortestAnswer+1)
	n = max(n, least+1)
	a := answer{ended: !ignoreEnd && n <= limit}
	if !a.ended {
		n = limit
	}
	a.pieces = make([]string, n)
	a.ids = make([]uint32, n)
	for i := range n {
		piece := " " + words[rng.IntN(len(words))]
		if i == 0 {
			piece = piece[1:]
		}
		a.pieces[i], a.ids[i] = piece, tokenID(piece)
	}
	if a.ended {
		a.pieces[n-1], a.ids[n-1] = "", tokEnd
	}
	return a
}

// text of the tokens from the one with index from up to, not including, to.
func (a answer) text(from, to int) string {
	if to == from+1 {
		return a.pieces[from]
	}
	return strings.Join(a.pieces[from:to], "")
}
