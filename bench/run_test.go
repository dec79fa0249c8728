package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// endpoint is an engine in virtual time, in the place of the network.
type endpoint struct {
	latency time.Duration // to the first token
	rest    time.Duration // from there to the end
	fail    func(n int) bool

	mu       sync.Mutex
	requests int
	open     int
	mostOpen int
	prompts  []string
	seen     []seen
}

// seen is one request as it came.
type seen struct {
	at             time.Time
	session, agent string
	messages       int
}

func (e *endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	var body messagesRequest
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.requests++
	n := e.requests
	e.open++
	e.mostOpen = max(e.mostOpen, e.open)
	e.prompts = append(e.prompts, body.Messages[0].Content[0].Text)
	e.seen = append(e.seen, seen{time.Now(), req.Header.Get("X-Claude-Code-Session-Id"), req.Header.Get("X-Claude-Code-Agent-Id"), len(body.Messages)})
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.open--
		e.mu.Unlock()
	}()
	if !pause(req.Context(), e.latency) {
		return nil, req.Context().Err()
	}
	header := http.Header{"Content-Type": {"text/event-stream"}, "X-Lmwarden-Replica": {"m/1"}}
	if e.fail != nil && e.fail(n) {
		return &http.Response{StatusCode: 503, Header: header, Body: io.NopCloser(strings.NewReader("full"))}, nil
	}
	return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(io.MultiReader(
		strings.NewReader(messagesStream), pausing{req.Context(), e.rest}, strings.NewReader(messagesEnd),
	))}, nil
}

// pausing is a part of a stream in which nothing comes.
type pausing struct {
	ctx  context.Context
	long time.Duration
}

func (p pausing) Read([]byte) (int, error) {
	if !pause(p.ctx, p.long) {
		return 0, p.ctx.Err()
	}
	return 0, io.EOF
}

func (e *endpoint) options(sessions int, d time.Duration) StepOptions {
	load := AgentLoad()
	load.First.Min, load.First.Max = 10, 20
	return StepOptions{
		Client:   &Client{BaseURL: "http://engine", Model: "m", HTTP: &http.Client{Transport: e}},
		Load:     load,
		Arm:      "on",
		Sessions: sessions,
		Duration: d,
		Seed:     1,
	}
}

// TestRunClosedLoop runs a minute of virtual time whose figures can be told in
// advance: a turn takes 0.6 s and 0.4 s of gap, so each slot answers one a second.
func TestRunClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: 600 * time.Millisecond}
		opts := e.options(4, time.Minute)
		opts.Busy = func(context.Context) (int, bool) { return 3, true }
		heard := 0
		opts.OnTurn = func(Turn) { heard++ }
		step, err := Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if step.Requests != 240 || step.Errors != 0 || step.Partial {
			t.Errorf("%d requests, %d errors, partial %t; want 240, 0, false", step.Requests, step.Errors, step.Partial)
		}
		if step.SessionsDone != 40 || step.SessionsPerHour != 2400 {
			t.Errorf("%d sessions, %g an hour; want 40, 2400", step.SessionsDone, step.SessionsPerHour)
		}
		if step.OutputTokens != 480 || step.OutputTokensPerMinute != 480 {
			t.Errorf("%d tokens, %g a minute; want 480", step.OutputTokens, step.OutputTokensPerMinute)
		}
		if step.TTFBFirst.Count != 40 || step.TTFBLater.Count != 200 || *step.TTFB.P95 != 0.6 {
			t.Errorf("first tokens: %d first, %d later, p95 %g", step.TTFBFirst.Count, step.TTFBLater.Count, *step.TTFB.P95)
		}
		if *step.SessionTime.P50 != 5.6 || *step.StayedPercent != 100 || *step.FairnessPercent != 100 {
			t.Errorf("session %g s, stayed %g, fairness %g", *step.SessionTime.P50, *step.StayedPercent, *step.FairnessPercent)
		}
		if *step.HitPercent != 88.89 || *step.ReplicasBusy != 3 {
			t.Errorf("hits %g, busy %g", *step.HitPercent, *step.ReplicasBusy)
		}
		if e.mostOpen != 4 || heard != e.requests {
			t.Errorf("%d open at most, heard %d of %d", e.mostOpen, heard, e.requests)
		}
		if len(step.Replicas) != 1 || step.Replicas[0].Index != 1 || step.Replicas[0].Requests != 240 {
			t.Errorf("replicas %+v", step.Replicas)
		}
	})
}

