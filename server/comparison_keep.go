package server

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/stats"
	"github.com/lmwarden/lmwarden/server/store"
)

// comparisonStore keeps the last comparison of each model over restarts of the daemon.
type comparisonStore interface {
	Comparisons() ([]store.Record, error)
	PutComparison(model string, data []byte) error
	DeleteComparison(model string) error
}

var _ comparisonStore = (*store.Store)(nil)

// keepEvery is how often the state of a comparison that runs is kept. So much of it is
// lost at most when the daemon is killed.
const keepEvery = time.Minute

// keepIn reads what was kept and keeps comparisons there from now on. One that ran when
// the daemon ended has ended with it.
func (c *comparisons) keepIn(kept comparisonStore) error {
	records, err := kept.Comparisons()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = kept
	for _, r := range records {
		shown := &lmwardenv1.Comparison{}
		if r.Broken == nil {
			r.Broken = proto.Unmarshal(r.Data, shown)
		}
		if r.Broken != nil {
			c.warn(r.Name, "The last comparison of %s cannot be read and is not shown: %v.", r.Name, r.Broken)
			continue
		}
		if shown.GetRunning() {
			shown.Running, shown.Message = false, "the daemon ended"
		}
		c.last[r.Name] = &comparison{former: shown}
	}
	return nil
}

// keep stores the state of a comparison. The caller holds mu.
func (c *comparisons) keep(model string, one *comparison, now time.Time) {
	if c.kept == nil {
		return
	}
	one.keptAt = now
	shown := c.show(model, one, now)
	if shown.GetRunning() {
		// When the daemon is killed it ends here: nothing after this is known.
		shown.Ends = timestamppb.New(now)
	}
	data, err := proto.Marshal(shown)
	if err == nil {
		err = c.kept.PutComparison(model, data)
	}
	if err != nil {
		c.warn(model, "The comparison on %s could not be stored and is lost when the daemon ends: %v.", model, err)
	}
}

// drop forgets the comparison of a model that is gone. The caller holds mu.
func (c *comparisons) drop(model string, one *comparison) {
	c.byTrial.Delete(one.id)
	delete(c.last, model)
	if c.kept == nil {
		return
	}
	if err := c.kept.DeleteComparison(model); err != nil {
		c.warn(model, "The comparison of the removed model %s is still stored: %v.", model, err)
	}
}

// end keeps the comparisons that run as the daemon ends.
func (c *comparisons) end(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for model, one := range c.last {
		if one.running {
			c.stop(model, one, "the daemon was stopped", now)
		}
	}
}

func (c *comparisons) warn(model, format string, args ...any) {
	c.events.Add(stats.Event{Severity: stats.Warning, Kind: "comparison_not_kept", Model: model, Replica: box, Message: fmt.Sprintf(format, args...)})
}

// show returns a comparison in the API's terms, evaluated anew when its figures are old.
// The caller holds mu.
func (c *comparisons) show(model string, one *comparison, now time.Time) *lmwardenv1.Comparison {
	if one.former != nil {
		return proto.CloneOf(one.former)
	}
	if one.report == nil || now.Sub(one.at) >= reportEvery {
		moment, quiet := now, c.quiet(model)
		if !one.running {
			// Turns that began after the end are not recorded, so that every conversation
			// falls silent then. Which of them were over is judged as of the end.
			moment, quiet = one.ends, one.quiet
		}
		one.report, one.at = one.turns.Report(moment, quiet, one.names, one.running, one.seed), now
	}
	return one.shown(model)
}

// quiet returns how long a conversation of a model is idle before it counts as over.
func (c *comparisons) quiet(model string) time.Duration {
	view, _ := c.plane.View(model)
	return max(view.Learned.Linger, time.Second)
}
