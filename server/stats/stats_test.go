package stats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func finished(id, model string, end time.Time, prompt, cached, completion int) proxy.Record {
	return proxy.Record{
		ID: id, Model: model, Arrived: end.Add(-time.Second), Duration: time.Second,
		FirstToken: 200 * time.Millisecond, Decided: true, Decision: route.Decision{Turn: 2},
		Prompt: prompt, Cached: cached, Completion: completion,
	}
}

func TestThroughputCountsEachTokenOnce(t *testing.T) {
	c := NewCollector()
	for i := range 120 {
		c.Record(finished(fmt.Sprint(i), "m", noon.Add(time.Duration(i-120)*time.Second), 100, 60, 10))
	}
	c.Record(finished("other", "n", noon, -1, -1, -1)) // measured nothing
	c.Close()
	got := c.Throughput("m", noon, 2*time.Minute, 12)
	if len(got.Buckets) != 12 || got.Step != 10*time.Second {
		t.Fatalf("%d buckets of %v, want 12 of 10s", len(got.Buckets), got.Step)
	}
	want := Bucket{Start: noon.Add(-20 * time.Second), Cached: 60, Computed: 40, Completion: 10, Requests: 10}
	if diff := cmp.Diff(want, got.Buckets[9], cmpopts.EquateApprox(0, 1e-9), cmpopts.IgnoreFields(Bucket{}, "Start")); diff != "" {
		t.Error(diff)
	}
	for i, b := range got.Buckets[1:] {
		if gap := b.Start.Sub(got.Buckets[i].Start); gap != got.Step {
			t.Errorf("bucket %d begins %v after the one before", i+1, gap)
		}
	}
	if got.CachedHour != 120*60 || got.PromptHour != 120*100 {
		t.Errorf("last hour: %d of %d tokens, want 7200 of 12000", got.CachedHour, got.PromptHour)
	}
	if all := c.Throughput("", noon, 2*time.Minute, 1); all.PromptHour != 12000 {
		t.Errorf("all models: %d prompt tokens, want 12000", all.PromptHour)
	}
	if rate := c.CompletionRate("m", noon); rate != 10 {
		t.Errorf("completion rate %v, want 10", rate)
	}
}

func TestOldBucketsLeave(t *testing.T) {
	c := NewCollector()
	c.Record(finished("old", "m", noon.Add(-90*time.Minute), 100, 0, 10))
	c.Record(finished("new", "m", noon.Add(-time.Minute), 50, 0, 10))
	c.Close()
	if got := c.Throughput("m", noon, time.Hour, 60).PromptHour; got != 50 {
		t.Errorf("last hour holds %d prompt tokens, want 50", got)
	}
	day := c.Throughput("m", noon, 24*time.Hour, 24)
	var requests uint32
	for _, b := range day.Buckets {
		requests += b.Requests
	}
	if requests != 2 || len(day.Buckets) != 24 {
		t.Errorf("the day holds %d requests in %d buckets, want 2 in 24", requests, len(day.Buckets))
	}
}

// The buckets never add up to more than what came in, whatever span is asked for, and
// there are never more of them than asked for.
func TestThroughputProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSeries()
		var total float64
		span := time.Duration(rapid.IntRange(10, 86400).Draw(t, "span")) * time.Second
		for range rapid.IntRange(0, 50).Draw(t, "requests") {
			ago := time.Duration(rapid.Int64Range(0, int64(span)).Draw(t, "ago"))
			n := uint64(rapid.IntRange(0, 1000).Draw(t, "tokens"))
			s.add(noon.Add(-ago), &tally{computed: n, requests: 1, latency: &latencies{}})
			total += float64(n)
		}
		buckets := rapid.IntRange(1, 1000).Draw(t, "buckets")
		got := s.throughput(noon, span, buckets)
		if len(got.Buckets) == 0 || len(got.Buckets) > buckets {
			t.Fatalf("%d buckets, asked for at most %d", len(got.Buckets), buckets)
		}
		var sum float64
		for i, b := range got.Buckets {
			seconds := got.Step.Seconds()
			if i == len(got.Buckets)-1 {
				seconds = min(seconds, max(1, noon.Sub(b.Start).Seconds()))
			}
			sum += b.Computed * seconds
		}
		if sum > total+1e-3 {
			t.Fatalf("the buckets hold %v tokens, %v came in", sum, total)
		}
	})
}

func TestQuantilesAreRightWithinFivePercent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.IntRange(1, 3_000_000).Draw(t, "ms")
		var h histogram
		d := time.Duration(ms) * time.Millisecond
		for range 3 {
			h.observe(d)
		}
		q := h.quantiles()
		if q.Count != 3 || q.Mean != d {
			t.Fatalf("count %d, mean %v", q.Count, q.Mean)
		}
		if off := math.Abs(float64(q.P50)/float64(d) - 1); off > 0.05 {
			t.Fatalf("median of %v is %v, %.1f %% off", d, q.P50, 100*off)
		}
	})
}