// TestRunWarmup leaves out what ends before the step begins, but for failures.
func TestRunWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: 600 * time.Millisecond, fail: func(n int) bool { return n == 2 }}
		opts := e.options(1, 10*time.Second)
		opts.Warmup = 5 * time.Second
		polls := 0
		opts.Busy = func(context.Context) (int, bool) { polls++; return 1, true }
		step, err := Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		// One second and two pauses are lost to the failure; then a turn each second.
		if step.Requests != 10 || step.Errors != 1 || step.Seconds != 10 {
			t.Errorf("%d requests, %d errors, %g s; want 10, 1, 10", step.Requests, step.Errors, step.Seconds)
		}
		if step.OutputTokensPerMinute != 120 || polls < 9 || polls > 10 {
			t.Errorf("%g tokens a minute, want 120; %d polls, want one a second of the step", step.OutputTokensPerMinute, polls)
		}
	})
}

// TestRunAcrossWarmup counts of what began in the warm-up the answers and the conversations
// that end in the step, but neither the first tokens that came before it nor the time of
// those conversations. A turn takes a second and 0.4 s of gap, a conversation 8 s.
func TestRunAcrossWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: 600 * time.Millisecond, rest: 400 * time.Millisecond}
		opts := e.options(1, 12*time.Second)
		opts.Warmup = 5 * time.Second
		step, err := Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		// The fourth turn has its first token after 4.8 s and ends after 5.2 s.
		if step.Requests != 9 || step.Cut != 1 || step.TTFB.Count != 8 || step.TTFBFirst.Count != 1 {
			t.Errorf("%d requests, %d cut, %d first tokens, %d of first turns; want 9, 1, 8, 1", step.Requests, step.Cut, step.TTFB.Count, step.TTFBFirst.Count)
		}
		if step.SessionsDone != 2 || step.SessionTime.Count != 1 || *step.SessionTime.P50 != 8 {
			t.Errorf("%d sessions, %d with a time of %g s; want 2, 1, 8", step.SessionsDone, step.SessionTime.Count, *step.SessionTime.P50)
		}
	})
}

// TestRunCutAfterWarmup has no first token of a turn that had it in the warm-up.
func TestRunCutAfterWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: 600 * time.Millisecond, rest: time.Hour}
		opts := e.options(1, 10*time.Second)
		opts.Warmup = 5 * time.Second
		step, err := Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if step.Cut != 1 || step.TTFB.Count != 0 || step.LongestWaitSeconds != nil {
			t.Errorf("%d cut, %d first tokens, longest wait %v; want 1, 0, none", step.Cut, step.TTFB.Count, step.LongestWaitSeconds)
		}
	})
}

// TestRunInterruptedInWarmup has measured nothing.
func TestRunInterruptedInWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: 600 * time.Millisecond}
		opts := e.options(2, time.Minute)
		opts.Warmup = 30 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+300*time.Millisecond)
		defer cancel()
		step, err := Run(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		if !step.Partial || step.Requests != 0 || step.Cut != 0 || step.Seconds != 0 || step.OutputTokensPerMinute != 0 {
			t.Errorf("%+v; want nothing", step)
		}
	})
}

// TestRunFailures counts failures, keeps the first sentence and pauses after each.
func TestRunFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: 100 * time.Millisecond, fail: func(n int) bool { return n == 2 }}
		step, err := Run(t.Context(), e.options(1, 3*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if step.Errors != 1 || step.FirstError != "the endpoint answered 503: full" {
			t.Errorf("%d errors, first %q", step.Errors, step.FirstError)
		}
		// 0.1 answer, 0.4 pause, 0.1 failure, 1 s and 0.4 pause, then a turn each half second.
		if step.Requests != 3 {
			t.Errorf("%d requests, want 3", step.Requests)
		}
	})
}

// TestRunInterrupted keeps what was measured before the interruption.
func TestRunInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: 600 * time.Millisecond}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+300*time.Millisecond)
		defer cancel()
		step, err := Run(ctx, e.options(2, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if !step.Partial || step.Requests != 20 || step.Cut != 2 || step.Seconds != 10.3 {
			t.Errorf("partial %t, %d requests, %d cut, %g s; want true, 20, 2, 10.3", step.Partial, step.Requests, step.Cut, step.Seconds)
		}
	})
}

