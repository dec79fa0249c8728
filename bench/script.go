package bench

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

// words make texts that read a little like a coding session; a tokenizer finds
// about one token in each.
var words = strings.Fields(`
	func return error value index buffer stream test file line call state check
	parse write read open close token cache model batch queue order limit retry
	the a of in to for when then with from each that this not only must before
	after until where which while every other first last next same long short
	fix move rename split merge build run trace log print assert expect match
	list map slice string number field type method struct package module import`)

// Script is one conversation of a load: who it is and what it says. The same seed,
// salt, slot and number give the same script; slot and number give its sizes.
type Script struct {
	// ID is the conversation's id, in the shape of a UUID.
	ID string
	// System is the prompt that all conversations of the seed share.
	System string
	// Turns holds what the user says, turn by turn.
	Turns []string
}

// NewScript writes the conversation that a slot holds as its number-th, both from 0.
// The salt changes the text of a conversation but not its sizes, so that two arms
// carry the same load and neither finds the other's prompts in a cache; the system
// prompt depends on the seed alone.
func NewScript(load Load, seed uint64, salt string, slot, number int) Script {
	sizes := rand.New(rand.NewPCG(seed, uint64(slot)<<32|uint64(number)))
	first := load.FirstMin + sizes.IntN(load.FirstMax-load.FirstMin+1)

	texts := rand.New(rand.NewPCG(seed^saltOf(salt), uint64(slot)<<32|uint64(number)))
	script := Script{
		ID:     uuid(texts),
		System: text(rand.New(rand.NewPCG(seed, 0)), load.bytes(load.SharedTokens)),
		Turns:  make([]string, load.Turns),
	}
	for i := range script.Turns {
		size := load.TurnTokens
		if i == 0 {
			size = first
		}
		script.Turns[i] = text(texts, load.bytes(size))
	}
	return script
}

// bytes is the length of a text of so many tokens.
func (l Load) bytes(tokens int) int { return int(float64(tokens)*l.BytesPerToken + 0.5) }

// saltOf spreads a salt over 64 bits; the empty salt changes nothing.
func saltOf(salt string) uint64 {
	if salt == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(salt))
	return h.Sum64()
}

// text writes exactly size bytes of words in lines.
func text(r *rand.Rand, size int) string {
	var b strings.Builder
	b.Grow(size + 16)
	for line := 0; b.Len() < size; {
		word := words[r.IntN(len(words))]
		b.WriteString(word)
		line += len(word) + 1
		if line > 72 {
			b.WriteByte('\n')
			line = 0
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()[:size]
}

// uuid draws an id in the shape of a random UUID.
func uuid(r *rand.Rand) string {
	hi, lo := r.Uint64(), r.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		hi>>32, hi>>16&0xffff, hi&0xfff, lo>>48&0x3fff|0x8000, lo&0xffffffffffff)
}
