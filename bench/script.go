package bench

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/lmwarden/lmwarden/sim/run/load"
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

// Script is one conversation of a load: who it is and what it says, turn by turn. The
// same seed, salt and conversation give the same script.
type Script struct {
	// ID is the conversation's id, in the shape of a UUID.
	ID string
	// Kind is what the conversation is within its client's session.
	Kind load.Kind
	// System is the prompt that all conversations of its kind and seed share.
	System string

	talk  *load.Talk
	texts *rand.Rand
	ratio float64
	seed  uint64
	salt  string
}

// Said is one turn of a script.
type Said struct {
	load.Turn
	// Text is what the user says.
	Text string
	// Agents are the scripts of the conversations that begin after the answer.
	Agents []*Script
}

// NewScript writes the conversation that a slot holds as its number-th, both from 0.
// The salt changes the text of a conversation but not its sizes, so that two arms
// carry the same load and neither finds the other's prompts in a cache; the system
// prompt depends on the seed alone.
func NewScript(l Load, seed uint64, salt string, slot, number int) *Script {
	return newScript(l.Begin(seed, slot, number), l.BytesPerToken, seed, salt)
}

func newScript(talk *load.Talk, bytesPerToken float64, seed uint64, salt string) *Script {
	texts := rand.New(rand.NewPCG(seed^hash(salt), talk.ID))
	return &Script{
		ID: uuid(texts), Kind: talk.Kind,
		System: text(rand.New(rand.NewPCG(seed, hash(talk.Shared))), size(talk.SharedTokens, bytesPerToken)),
		talk:   talk, texts: texts, ratio: bytesPerToken, seed: seed, salt: salt,
	}
}

// Next writes the next turn. False means that the conversation has ended.
func (s *Script) Next() (Said, bool) {
	turn, ok := s.talk.Next()
	if !ok {
		return Said{}, false
	}
	said := Said{Turn: turn, Text: text(s.texts, size(turn.Tokens, s.ratio))}
	for _, talk := range turn.Agents {
		said.Agents = append(said.Agents, newScript(talk, s.ratio, s.seed, s.salt))
	}
	return said, true
}

// size is the length of a text of so many tokens, in bytes.
func size(tokens int, bytesPerToken float64) int { return int(float64(tokens)*bytesPerToken + 0.5) }

// hash spreads a name over 64 bits; the empty one changes nothing.
func hash(name string) uint64 {
	if name == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(name))
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
