package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lmwarden/lmwarden/sim/run/load"
)

func TestTraceOf(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lines, left := TraceOf([]Recorded{
		{Conversation: "a", Client: "cli/1", Arrived: start.Add(4 * time.Second), Took: time.Second, Prompt: 900, Cached: 600, Output: 9},
		{Conversation: "a", Client: "cli/1", First: true, Arrived: start, Took: 1500 * time.Millisecond, Prompt: 500, Cached: 320, Output: 20},
		{Conversation: "b", Client: "cli/1", First: true, Arrived: start.Add(time.Second), Took: time.Second, Prompt: 300, Output: 20},
		{Client: "other", Kind: load.Side, Arrived: start.Add(2 * time.Second), Took: time.Second, Prompt: 40, Output: 5},
		{Conversation: "c", Arrived: start.Add(3 * time.Second), Took: time.Second},
	})
	var b bytes.Buffer
	if err := WriteTrace(&b, lines); err != nil {
		t.Fatal(err)
	}
	want := `{"at":0,"done":1.5,"conversation":"a","prompt":500,"output":20,"shared":"cli/1","sharedTokens":320}
{"at":1,"done":2,"conversation":"b","prompt":300,"output":20,"shared":"cli/1","sharedTokens":299}
{"at":2,"done":3,"conversation":"alone-3","kind":"side","prompt":40,"output":5}
{"at":4,"done":5,"conversation":"a","prompt":900,"output":9,"shared":"cli/1","sharedTokens":320}
`
	if b.String() != want || left != 1 {
		t.Errorf("%d left out of\n%s\nwant 1 of\n%s", left, b.String(), want)
	}
}

// TestTraceOfProperty reads back whatever was recorded: no conversation is lost and no
// line refused.
func TestTraceOfProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		var all []Recorded
		names := make(map[string]bool)
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			r := Recorded{
				Conversation: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "conversation"),
				Client:       rapid.SampledFrom([]string{"", "x"}).Draw(t, "client"), First: rapid.Bool().Draw(t, "first"),
				Arrived: start.Add(time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "arrived"))),
				Took:    time.Duration(rapid.Int64Range(0, 1e11).Draw(t, "took")),
				Prompt:  rapid.IntRange(1, 5000).Draw(t, "prompt"), Output: rapid.IntRange(1, 500).Draw(t, "output"),
			}
			r.Cached = rapid.IntRange(0, r.Prompt).Draw(t, "cached")
			all = append(all, r)
		}
		lines, left := TraceOf(all)
		var b strings.Builder
		if err := WriteTrace(&b, lines); err != nil || left != 0 {
			t.Fatalf("%d left out, %v", left, err)
		}
		trace, err := load.ReadTrace(strings.NewReader(b.String()))
		if err != nil {
			t.Fatalf("%v:\n%s", err, b.String())
		}
		for _, line := range lines {
			names[line.Conversation] = true
		}
		if trace.Conversations() != len(names) {
			t.Fatalf("%d conversations of %d", trace.Conversations(), len(names))
		}
	})
}
