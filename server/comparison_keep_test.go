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
	"github.com/lmwarden/lmwarden/server/compare"
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

// TestEndedComparisonIsJudgedAsOfItsEnd has a conversation that was over when the
// comparison ended and one that the end cut short: however late the result is shown or
// stored, and whatever is learned since, only the first one has ended.
func TestEndedComparisonIsJudgedAsOfItsEnd(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	plane := &fakePlane{views: map[string]route.View{}}
	linger := func(d time.Duration) {
		plane.setView("m", route.View{Learned: route.Learned{Linger: d}})
	}
	c := newComparisons(plane, stats.NewEvents())
	if err := c.keepIn(st); err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m := []*entry{{model: &lmwardenv1.Model{Name: "m", Routing: &lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_NONE}}}}
	linger(2 * time.Minute)
	if err := c.start(&lmwardenv1.Model{}, onOff(), began); err != nil {
		t.Fatal(err)
	}
	turn := func(arm int, n uint64, arrived, lasted time.Duration) {
		c.record(&proxy.Record{
			Model: "m", Decided: true, Arrived: began.Add(arrived), Duration: lasted, FirstToken: time.Second, Completion: 30,
			Decision: route.Decision{Trial: 1, Arm: arm, Conversation: route.Key{byte(arm + 1)}, Turn: n},
		})
	}
	turn(0, 1, 0, 10*time.Second)
	turn(0, 2, 50*time.Second, 10*time.Second) // idle for nine minutes at the end
	turn(1, 1, 0, 10*time.Second)
	turn(1, 2, 9*time.Minute, 10*time.Second) // idle for 50 s
	ends := began.Add(10 * time.Minute)
	c.tick(m, ends)
	check := func(when string, got *lmwardenv1.Comparison, turnsB uint32) {
		t.Helper()
		a, b := got.GetArms()[0], got.GetArms()[1]
		if got.GetRunning() || a.GetTurns() != 2 || a.GetEnded() != 1 || b.GetTurns() != turnsB || b.GetEnded() != 0 {
			t.Errorf("%s: arms %v; the first has ended one conversation of 2 turns, the other none of %d", when, got.GetArms(), turnsB)
		}
		if f := got.GetFigures()[compare.SessionMean]; f.GetA() != 60 || f.B != nil || f.GetObservationsA() != 1 || f.GetObservationsB() != 0 {
			t.Errorf("%s: length of a session %v, want 60 s of one conversation, and none", when, f)
		}
		if f := got.GetFigures()[compare.OutputPerMinute]; f.GetA() != 60 || f.B != nil {
			t.Errorf("%s: tokens a minute %v, want 60 and none", when, f)
		}
	}
	check("at the end", c.lastOf("m", ends), 2)
	check("an hour later", c.lastOf("m", ends.Add(time.Hour)), 2)
	linger(5 * time.Second)
	check("with another idle time", c.lastOf("m", ends.Add(2*time.Hour)), 2)
	turn(1, 3, 10*time.Minute-time.Second, 30*time.Second) // was under way at the end
	c.tick(m, ends.Add(3*time.Hour))
	check("with its last turn", c.lastOf("m", ends.Add(3*time.Hour)), 3)
	next := newComparisons(plane, stats.NewEvents())
	if err := next.keepIn(st); err != nil {
		t.Fatal(err)
	}
	check("as stored", next.lastOf("m", ends.Add(4*time.Hour)), 3)
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
