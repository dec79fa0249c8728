package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/lmwarden/lmwarden/sim/run/load"
)

// Recorded is what a trace takes of one request that a daemon served: times, sizes and
// keys, nothing of its content.
type Recorded struct {
	// Conversation that it belongs to; empty when none could be told.
	Conversation string
	// Kind is main, agent or side; empty is main.
	Kind load.Kind
	// Client is the name of its program, whose conversations share a system prompt.
	Client string
	// First is true for the first turn of its conversation.
	First bool
	// Arrived and Took are when it came and how long it took to the end of its answer.
	Arrived time.Time
	Took    time.Duration
	// Prompt, Cached and Output are tokens by the engine's count; 0 when not reported.
	Prompt, Cached, Output int
}

// TraceOf turns requests into the lines of a trace, in the order of their times, and
// counts those left out because their engine reported no sizes. What conversations of one
// client share is not recorded by anybody; it is taken from what their first turns found
// in a cache, at the median.
func TraceOf(requests []Recorded) (lines []load.Line, left int) {
	requests = slices.Clone(requests)
	slices.SortStableFunc(requests, func(a, b Recorded) int { return a.Arrived.Compare(b.Arrived) })
	requests = slices.DeleteFunc(requests, func(r Recorded) bool {
		bad := r.Prompt < 1 || r.Output < 1
		if bad {
			left++
		}
		return bad
	})
	shared := sharedTokens(requests)
	shortest := make(map[string]int) // prompt of each conversation
	for i := range requests {
		r := &requests[i]
		if r.Conversation == "" {
			r.Conversation = fmt.Sprintf("alone-%d", i+1)
		}
		shortest[r.Conversation] = min(cmp.Or(shortest[r.Conversation], r.Prompt), r.Prompt)
	}
	for _, r := range requests {
		line := load.Line{
			At: at(r.Arrived.Sub(requests[0].Arrived)), Conversation: r.Conversation, Kind: r.Kind, Prompt: r.Prompt, Output: r.Output,
		}
		line.Done = at(r.Arrived.Sub(requests[0].Arrived) + max(r.Took, time.Millisecond))
		// A prompt cannot be shared as a whole: the trace would hold a turn that says nothing.
		if n := min(shared[r.Client], shortest[r.Conversation]-1); n > 0 {
			line.Shared, line.SharedTokens = cmp.Or(r.Client, "client"), n
		}
		lines = append(lines, line)
	}
	return lines, left
}

// at is a time of a trace: seconds, to the millisecond.
func at(d time.Duration) float64 { return math.Round(d.Seconds()*1e3) / 1e3 }

// sharedTokens estimates by client what its conversations share.
func sharedTokens(requests []Recorded) map[string]int {
	found := make(map[string][]int)
	for _, r := range requests {
		if r.First && r.Cached > 0 {
			found[r.Client] = append(found[r.Client], r.Cached)
		}
	}
	medians := make(map[string]int)
	for client, cached := range found {
		slices.Sort(cached)
		medians[client] = cached[(len(cached)-1)/2]
	}
	return medians
}

// WriteTrace writes a trace as JSON lines, which [load.ReadTrace] reads.
func WriteTrace(w io.Writer, lines []load.Line) error {
	out := json.NewEncoder(w)
	for _, line := range lines {
		if err := out.Encode(line); err != nil {
			return fmt.Errorf("write the trace: %w", err)
		}
	}
	return nil
}
