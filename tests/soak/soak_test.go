package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestSoak sends few requests; make soak sends a million.
func TestSoak(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, options{requests: 1000, clients: 32, seed: 1}); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "nothing is left") {
		t.Errorf("it said %s", out.String())
	}
}

// TestVerdict finds each thing that may be left.
func TestVerdict(t *testing.T) {
	clean := leftovers{goroutines: 10, heap: 1 << 20}
	tests := map[string]struct {
		early, late leftovers
		change      func(*box)
		want        string // empty for nothing wrong
	}{
		"clean":              {clean, leftovers{goroutines: 9, heap: 1<<20 + growth}, nil, ""},
		"in flight":          {clean, leftovers{inFlight: 1}, nil, "1 requests count as in flight"},
		"waiting":            {clean, leftovers{held: 2}, nil, "2 as waiting"},
		"in flight early on": {leftovers{inFlight: 3}, clean, nil, "3 requests count as in flight"},
		"a goroutine":        {clean, leftovers{goroutines: 11}, nil, "11 goroutines are there, and were 10"},
		"memory":             {clean, leftovers{heap: 1<<20 + growth + 1}, nil, "the heap grew by 16777217 bytes"},
		"an answer":          {clean, clean, func(b *box) { b.odd.Store(1); b.firstOdd = "busy: no answer" }, "the first: busy: no answer"},
		"nobody left":        {clean, clean, func(b *box) { b.gone.Store(0) }, "0 clients left"},
		"a shape is missing": {clean, clean, func(b *box) { b.sent["chains"].Store(0) }, "no chains"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b, err := newBox(options{requests: 100, clients: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer b.close()
			b.goroutines = 10
			for _, n := range b.sent {
				n.Store(1)
			}
			b.gone.Store(1)
			b.spilled.Store(1)
			if test.change != nil {
				test.change(b)
			}
			err = errors.Join(b.judge(test.early, test.late)...)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestInterrupted ends with an error: a soak that was not whole proves nothing.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, new(strings.Builder), options{requests: 1000, clients: 2}); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v", err)
	}
	if err := run(t.Context(), new(strings.Builder), options{requests: 10, clients: 2}); err == nil {
		t.Error("ten requests were taken for a soak")
	}
}

// TestOddAnswers tells an answer that may come from one that may not.
func TestOddAnswers(t *testing.T) {
	c := call{shape: "s", statuses: fine, ends: done}
	cut := errors.New("unexpected EOF")
	for name, test := range map[string]struct {
		call   call
		status int
		body   string
		err    error
		odd    bool
	}{
		"whole":             {c, 200, frame + done, nil, false},
		"not whole":         {c, 200, frame, nil, true},
		"broken":            {c, 200, frame + done, cut, true},
		"another status":    {c, 503, "", nil, true},
		"none":              {c, 0, "", cut, true},
		"client left":       {call{leaves: 1}, 0, "", cut, false},
		"a cut that may be": {call{statuses: failing}, 200, frame, cut, false},
	} {
		if got := test.call.odd(test.status, test.body, test.err); (got != "") != test.odd {
			t.Errorf("%s: %q", name, got)
		}
	}
	sum := 0
	for _, s := range shapes {
		sum += s.weight
	}
	if sum != 1000 {
		t.Errorf("the weights of the shapes add up to %d, want 1000", sum)
	}
}
