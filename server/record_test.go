package server

import (
	"strings"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
)

// decided drives a core with two replicas until the last of the turns is decided.
func decided(t *testing.T, s route.Settings, capacity int64, turns ...func(c *route.Core, now time.Time) *route.Decision) *route.Decision {
	t.Helper()
	c, now := route.New(s, 1), time.Unix(0, 0)
	r := route.Replica{Incarnation: 1, Ready: true, Capacity: capacity, MaxNumSeqs: 1, MaxBatchedTokens: 100}
	c.SetReplicas(now, []route.Replica{r, r})
	var d *route.Decision
	for _, turn := range turns {
		d = turn(c, now)
		now = now.Add(10 * time.Second)
	}
	return d
}

// turn is a turn of a conversation with so many tokens; held ones get their decision
// when the core lets them go. With end it is answered 2 s later.
func turn(t *testing.T, key byte, tokens int, end bool) func(*route.Core, time.Time) *route.Decision {
	return func(c *route.Core, now time.Time) *route.Decision {
		d := &route.Decision{}
		tk, v := c.Arrive(now, &route.Request{Key: route.Key{key}, Rank: -1, ChainFirst: -1, PromptBytes: 4 * tokens}, d)
		if v == route.Held {
			for range 400 {
				now = now.Add(time.Second)
				c.Tick(now)
				for _, r := range c.Released() {
					if r.Ticket == tk {
						return &r.Decision
					}
				}
			}
			t.Fatal("a request was never let in")
		}
		if end {
			now = now.Add(2 * time.Second)
			c.FirstByte(now, tk)
			c.Done(now, tk, route.Outcome{Served: true, Prompt: tokens, Cached: 0, Completion: 10})
		}
		return d
	}
}

// The record of a request carries the two prices that a priced spill compared, and the
// wait and the predictions of the door.
func TestRecordTellsPricesAndWaits(t *testing.T) {
	priced := route.DefaultSettings()
	priced.Spill = route.SpillPriced
	d := decided(
		t, priced, 100_000,
		turn(t, 1, 6000, true), turn(t, 2, 50_000, false), turn(t, 3, 50_000, false), turn(t, 4, 50_000, false), turn(t, 1, 6000, false),
	)
	r := requestRecord(&proxy.Record{Decided: true, Decision: *d})
	if len(r.GetTerms()) != 2 || r.GetTerms()[0].PriceSeconds == nil || r.GetTerms()[1].PriceSeconds == nil {
		t.Fatalf("terms %v, want a price for each replica", r.GetTerms())
	}
	if !strings.Contains(r.GetReason(), "costs") || r.GetByAdmission() {
		t.Errorf("reason %q does not speak of what it compared", r.GetReason())
	}

	door := route.DefaultSettings()
	door.Admission, door.MaxHold = route.AdmissionWorkingSet, 30*time.Second
	d = decided(t, door, 10_000, turn(t, 1, 9000, false), turn(t, 2, 9500, false), turn(t, 3, 9000, false))
	r = requestRecord(&proxy.Record{Decided: true, Decision: *d})
	if r.GetHeld().AsDuration() != 30*time.Second || !r.GetByAdmission() || len(r.GetTerms()) != 2 {
		t.Errorf("held %v, by admission %v, terms %v", r.GetHeld().AsDuration(), r.GetByAdmission(), r.GetTerms())
	}
	if n := strings.Count(r.GetReason(), "30.0 s"); n != 1 {
		t.Errorf("reason %q tells the wait %d times, want once", r.GetReason(), n)
	}
}
