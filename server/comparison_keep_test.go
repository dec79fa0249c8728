package server

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
	"github.com/lmwarden/lmwarden/server/store"
)

// keeper is a store of comparisons that counts and can be full.
type keeper struct {
	*store.Store
	puts int
	full bool
}

func (k *keeper) PutComparison(model string, data []byte) error {
	if k.full {
		return errors.New("no space left on the device")
	}
	k.puts++
	return k.Store.PutComparison(model, data)
}

// daemon begins what a start of the daemon begins of comparisons.
func (k *keeper) daemon(t *testing.T) (*comparisons, *stats.Events) {
	t.Helper()
	events := stats.NewEvents()
	c := newComparisons(&fakePlane{views: map[string]route.View{}}, events)
	if err := c.keepIn(k); err != nil {
		t.Fatal(err)
	}
	return c, events
}

// last returns the comparison of model m as shown, nil when there is none.
func (c *comparisons) lastOf(model string, now time.Time) *lmwardenv1.Comparison {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last[model] == nil {
		return nil
	}
	return c.show(model, c.last[model], now)
}

// TestComparisonsOutliveTheDaemon keeps one that was cut short by a kill, one that the
// daemon's end ended, and forgets that of a model that is gone.
func TestComparisonsOutliveTheDaemon(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	k := &keeper{Store: st}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m := []*entry{{model: &lmwardenv1.Model{Name: "m", Routing: &lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_NONE}}}}

	first, _ := k.daemon(t)
	if err := first.start(&lmwardenv1.Model{}, onOff(), now); err != nil {
		t.Fatal(err)
	}
	for n := range 30 {
		first.record(&proxy.Record{
			Model: "m", Decided: true, Arrived: now, Duration: time.Second, FirstToken: time.Duration(1+n%2) * time.Second,
			Decision: route.Decision{Trial: 1, Arm: n % 2, Conversation: route.Key{byte(n + 1)}, Turn: 1},
		})
	}
	first.tick(m, now.Add(keepEvery-1))
	if k.puts != 1 {
		t.Errorf("stored %d times before a minute was over, want once, at the start", k.puts)
	}
	first.tick(m, now.Add(keepEvery))
	running := first.lastOf("m", now.Add(keepEvery))

	// Killed: the next one shows what was stored last.
	second, _ := k.daemon(t)
	got := second.lastOf("m", now.Add(time.Hour))
	if got.GetRunning() || got.GetMessage() != "the daemon ended" || got.GetArms()[1].GetTurns() != 15 || !strings.HasPrefix(got.GetVerdict(), "on is better") {
		t.Errorf("after a kill: %v", got)
	}
	if ends := got.GetEnds().AsTime(); !ends.Equal(now.Add(keepEvery)) {
		t.Errorf("after a kill it ended at %v, it was last stored at %v", ends, now.Add(keepEvery))
	}
	got.Running, got.Message, got.Ends = true, "", running.GetEnds()
	if !proto.Equal(got, running) {
		t.Errorf("after a kill the figures are %v, they were %v", got, running)
	}
	second.tick(m, now.Add(2*time.Hour)) // an old one stays as it is

	// Ended in order: what ran has ended with it.
	if err := second.start(&lmwardenv1.Model{}, onOff(), now.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	second.end(now.Add(2*time.Hour + time.Minute))
	third, _ := k.daemon(t)
	got = third.lastOf("m", now)
	if got.GetRunning() || got.GetMessage() != "the daemon was stopped" || !got.GetEnds().AsTime().Equal(now.Add(2*time.Hour+time.Minute)) {
		t.Errorf("after a stop: %v", got)
	}
	third.tick(nil, now)
	fourth, _ := k.daemon(t)
	if got := fourth.lastOf("m", now); got != nil {
		t.Errorf("of a model that is gone there is %v", got)
	}
}

// TestComparisonThatCannotBeKept says so, and goes on.
func TestComparisonThatCannotBeKept(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	k := &keeper{Store: st, full: true}
	c, events := k.daemon(t)
	if err := c.start(&lmwardenv1.Model{}, onOff(), time.Now()); err != nil {
		t.Fatal(err)
	}
	page, _ := events.Page("m", 0, 10)
	said := false
	for _, e := range page {
		said = said || e.Kind == "comparison_not_kept" && strings.Contains(e.Message, "no space left")
	}
	if !said || c.lastOf("m", time.Now()) == nil {
		t.Errorf("events %v", page)
	}
	if err := st.PutComparison("m", []byte("no message of ours")); err != nil {
		t.Fatal(err)
	}
	after, events := k.daemon(t)
	page, _ = events.Page("m", 0, 10)
	if len(page) != 1 || !strings.Contains(page[0].Message, "cannot be read") || after.lastOf("m", time.Now()) != nil {
		t.Errorf("a damaged one: %v", page)
	}
}