func TestFirstTurnsAreApart(t *testing.T) {
	c := NewCollector()
	cold := finished("cold", "m", noon, 1, 0, 1)
	cold.Decision.Turn, cold.FirstToken = 1, 10*time.Second
	silent := finished("silent", "m", noon, 1, 0, 1)
	silent.FirstToken = 0
	for _, r := range []proxy.Record{cold, silent, finished("warm", "m", noon, 1, 0, 1)} {
		c.Record(r)
	}
	c.Close()
	got := c.Latency("m", noon, 5*time.Minute)
	if got.FirstTurns.Count != 1 || got.LaterTurns.Count != 1 || got.FirstToken.Count != 2 || got.Duration.Count != 3 {
		t.Errorf("counts %d, %d, %d, %d; want 1, 1, 2, 3", got.FirstTurns.Count, got.LaterTurns.Count, got.FirstToken.Count, got.Duration.Count)
	}
	if got.FirstTurns.P50 < 9*time.Second || got.LaterTurns.P50 > time.Second {
		t.Errorf("first turns %v, later turns %v", got.FirstTurns.P50, got.LaterTurns.P50)
	}
	if got.Held.P99 != 0 {
		t.Errorf("nothing waited at the door, and p99 is %v", got.Held.P99)
	}
	if empty := c.Latency("nobody", noon, time.Minute); empty != (Latency{}) {
		t.Errorf("a model without requests has %+v", empty)
	}
}

func TestHistoryIsBoundedAndPaged(t *testing.T) {
	h := newHistory()
	for i := range HistorySize + 10 {
		h.add(proxy.Record{ID: fmt.Sprint(i), Status: 200 + i%2})
	}
	if _, ok := h.get("9"); ok {
		t.Error("a request that left the ring is still found")
	}
	if r, ok := h.get("10"); !ok || r.ID != "10" {
		t.Error("the oldest request is not found")
	}
	seen := 0
	last := HistorySize + 10
	for before := uint64(0); ; {
		page, next := h.page(before, 100, func(r *proxy.Record) bool { return r.Status == 200 })
		for _, r := range page {
			var n int
			if _, err := fmt.Sscan(r.ID, &n); err != nil || n >= last || n%2 != 0 {
				t.Fatalf("after %d came %s", last, r.ID)
			}
			last = n
			seen++
		}
		if before = next; next == 0 {
			break
		}
	}
	if seen != HistorySize/2 {
		t.Errorf("the pages hold %d requests, want %d", seen, HistorySize/2)
	}
	if len(h.byID) != HistorySize {
		t.Errorf("the index holds %d ids, want %d", len(h.byID), HistorySize)
	}
}

func TestRecordNeverBlocks(t *testing.T) {
	c := newCollector() // nobody takes anything in
	for i := range buffer + 100 {
		c.Record(proxy.Record{ID: fmt.Sprint(i)})
	}
	if got := c.Dropped(); got != 100 {
		t.Errorf("%d dropped, want 100", got)
	}
	go c.run()
	c.Close()
	c.Close()
	if got := c.history.next; got != buffer {
		t.Errorf("%d taken in, want %d", got, buffer)
	}
	c.Record(proxy.Record{})
	if got := c.Dropped(); got != 101 {
		t.Errorf("after Close %d dropped, want 101", got)
	}
}

func TestEventsAreBoundedAndPaged(t *testing.T) {
	e := NewEvents()
	for i := range EventsSize + 5 {
		e.Add(Event{Model: []string{"a", "b"}[i%2], Kind: "k"})
	}
	page, next := e.Page("a", 0, 3)
	if len(page) != 3 || page[0].ID != EventsSize+5 || page[1].ID != EventsSize+3 {
		t.Fatalf("first page %+v", page)
	}
	more, _ := e.Page("a", next, 3)
	if len(more) != 3 || more[0].ID != page[2].ID-2 {
		t.Errorf("second page begins with %d, want %d", more[0].ID, page[2].ID-2)
	}
	all, next := e.Page("", 0, 2*EventsSize)
	if len(all) != EventsSize || next != 0 || all[len(all)-1].ID != 6 {
		t.Errorf("%d events down to %d, want %d down to 6", len(all), all[len(all)-1].ID, EventsSize)
	}
}

func TestAfterWaitsForTheNextEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEvents()
		e.Add(Event{Model: "a"})
		got := make(chan []Event)
		go func() {
			events, err := e.After(t.Context(), "b", e.Last())
			if err != nil {
				t.Error(err)
			}
			got <- events
		}()
		synctest.Wait()
		e.Add(Event{Model: "a"})
		e.Add(Event{Model: "b", Message: "this one"})
		if events := <-got; len(events) != 1 || events[0].ID != 3 {
			t.Errorf("got %+v, want event 3 alone", events)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.After(ctx, "", 99); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of ctx: %v", err)
		}
	})
}
