package load

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Size is a number of tokens that each conversation draws for itself.
type Size struct {
	// Min and Max bound it, both included.
	Min int `json:"min"`
	Max int `json:"max"`
	// Log draws the logarithm evenly and not the number: many small, few large ones.
	Log bool `json:"log,omitempty"`
}

// draw returns a number within the bounds.
func (s Size) draw(rng *rand.Rand) int {
	if !s.Log {
		return s.Min + rng.IntN(s.Max-s.Min+1)
	}
	low, high := math.Log(float64(s.Min)), math.Log(float64(s.Max))
	return min(s.Max, max(s.Min, int(math.Exp(low+rng.Float64()*(high-low))+0.5)))
}

// Agents are conversations that a conversation begins for a part of its task. It goes
// on when all of them have ended.
type Agents struct {
	// Every is the number of turns between two flights of them.
	Every int `json:"every"`
	// Count of a flight; all begin at once.
	Count int `json:"count"`
	// Load is the shape of theirs. Sessions, Stagger and StartEvery are not used.
	Load Load `json:"load"`
}

// Load is what the clients do. All token counts are of the engine's tokenizer.
type Load struct {
	// Name and About are for people.
	Name  string `json:"name"`
	About string `json:"about,omitempty"`
	// Sessions is the number of slots, when nobody asks for another.
	Sessions int `json:"sessions"`
	// SharedTokens is the system prompt with its tools, the same in all conversations.
	SharedTokens int `json:"sharedTokens"`
	// First is the first message, which no other conversation has.
	First Size `json:"first"`
	// Turns of a conversation, the first one included; 0 is without an end.
	Turns int `json:"turns"`
	// TurnTokens is what each later turn adds, beside the answer before it.
	TurnTokens int `json:"turnTokens"`
	// OutputTokens is the length of an answer; of a live engine, the most it may have.
	OutputTokens int `json:"outputTokens"`
	// Think is the pause after each answer, also after a conversation's last one.
	Think Think `json:"think"`
	// Stagger spreads the first conversations of all slots evenly over this time; 0
	// begins all at once.
	Stagger time.Duration `json:"staggerNanoseconds,omitempty"`
	// StartEvery lets conversations begin only at multiples of this time, all that are
	// due together; 0 lets each begin when it will.
	StartEvery time.Duration `json:"startEveryNanoseconds,omitempty"`
	// MaxContext is the context at which a client replaces the history by a summary of
	// SummaryTokens, as agents do near a model's limit; 0 never does.
	MaxContext    int `json:"maxContext,omitempty"`
	SummaryTokens int `json:"summaryTokens,omitempty"`
	// Agents that conversations begin; nil for none.
	Agents *Agents `json:"agents,omitempty"`
}

// Seed is the load with which the product's figures were measured: a shared prompt of
// 3,500 tokens, a first message of 7,200 to 7,500, then five turns of 400, answers of
// 256 tokens, 0.4 s between turns.
func Seed() Load {
	return Load{
		Name:     "seed",
		About:    "coding agents: 3.5k shared, 7.2k to 7.5k of their own, five more turns of 400 tokens",
		Sessions: 24, SharedTokens: 3500, First: Size{Min: 7200, Max: 7500}, Turns: 6,
		TurnTokens: 400, OutputTokens: 256, Think: Fixed(400 * time.Millisecond),
	}
}

// Longest returns the most tokens that a conversation has, its last answer included.
func (l Load) Longest() int {
	if l.MaxContext > 0 {
		return max(l.MaxContext, l.SharedTokens+l.First.Max+l.OutputTokens)
	}
	own := l.SharedTokens + l.First.Max + (l.Turns-1)*l.TurnTokens + l.Turns*l.OutputTokens
	if l.Agents != nil {
		own = max(own, l.Agents.Load.Longest())
	}
	return own
}

// Validate returns an error that names every field out of range, or nil.
func (l Load) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(l.Sessions >= 1 && l.Sessions <= 4096, "%d sessions are not possible; choose 1 to 4096", l.Sessions)
	check(l.SharedTokens >= 0, "the shared prompt must have 0 or more tokens, not %d", l.SharedTokens)
	check(l.First.Min >= 1, "the first message needs at least 1 token, not %d", l.First.Min)
	check(l.First.Max >= l.First.Min, "the largest first message (%d tokens) is below the smallest (%d)", l.First.Max, l.First.Min)
	check(l.Turns >= 0, "a conversation cannot have %d turns", l.Turns)
	check(l.TurnTokens >= 1, "a turn needs at least 1 token, not %d", l.TurnTokens)
	check(l.OutputTokens >= 1, "an answer needs at least 1 token, not %d", l.OutputTokens)
	check(l.Stagger >= 0, "the first conversations cannot begin over %s; the time must be 0 or more", l.Stagger)
	check(l.StartEvery >= 0, "conversations cannot begin every %s; the time must be 0 or more", l.StartEvery)
	check(l.Turns > 0 || l.MaxContext > 0, "a conversation without an end needs a context at which it is summarised")
	if l.MaxContext > 0 {
		least := l.SharedTokens + l.SummaryTokens + l.TurnTokens + l.OutputTokens
		check(l.SummaryTokens >= 1, "a summary needs at least 1 token, not %d", l.SummaryTokens)
		check(l.MaxContext >= least, "a context of %d tokens has no room for a summary, a turn and an answer, which need %d", l.MaxContext, least)
	}
	if a := l.Agents; a != nil {
		check(a.Every >= 1 && a.Count >= 1, "agents need a count and a number of turns between their flights, both at least 1")
		check(a.Load.Agents == nil, "agents that begin agents are not possible")
		check(a.Load.Turns >= 1, "an agent's conversation must end")
		check(a.Load.StartEvery == 0, "agents begin when they are asked to")
		if err := a.Load.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("the agents: %w", err))
		}
	}
	return errors.Join(errs...)
}