// TestRamp balances the order of the arms and gives each step texts of its own.
func TestRamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: 600 * time.Millisecond}
		var order []string
		opts := RampOptions{
			Arms:     []string{"off", "on"},
			Steps:    []int{1, 2},
			Rounds:   2,
			Duration: 6 * time.Second,
			Step:     e.options(0, 0),
			Switch: func(_ context.Context, arm string) error {
				order = append(order, arm)
				return nil
			},
		}
		steps, err := Ramp(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"off", "on", "on", "off", "on", "off", "off", "on"}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
		if len(steps) != 8 || steps[0].Arm != "off" || steps[7].Round != 2 {
			t.Errorf("%d steps: %+v", len(steps), steps)
		}
		conversations := make(map[string]int)
		for _, prompt := range e.prompts {
			conversations[prompt]++
		}
		for prompt, turns := range conversations {
			if turns > 6 {
				t.Errorf("%.30q was sent %d times; steps share texts", prompt, turns)
			}
		}
	})
}

// TestRampRefusals turns bad options and dead endpoints into a sentence.
func TestRampRefusals(t *testing.T) {
	dead := &endpoint{latency: time.Millisecond, fail: func(int) bool { return true }}
	tests := []struct {
		name   string
		change func(*RampOptions)
		want   string
	}{
		{"no arm", func(o *RampOptions) { o.Arms = nil }, "no arm"},
		{"no step", func(o *RampOptions) { o.Steps = nil }, "no step"},
		{"an arm twice", func(o *RampOptions) { o.Arms = []string{"off", "on", "off"} }, "the arm off is named twice"},
		{"a step twice", func(o *RampOptions) { o.Steps = []int{2, 2} }, "the step of 2 sessions is named twice"},
		{"zero sessions", func(o *RampOptions) { o.Steps = []int{0} }, "0 sessions"},
		{"zero duration", func(o *RampOptions) { o.Duration = 0 }, "too short"},
		{"switch fails", func(o *RampOptions) {
			o.Switch = func(context.Context, string) error { return errors.New("no such arm") }
		}, "no such arm"},
		{"negative warm-up", func(o *RampOptions) { o.Step.Warmup = -time.Second }, "a warm-up of -1s is not possible; 0 is none"},
		{"every request fails", func(*RampOptions) {}, "no request of the step succeeded: the endpoint answered 503: full"},
		{
			"every request after the warm-up fails", func(o *RampOptions) {
				dies := &endpoint{latency: 600 * time.Millisecond, fail: func(n int) bool { return n > 2 }}
				o.Step = dies.options(0, 0)
				o.Step.Warmup = 2 * time.Second
			},
			"no request that ended after the warm-up of 2s succeeded; the first failure, in it or after it: the endpoint answered 503: full",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := RampOptions{Arms: []string{"on"}, Steps: []int{1}, Duration: time.Minute, Step: dead.options(0, 0)}
				test.change(&opts)
				if _, err := Ramp(t.Context(), opts); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("error %v, want one with %q", err, test.want)
				}
			})
		})
	}
}

// TestQuantiles checks the nearest sample at or above a quantile.
func TestQuantiles(t *testing.T) {
	var samples []time.Duration
	for i := range 100 {
		samples = append(samples, time.Duration(100-i)*time.Second)
	}
	q := QuantilesOf(samples)
	if got := fmt.Sprint(q.Count, *q.Mean, *q.P50, *q.P95, *q.P99); got != "100 50.5 50 95 99" {
		t.Errorf("quantiles %s", got)
	}
	if none := QuantilesOf(nil); none.Count != 0 || none.P50 != nil {
		t.Errorf("no samples gave %+v", none)
	}
}

// Whether a turn stayed is known only when its answer and the one before say where they
// came from.
func TestStayed(t *testing.T) {
	for _, c := range []struct {
		number, before, replica int
		stayed, known           bool
	}{
		{1, -1, 2, false, false},
		{2, 2, 2, true, true},
		{2, 0, 2, false, true},
		{3, -1, 2, false, false},
		{3, 2, -1, false, false},
		{3, -1, -1, false, false},
	} {
		turn := Turn{Number: c.number, Before: c.before, Answer: Answer{Replica: c.replica}}
		if stayed, known := turn.Stayed(); stayed != c.stayed || known != c.known {
			t.Errorf("%+v: got %t, %t", c, stayed, known)
		}
	}
}
