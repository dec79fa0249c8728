package vllmd

import (
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"
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
	ended  bool // by itself, or by what the client said should end it
	stop   any  // the text or the token id of the client's that ended it; nil for its own end
	shown  string
	ends   []int // bytes of shown and hidden text up to and with each token
	hold   int   // bytes that a stream keeps back: they may be the beginning of a stop
	tool   *toolCall
}

// limits is what bounds an answer.
type limits struct {
	tokens      int // at most
	least       int // min_tokens
	ignoreEnd   bool
	stops       []string
	includeStop bool
	stopIDs     []uint32
}

// newAnswer returns the answer to the prompt with that sum: at most as many tokens as
// the limits allow, at least one more than the least if they allow that, and exactly as
// many as they allow when it may not end by itself.
func newAnswer(sum uint64, l limits) answer {
	rng := rand.New(rand.NewPCG(sum, 1))
	n := shortestAnswer + rng.IntN(longestAnswer-shortestAnswer+1)
	n = max(n, l.least+1)
	a := answer{ended: !l.ignoreEnd && n <= l.tokens}
	if !a.ended {
		n = l.tokens
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
	a.measure()
	a.cut(l)
	return a
}

// spoken returns the answer that says a text and then ends, if it fits.
func spoken(text string, l limits) answer {
	var a answer
	a.pieces = append(split(nil, text), "")
	a.ids = make([]uint32, len(a.pieces))
	for i, p := range a.pieces {
		a.ids[i] = tokenID(p)
	}
	a.ids[len(a.ids)-1] = tokEnd
	a.ended = len(a.ids) <= l.tokens
	if !a.ended {
		a.pieces, a.ids = a.pieces[:l.tokens], a.ids[:l.tokens]
	}
	a.measure()
	return a
}

// measure notes where each token's text ends.
func (a *answer) measure() {
	a.shown = strings.Join(a.pieces, "")
	a.ends = make([]int, len(a.pieces))
	at := 0
	for i, p := range a.pieces {
		at += len(p)
		a.ends[i] = at
	}
}

// cut ends the answer at the first token with which it has said what should end it.
func (a *answer) cut(l limits) {
	for _, s := range l.stops {
		if !l.includeStop {
			a.hold = max(a.hold, len(s)-1)
		}
	}
	if len(l.stops)+len(l.stopIDs) == 0 {
		return
	}
	for i := l.least; i < len(a.ids); i++ {
		if slices.Contains(l.stopIDs, a.ids[i]) {
			a.end(i, int64(a.ids[i]), a.ends[i]-len(a.pieces[i]))
			return
		}
		for _, s := range l.stops {
			// A stop that this token completes ends in its text.
			from := max(0, a.ends[i]-len(a.pieces[i])-len(s)+1)
			if at := strings.Index(a.shown[from:a.ends[i]], s); at >= 0 {
				at += from
				if l.includeStop {
					at += len(s)
				}
				a.end(i, s, at)
				return
			}
		}
	}
}

// end makes the token with that index the last one, and shows so many bytes.
func (a *answer) end(index int, stop any, shown int) {
	a.ended, a.stop = true, stop
	a.pieces, a.ids, a.ends = a.pieces[:index+1], a.ids[:index+1], a.ends[:index+1]
	a.shown = a.shown[:shown]
}

// visible is how many bytes of the text a client has been shown after n tokens.
func (a *answer) visible(n int) int {
	if n == len(a.ids) {
		return len(a.shown)
	}
	at := min(max(0, a.ends[n-1]-a.hold), len(a.shown))
	for at > 0 && at < len(a.shown) && !utf8.RuneStart(a.shown[at]) {
		at--
	}
	return at
}
