package load

import (
	"math/rand/v2"
	"time"
)

// Kind is what a conversation is within its client's session.
type Kind string

// The kinds.
const (
	Main  Kind = "main"  // a main conversation
	Agent Kind = "agent" // a subagent's
	Side  Kind = "side"  // a title, a probe, a classifier: one request beside the others
)

// Turn is one turn of a conversation.
type Turn struct {
	// Number within the conversation, from 1.
	Number int
	// Think is the pause before it: since the answer before it or, for a first turn,
	// since the slot's last conversation ended.
	Think time.Duration
	// At is the earliest time at which it is sent, since the load began.
	At time.Duration
	// Rewritten says that the history is gone: the prompt is the shared one and Tokens.
	// So it is with each first turn.
	Rewritten bool
	// Tokens that the turn adds to the history.
	Tokens int
	// Output tokens of the answer.
	Output int
	// Agents are conversations that begin after the answer and end before the next turn.
	Agents []*Talk
	// Last says that the conversation ends with it.
	Last bool
}

// Talk is one conversation as it unfolds.
type Talk struct {
	// ID is the client's name for it, drawn from the seed.
	ID uint64
	// Kind of the conversation.
	Kind Kind
	// Shared names its shared prompt: conversations with the same name have the same.
	Shared string
	// SharedTokens is the length of that prompt.
	SharedTokens int

	load    *Load
	rng     *rand.Rand
	number  int
	context int // tokens of history, the last answer included
	turns   []Turn
}

// Begin returns the conversation that a slot holds as its number-th, both from 0.
func (l *Load) Begin(seed uint64, slot, number int) *Talk {
	rng := rand.New(rand.NewPCG(seed, uint64(slot)<<32|uint64(number)))
	return l.begin(rng, Main, "main")
}

func (l *Load) begin(rng *rand.Rand, kind Kind, shared string) *Talk {
	return &Talk{ID: rng.Uint64(), Kind: kind, Shared: shared, SharedTokens: l.SharedTokens, load: l, rng: rng}
}

// Start returns when the first conversation of a slot begins.
func (l *Load) Start(seed uint64, slot int) time.Duration {
	rng := rand.New(rand.NewPCG(seed^0x57a6, uint64(slot)))
	return time.Duration(rng.Int64N(int64(l.Stagger) + 1))
}

// Next returns the next turn. False means that the conversation has ended.
func (t *Talk) Next() (Turn, bool) {
	if t.load == nil {
		if t.number == len(t.turns) {
			return Turn{}, false
		}
		t.number++
		return t.turns[t.number-1], true
	}
	l := t.load
	if l.Turns > 0 && t.number == l.Turns {
		return Turn{}, false
	}
	t.number++
	turn := Turn{
		Number: t.number, Think: l.Think.draw(t.rng), Tokens: l.TurnTokens, Output: l.OutputTokens,
		Last: l.Turns > 0 && t.number == l.Turns,
	}
	switch {
	case t.number == 1:
		turn.Rewritten, turn.Tokens = true, l.First.draw(t.rng)
	case l.MaxContext > 0 && t.context+turn.Tokens+turn.Output > l.MaxContext:
		turn.Rewritten, turn.Tokens = true, l.SummaryTokens+l.TurnTokens
	}
	if turn.Rewritten {
		t.context = t.SharedTokens
	}
	t.context += turn.Tokens + turn.Output
	if a := l.Agents; a != nil && t.number%a.Every == 0 && !turn.Last {
		for range a.Count {
			rng := rand.New(rand.NewPCG(t.rng.Uint64(), t.rng.Uint64()))
			turn.Agents = append(turn.Agents, a.Load.begin(rng, Agent, "agent"))
		}
	}
	return turn, true
}
