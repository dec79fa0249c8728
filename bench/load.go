package bench

import (
	"errors"
	"fmt"

	"github.com/lmwarden/lmwarden/sim/run/load"
)

// Load is what the clients do, and how sizes become text.
type Load struct {
	load.Load
	// BytesPerToken turns sizes into text. Find it with [Client.Calibrate].
	BytesPerToken float64 `json:"bytesPerToken"`
}

// AgentLoad is a coding agent's day: a system prompt of 3,500 tokens that all share,
// a first message of 7,200 to 7,500 tokens, then five turns of 400 tokens with at
// most 256 tokens of answer each and 0.4 s between them.
func AgentLoad() Load { return Load{Load: load.Seed(), BytesPerToken: 4} }

// Validate returns an error that names every field out of range, or nil.
func (l Load) Validate() error {
	err := l.Load.Validate()
	if l.BytesPerToken <= 0 {
		err = errors.Join(err, fmt.Errorf("bytes per token must be above 0, not %g", l.BytesPerToken))
	}
	return err
}
