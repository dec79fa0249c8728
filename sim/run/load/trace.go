package load

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"time"
)

// A Line is one request of a recorded trace. A trace is a file of JSON lines with
// these fields, in the order of their times. It holds no content.
type Line struct {
	// At is when the request came, in seconds since the trace began.
	At float64 `json:"at"`
	// Done is when its answer ended; 0 when not recorded. With it the next turn of the
	// conversation is sent as long after the answer as the client took. Without it
	// the next turn is sent at its own time, but not before the answer has ended.
	Done float64 `json:"done,omitempty"`
	// Conversation is any name that tells it from others.
	Conversation string `json:"conversation"`
	// Kind is main (also when empty), agent or side.
	Kind Kind `json:"kind,omitempty"`
	// Prompt is the whole prompt in tokens, Output the answer. A prompt that is shorter
	// than the last one of its conversation with its answer means that the client has
	// rewritten its history: nothing of it is in the prompt but the shared part.
	Prompt int `json:"prompt"`
	Output int `json:"output"`
	// Shared names the part that prompts of several conversations begin with, and
	// SharedTokens is its length. Empty and 0 when nothing is shared.
	Shared       string `json:"shared,omitempty"`
	SharedTokens int    `json:"sharedTokens,omitempty"`
}

// Trace is a recorded load. It is played once, from its beginning.
type Trace struct {
	talks []Talk
	long  int
}

// Bounds of a trace.
const (
	maxTraceLine     = 1 << 16
	maxTraceRequests = 1_000_000
	maxTraceTokens   = 1 << 24
	maxTraceSeconds  = 30 * 86400
)

// ReadTrace reads JSON lines. An error says which line is wrong and how.
func ReadTrace(r io.Reader) (*Trace, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxTraceLine)
	tr := &Trace{}
	open := make(map[string]*recording)
	var order []*recording
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var l Line
		err := json.Unmarshal(lines.Bytes(), &l)
		if err == nil {
			err = l.validate()
		}
		if err == nil && n > maxTraceRequests {
			err = fmt.Errorf("a trace has at most %d requests", maxTraceRequests)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d of the trace: %w", n, err)
		}
		rec := open[l.Conversation]
		if rec == nil {
			rec = newRecording(l)
			open[l.Conversation] = rec
			order = append(order, rec)
		}
		if err := rec.add(l); err != nil {
			return nil, fmt.Errorf("line %d of the trace: %w", n, err)
		}
		tr.long = max(tr.long, l.Prompt+l.Output)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	if len(order) == 0 {
		return nil, errors.New("the trace has no request")
	}
	for _, rec := range order {
		rec.talk.turns[len(rec.talk.turns)-1].Last = true
		tr.talks = append(tr.talks, rec.talk)
	}
	return tr, nil
}

// Conversations returns how many the trace has.
func (t *Trace) Conversations() int { return len(t.talks) }

// Longest returns the most tokens that a request has, its answer included.
func (t *Trace) Longest() int { return t.long }

// Begin returns the i-th conversation from its beginning.
func (t *Trace) Begin(i int) *Talk {
	talk := t.talks[i]
	return &talk
}

func (l Line) validate() error {
	switch {
	case l.Conversation == "":
		return errors.New("it names no conversation")
	case l.Kind != "" && l.Kind != Main && l.Kind != Agent && l.Kind != Side:
		return fmt.Errorf("the kind %q does not exist; say main, agent or side", l.Kind)
	case !(l.At >= 0) || l.At > maxTraceSeconds || l.Done != 0 && !(l.Done >= l.At) || l.Done > maxTraceSeconds:
		return fmt.Errorf("its times (%g to %g s) cannot be", l.At, l.Done)
	case l.Prompt < 1 || l.Output < 1 || l.Prompt > maxTraceTokens || l.Output > maxTraceTokens:
		return fmt.Errorf("%d prompt and %d output tokens cannot be", l.Prompt, l.Output)
	case l.SharedTokens < 0 || l.SharedTokens >= l.Prompt || l.SharedTokens > 0 && l.Shared == "":
		return fmt.Errorf("%d shared tokens named %q of a prompt of %d cannot be", l.SharedTokens, l.Shared, l.Prompt)
	}
	return nil
}

// recording collects a conversation of a trace.
type recording struct {
	talk     Talk
	at, done float64
	context  int
}

func newRecording(l Line) *recording {
	h := fnv.New64a()
	h.Write([]byte(l.Conversation))
	kind := l.Kind
	if kind == "" {
		kind = Main
	}
	return &recording{talk: Talk{ID: h.Sum64() | 1, Kind: kind, Shared: l.Shared, SharedTokens: l.SharedTokens}}
}

func (r *recording) add(l Line) error {
	if l.At < r.at {
		return fmt.Errorf("conversation %q goes back in time, from %g to %g s", l.Conversation, r.at, l.At)
	}
	turn := Turn{Number: len(r.talk.turns) + 1, Output: l.Output, Tokens: l.Prompt - r.context}
	if turn.Number == 1 || turn.Tokens < 1 {
		turn.Rewritten, turn.Tokens = true, l.Prompt-r.talk.SharedTokens
		if turn.Tokens < 1 {
			return fmt.Errorf("a prompt of %d tokens does not hold the shared %d of its conversation", l.Prompt, r.talk.SharedTokens)
		}
	}
	if turn.Number > 1 && r.done > 0 {
		turn.Think = max(0, seconds(l.At-r.done))
	} else {
		turn.At = seconds(l.At)
	}
	r.at, r.done, r.context = l.At, l.Done, l.Prompt+l.Output
	r.talk.turns = append(r.talk.turns, turn)
	return nil
}

// Span returns the time from the beginning of the trace to its last recorded request.
func (t *Trace) Span() time.Duration {
	last := time.Duration(0)
	for _, talk := range t.talks {
		at := time.Duration(0)
		for _, turn := range talk.turns {
			at = max(at+turn.Think, turn.At)
		}
		last = max(last, at)
	}
	return last
}
