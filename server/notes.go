package server

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/lmwarden/lmwarden/server/face"
	"github.com/lmwarden/lmwarden/server/stats"
)

// box stands for no replica in an event that concerns the whole model.
const box = -1

// note remembers what somebody did, beside what happened by itself: who reads the events
// later sees the cause before the effect.
func (c *control) note(kind, model string, replica int, format string, args ...any) {
	c.events.Add(stats.Event{Severity: stats.Note, Kind: kind, Model: model, Replica: replica, Message: fmt.Sprintf(format, args...)})
}

// logEvents writes warnings and errors among the events to the daemon's log, until ctx
// ends: who starts it in a terminal sees there why a model does not run.
func (c *control) logEvents(ctx context.Context) {
	for last := uint64(0); ; {
		events, err := c.events.After(ctx, "", last)
		if err != nil {
			return
		}
		for _, e := range events {
			last = e.ID
			switch e.Severity {
			case stats.Warning:
				c.log.Warn().Str("kind", e.Kind).Msg(e.Message)
			case stats.Error:
				c.log.Error().Str("kind", e.Kind).Msg(e.Message)
			}
		}
	}
}

// noteChange remembers a change of the settings of something when there was one: what is
// "Routing" and of "qwen3-4b". Names are the fields that were asked for.
func (c *control) noteChange(kind, model, what, of string, before, after proto.Message, names []string) {
	var changes []string
	for _, name := range names {
		was, errWas := face.Get(before, name)
		is, errIs := face.Get(after, name)
		if errWas != nil || errIs != nil || was == is {
			continue
		}
		changes = append(changes, fmt.Sprintf("%s from %s to %s", name, or(was, "its default"), or(is, "its default")))
	}
	if len(changes) > 0 {
		c.note(kind, model, box, "%s of %s changed: %s.", what, of, strings.Join(changes, ", "))
	}
}
