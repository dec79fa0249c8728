package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// event is one server-sent event. Its data is decoded, or a string when it is no JSON.
type event struct {
	name string
	data any
}

// step is what one event of a stream must be, or a run of at least one.
type step struct {
	name string // "" for none
	want any
	many bool
}

func once(name string, want any) step { return step{name: name, want: want} }
func many(name string, want any) step { return step{name: name, want: want, many: true} }

// done ends the streams of the chat and completions APIs.
var done = once("", "[DONE]")

// parseEvents splits a stream. Anything but event and data lines is an error.
func parseEvents(stream string) ([]event, error) {
	whole, ok := strings.CutSuffix(stream, "\n\n")
	if !ok {
		return nil, fmt.Errorf("the stream does not end with an empty line: %q", stream[max(0, len(stream)-80):])
	}
	var events []event
	for block := range strings.SplitSeq(whole, "\n\n") {
		var e event
		for line := range strings.SplitSeq(block, "\n") {
			if name, ok := strings.CutPrefix(line, "event: "); ok && e.name == "" && e.data == nil {
				e.name = name
			} else if data, ok := strings.CutPrefix(line, "data: "); ok && e.data == nil {
				e.data = data
				if v, err := decode([]byte(data)); err == nil && data != done.want {
					e.data = v
				}
			} else {
				return nil, fmt.Errorf("unexpected line %q in the event %q", line, block)
			}
		}
		events = append(events, e)
	}
	return events, nil
}

// follow lists where events do not follow the steps: it stops at the first event that
// does not.
func follow(steps []step, events []event) []string {
	i := 0
	var run *step // the run of events before the present one
	for _, s := range steps {
		if i == len(events) {
			return []string{fmt.Sprintf("the stream ends after %d events, want an event %q %s", i, s.name, describe(s.want))}
		}
		found := s.differences(i, events[i])
		if len(found) > 0 && run != nil {
			// It may rather be a broken link of the run.
			if other := run.differences(i, events[i]); len(other) < len(found) {
				found = other
			}
		}
		if len(found) > 0 {
			return found
		}
		i++
		run = nil
		if s.many {
			run = &s
			for i < len(events) && len(s.differences(i, events[i])) == 0 {
				i++
			}
		}
	}
	if i < len(events) {
		return []string{fmt.Sprintf("event %d %q %s comes after the end", i, events[i].name, describe(events[i].data))}
	}
	return nil
}

func (s step) differences(i int, e event) []string {
	if e.name != s.name {
		return []string{fmt.Sprintf("event %d is named %q, want %q", i, e.name, s.name)}
	}
	return differences(fmt.Sprintf("event %d %s", i, s.name), s.want, e.data)
}

// TestFollow checks the instrument: order, runs, and ends.
func TestFollow(t *testing.T) {
	steps := []step{once("begin", object{"n": 0}), many("", object{"n": 1}), done}
	for _, c := range []struct {
		name, stream string
		want         []string
	}{
		{"whole", "event: begin\ndata: {\"n\":0}\n\ndata: {\"n\":1}\n\ndata: {\"n\":1}\n\ndata: [DONE]\n\n", nil},
		{"no run", "event: begin\ndata: {\"n\":0}\n\ndata: [DONE]\n\n", []string{`event 1  is "[DONE]", want an object`}},
		{"broken run", "event: begin\ndata: {\"n\":0}\n\ndata: {\"n\":1}\n\nevent: x\ndata: {\"n\":2}\n\n", []string{`event 2 is named "x", want ""`}},
		{"cut", "event: begin\ndata: {\"n\":0}\n\ndata: {\"n\":1}\n\n", []string{`the stream ends after 2 events, want an event "" "[DONE]"`}},
		{"longer", "event: begin\ndata: {\"n\":0}\n\ndata: {\"n\":1}\n\ndata: [DONE]\n\ndata: {}\n\n", []string{`event 3 "" {} comes after the end`}},
	} {
		events, err := parseEvents(c.stream)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, follow(steps, events)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	for _, bad := range []string{"data: {}\n", ": comment\n\n", "data: 1\ndata: 2\n\n"} {
		if events, err := parseEvents(bad); err == nil {
			t.Errorf("%q was read as %v", bad, events)
		}
	}
}
