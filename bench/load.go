package bench

import (
	"errors"
	"fmt"
	"time"
)

// Load is the shape of the conversations. All sizes are in tokens of the engine.
type Load struct {
	// SharedTokens is the system prompt that all conversations begin with.
	SharedTokens int `json:"sharedTokens"`
	// FirstMin and FirstMax bound the first message, which no other conversation
	// has; each conversation draws its size evenly between them.
	FirstMin int `json:"firstMin"`
	FirstMax int `json:"firstMax"`
	// TurnTokens is what each later turn adds, beside the answer before it.
	TurnTokens int `json:"turnTokens"`
	// Turns of a conversation, the first one included; at least 1.
	Turns int `json:"turns"`
	// MaxOutputTokens is the most that one answer may have.
	MaxOutputTokens int `json:"maxOutputTokens"`
	// Gap is the time between the end of an answer and the next turn.
	Gap time.Duration `json:"gapNanoseconds"`
	// BytesPerToken turns sizes into text. Find it with [Client.Calibrate].
	BytesPerToken float64 `json:"bytesPerToken"`
}

// AgentLoad is a coding agent's day: a system prompt of 3,500 tokens that all share,
// a first message of 7,200 to 7,500 tokens, then five turns of 400 tokens with at
// most 256 tokens of answer each and 0.4 s between them.
func AgentLoad() Load {
	return Load{
		SharedTokens:    3500,
		FirstMin:        7200,
		FirstMax:        7500,
		TurnTokens:      400,
		Turns:           6,
		MaxOutputTokens: 256,
		Gap:             400 * time.Millisecond,
		BytesPerToken:   4,
	}
}

// Validate returns an error that names every field out of range, or nil.
func (l Load) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(l.SharedTokens >= 0, "shared tokens must be 0 or more, not %d", l.SharedTokens)
	check(l.FirstMin >= 1, "the first message needs at least 1 token, not %d", l.FirstMin)
	check(l.FirstMax >= l.FirstMin, "the largest first message (%d tokens) is below the smallest (%d)", l.FirstMax, l.FirstMin)
	check(l.TurnTokens >= 1, "a turn needs at least 1 token, not %d", l.TurnTokens)
	check(l.Turns >= 1, "a conversation needs at least 1 turn, not %d", l.Turns)
	check(l.MaxOutputTokens >= 1, "an answer needs at least 1 token, not %d", l.MaxOutputTokens)
	check(l.Gap >= 0, "the gap between turns must be 0 or more, not %s", l.Gap)
	check(l.BytesPerToken > 0, "bytes per token must be above 0, not %g", l.BytesPerToken)
	return errors.Join(errs...)
}
