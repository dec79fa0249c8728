package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmwarden/lmwarden/sim/run/load"
)

// TestRunAgents counts the requests of one conversation with subagents: each of them
// names its own id beside its session, and the conversation waits for all.
func TestRunAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: 500 * time.Millisecond}
		opts := e.options(1, 10*time.Second)
		agent := load.Seed()
		agent.First, agent.Turns, agent.Think = load.Size{Min: 5, Max: 5}, 3, load.Fixed(0)
		opts.Load.Agents = &load.Agents{Every: 1, Count: 2, Load: agent}
		opts.Load.Turns, opts.Load.Think = 2, load.Fixed(100*time.Second)
		if _, err := Run(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
		agents := make(map[string]int)
		for _, s := range e.seen {
			if s.session != e.seen[0].session {
				t.Errorf("a subagent names the session %s, its conversation is %s", s.session, e.seen[0].session)
			}
			agents[s.agent]++
		}
		if len(e.seen) != 7 || len(agents) != 3 || agents[""] != 1 || e.mostOpen != 2 {
			t.Errorf("%d requests by %v, %d at once; want 1 and then two subagents of 3 each", len(e.seen), agents, e.mostOpen)
		}
		if next := e.seen[1].at.Sub(e.seen[0].at); next != 500*time.Millisecond {
			t.Errorf("the subagents began after %s, not with the answer", next)
		}
	})
}

// TestRunEndless forgets the history when it is summarised.
func TestRunEndless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: 100 * time.Millisecond}
		opts := e.options(1, 10*time.Second)
		opts.Load.SharedTokens, opts.Load.TurnTokens, opts.Load.OutputTokens = 10, 10, 10
		opts.Load.Turns, opts.Load.MaxContext, opts.Load.SummaryTokens = 0, 100, 5
		if _, err := Run(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
		longest, rewrites := 0, 0
		for i, s := range e.seen {
			longest = max(longest, s.messages)
			if i > 0 && s.messages == 1 {
				rewrites++
			}
			if s.session != e.seen[0].session {
				t.Fatal("a conversation without an end ended")
			}
		}
		// 10 shared and 25 the first time, 20 a turn: the fifth would pass 100.
		if longest > 9 || longest < 7 || rewrites < 3 {
			t.Errorf("%d messages at most, %d summaries in %d requests", longest, rewrites, len(e.seen))
		}
	})
}

// TestRunBursts begins all conversations together, those that think before they begin too.
func TestRunBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: 100 * time.Millisecond}
		opts := e.options(3, 25*time.Second)
		opts.Load.StartEvery, opts.Load.Think = 10*time.Second, load.Fixed(700*time.Millisecond)
		start := time.Now()
		step, err := Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		first := 0
		for _, s := range e.seen {
			if s.messages == 1 {
				first++
				if since := s.at.Sub(start); since%(10*time.Second) != 0 {
					t.Errorf("a conversation began after %s", since)
				}
			}
		}
		if first != 9 || step.SessionsDone != 9 {
			t.Errorf("%d conversations began and %d ended in three bursts of 3", first, step.SessionsDone)
		}
		// The first burst does not wait for the second because it is a moment late.
		if at := opts.begin(Turn{}, time.Millisecond); at != 0 {
			t.Errorf("the first burst comes after %s", at)
		}
	})
}

// recordedTrace has two conversations, which take 6 s when an answer takes half a second.
func recordedTrace(t *testing.T) *load.Trace {
	t.Helper()
	tr, err := load.ReadTrace(strings.NewReader(`
{"at":1,"done":2,"conversation":"a","prompt":10,"output":5}
{"at":3,"conversation":"b","prompt":10,"output":5}
{"at":6,"conversation":"a","prompt":30,"output":5}`))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestRunTrace plays recorded requests at their times, once, and ends with the last.
func TestRunTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: 500 * time.Millisecond}
		opts := e.options(0, time.Hour)
		opts.Trace = recordedTrace(t)
		opts.Busy = func(context.Context) (int, bool) { return 1, true }
		start := time.Now()
		step, err := Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		var at []time.Duration
		for _, s := range e.seen {
			at = append(at, s.at.Sub(start))
		}
		// The second turn of a comes 4 s after its answer, which came after half a second.
		if len(at) != 3 || at[0] != time.Second || at[1] != 3*time.Second || at[2] != 5500*time.Millisecond {
			t.Errorf("requests at %v", at)
		}
		if step.Requests != 3 || step.Sessions != 2 || step.SessionsDone != 2 || step.Seconds != 6 {
			t.Errorf("step %+v", step)
		}
		if took := time.Since(start); took != 6*time.Second || *step.ReplicasBusy != 1 {
			t.Errorf("it took %s with %g replicas busy; want to its last answer after 6s, 1", took, *step.ReplicasBusy)
		}
	})
}

// TestRunTraceWarmup measures what of a trace is left after the warm-up, and refuses to
// when nothing is.
func TestRunTraceWarmup(t *testing.T) {
	for _, test := range []struct {
		warmup time.Duration
		fails  int // number of the request
		want   string
	}{
		{2 * time.Second, 0, "2 requests in 4 s"},
		{6 * time.Second, 0, "the trace ended after 6s, within the warm-up of 6s; nothing was measured"},
		{6 * time.Second, 1, "the trace ended after 3.5s, within the warm-up of 6s; nothing was measured; the first failure: the endpoint answered 503: full"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &endpoint{latency: 500 * time.Millisecond, fail: func(n int) bool { return n == test.fails }}
			opts := e.options(0, time.Hour)
			opts.Trace, opts.Warmup = recordedTrace(t), test.warmup
			step, err := Run(t.Context(), opts)
			got := fmt.Sprintf("%d requests in %g s", step.Requests, step.Seconds)
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("warm-up of %s: %s; want %s", test.warmup, got, test.want)
			}
		})
	}
}
