package route

import (
	"encoding/binary"
	"time"
)

// Trial compares two settings on one model. Each conversation that begins while it runs
// is assigned to one of its arms at random and keeps it for all its turns; older
// conversations, side calls and requests without a conversation keep the model's own
// settings and do not take part.
//
// Only what is decided for each conversation alone can be compared side by side:
// Affinity, SpillThreshold, Spill and Policy of an arm count, the rest is the model's.
// Both arms share replicas and caches, so a trial says what a setting does to its
// conversations beside the others, and an arm that wastes caches costs the other one
// too: true differences are at least as large.
type Trial struct {
	ID   uint32 // names the trial in decisions; not 0
	Seed uint64 // of the assignment
	Arms [2]Settings
}

// SetTrial begins a trial, or ends the one that runs when t is nil. All conversations
// go on with the model's settings after the end.
func (c *Core) SetTrial(now time.Time, t *Trial) {
	c.advance(now)
	c.trial = nil
	if t == nil {
		return
	}
	mine := *t
	for i := range mine.Arms {
		mine.Arms[i] = mine.Arms[i].normalized()
	}
	c.trial = &mine
}

// enroll assigns a conversation that begins to an arm of the trial that runs.
func (c *Core) enroll(v *conv) {
	if c.trial == nil {
		return
	}
	low, high := binary.LittleEndian.Uint64(v.key[:8]), binary.LittleEndian.Uint64(v.key[8:])
	v.trial = c.trial.ID
	v.arm = uint8(mix(mix(c.trial.Seed^low)^high) & 1)
}

// settingsOf returns the settings that hold for a ticket: those of the arm of its
// conversation, or the model's.
func (c *Core) settingsOf(t *ticket) *Settings {
	if c.trial == nil || t.conv == none {
		return &c.set
	}
	if v := c.table.at(t.conv); v.trial == c.trial.ID {
		return &c.trial.Arms[v.arm]
	}
	return &c.set
}
