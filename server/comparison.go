package server

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/compare"
	"github.com/lmwarden/lmwarden/server/stats"
)

// comparisonLength is how long a comparison runs that states nothing.
const comparisonLength = 20 * time.Minute

// reportEvery is the shortest time between two evaluations of a comparison that runs.
const reportEvery = 5 * time.Second

// comparisons are the live comparisons, one a model at most, and the last one of each.
// It is safe for concurrent use.
type comparisons struct {
	plane  dataPlane
	events *stats.Events

	// byTrial holds the turns of each comparison by the id of its trial: who records a
	// request must not wait for a report.
	byTrial sync.Map

	mu     sync.Mutex // guards what follows and the comparisons
	nextID uint32
	last   map[string]*comparison
	kept   comparisonStore // nil keeps them in memory only
}

// comparison is one comparison of a model.
type comparison struct {
	id      uint32
	names   [2]string
	set     [2]*lmwardenv1.RoutingSettings
	seed    uint64
	model   time.Time // when the model was made, which tells it from one of the same name
	started time.Time
	ends    time.Time
	running bool
	message string        // why it ended before its time
	quiet   time.Duration // once it has ended: how long a conversation had to be idle to be over
	turns   *compare.Comparison

	report *compare.Report
	at     time.Time // of the report

	keptAt time.Time              // when its state was last stored
	former *lmwardenv1.Comparison // of an earlier run of the daemon; nothing else is set then
}

func newComparisons(plane dataPlane, events *stats.Events) *comparisons {
	return &comparisons{plane: plane, events: events, last: make(map[string]*comparison)}
}

// comparableSettings are the settings that can run side by side in one router.
var comparableSettings = map[protoreflect.Name]bool{"affinity": true, "spill_threshold": true, "spill": true, "policy": true}

// checkComparison refuses settings that cannot be compared side by side.
func checkComparison(settings []*lmwardenv1.ComparisonSetting) error {
	for _, s := range settings {
		var bad error
		s.GetSettings().ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			switch {
			case f.Name() == "admission":
				bad = invalid("admission cannot be compared side by side: it decides over all conversations of a model together, and both settings would share one door and the same caches. Run lmwarden simulate or lmwarden bench with the one and then with the other instead")
			case !comparableSettings[f.Name()]:
				bad = invalid("%s holds for a model as a whole and cannot be compared side by side; affinity, spill_threshold, spill and policy can", f.Name())
			}
			return bad == nil
		})
		if bad != nil {
			return bad
		}
	}
	if proto.Equal(settings[0].GetSettings(), settings[1].GetSettings()) {
		return invalid("both settings are the same; name one field in which they differ, such as affinity")
	}
	return nil
}

// start begins a comparison on a model, whose own settings both arms inherit.
func (c *comparisons) start(m *lmwardenv1.Model, req *lmwardenv1.StartComparisonRequest, now time.Time) error {
	length := comparisonLength
	if req.GetDuration() != nil {
		length = req.GetDuration().AsDuration()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.last[req.GetModel()]; old != nil && old.running {
		return comparisonRuns(req.GetModel(), old.ends)
	}
	c.nextID++
	one := &comparison{
		id: c.nextID, seed: req.GetSeed(), model: m.GetCreated().AsTime(), started: now, ends: now.Add(length), running: true, turns: compare.New(),
	}
	trial := &route.Trial{ID: one.id, Seed: one.seed}
	for i, s := range req.GetSettings() {
		one.names[i] = or(s.GetName(), []string{"A", "B"}[i])
		one.set[i] = s.GetSettings()
		merged := &lmwardenv1.RoutingSettings{}
		proto.Merge(merged, m.GetRouting())
		proto.Merge(merged, s.GetSettings())
		trial.Arms[i] = routeSettings(merged)
	}
	if err := tellApart(one.names, trial.Arms); err != nil {
		return err
	}
	c.byTrial.Store(one.id, one.turns) // before the first turn of it can end
	if err := c.plane.Compare(req.GetModel(), trial); err != nil {
		c.byTrial.Delete(one.id)
		return err
	}
	if old := c.last[req.GetModel()]; old != nil {
		c.byTrial.Delete(old.id)
	}
	c.last[req.GetModel()] = one
	c.keep(req.GetModel(), one, now)
	c.events.Add(stats.Event{Severity: stats.Note, Kind: "comparison_started", Model: req.GetModel(), Replica: -1, Message: fmt.Sprintf("New conversations of %s are assigned at random to %q and %q for %s.", req.GetModel(), one.names[0], one.names[1], length)})
	return nil
}

// tellApart refuses arms that come to the same with what they inherit, and names that do
// not tell which arm a verdict means.
func tellApart(names [2]string, arms [2]route.Settings) error {
	if arms[0] == arms[1] {
		return invalid("both settings come to the same with the model's own; name one field in which they differ, such as affinity")
	}
	if names[0] == names[1] {
		return invalid("both settings are called %q; give them names of their own", names[0])
	}
	return nil
}

// stop ends a comparison; why is empty when its time is over. The caller holds mu.
func (c *comparisons) stop(model string, one *comparison, why string, now time.Time) {
	one.running, one.message, one.quiet = false, why, c.quiet(model)
	if now.Before(one.ends) {
		one.ends = now
	}
	one.report = nil
	// A model that is gone has no trial any more.
	_ = c.plane.Compare(model, nil)
	c.keep(model, one, now)
	c.events.Add(stats.Event{Severity: stats.Note, Kind: "comparison_ended", Model: model, Replica: -1, Message: fmt.Sprintf("The comparison of %q and %q on %s has ended. %s", one.names[0], one.names[1], model, c.show(model, one, now).GetVerdict())})
}

// tick ends the comparisons whose time is over or whose ground is gone.
func (c *comparisons) tick(entries []*entry, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	models := make(map[string]*entry, len(entries))
	for _, e := range entries {
		models[e.name()] = e
	}
	for model, one := range c.last {
		e := models[model]
		switch {
		case e == nil:
			if one.running {
				c.stop(model, one, "the model was removed", now)
			}
			c.drop(model, one)
		case !one.running:
			// Once more, with the turns that were under way at its end.
			if settled := one.ends.Add(keepEvery); one.former == nil && one.keptAt.Before(settled) && !now.Before(settled) {
				c.keep(model, one, now)
			}
		case !e.model.GetCreated().AsTime().Equal(one.model):
			c.stop(model, one, "the model was removed; this is another one of its name", now)
			c.drop(model, one)
		case !now.Before(one.ends):
			c.stop(model, one, "", now)
		case one.turns.Full():
			c.stop(model, one, fmt.Sprintf("one setting has seen %d conversations or %d turns, the most that are kept", compare.MaxConversations, compare.MaxTurns), now)
		case admissionInForce(e.model.GetRouting()) != lmwardenv1.Admission_ADMISSION_NONE:
			c.stop(model, one, "admission was switched on, under which the door chooses the replicas", now)
		case now.Sub(one.keptAt) >= keepEvery:
			c.keep(model, one, now)
		}
	}
}

// record takes a finished request into the comparison that it takes part in.
func (c *comparisons) record(r *proxy.Record) {
	if !r.Decided || r.Decision.Trial == 0 {
		return
	}
	turns, ok := c.byTrial.Load(r.Decision.Trial)
	if !ok {
		return
	}
	//nolint:errcheck // the map holds comparisons only
	turns.(*compare.Comparison).Add(compare.Turn{
		Arm: r.Decision.Arm, Conversation: r.Decision.Conversation, First: r.Decision.Turn == 1,
		Arrived: r.Arrived, Duration: r.Duration, FirstToken: r.FirstToken,
		Prompt: r.Prompt, Cached: r.Cached, Completion: r.Completion,
	})
}

// trialRecorder passes finished requests to the statistics and to the comparisons.
type trialRecorder struct {
	*stats.Collector
	comparisons *comparisons
}

var _ proxy.Recorder = trialRecorder{}

// Record takes a finished request. It never blocks for longer than an addition.
func (r trialRecorder) Record(rec proxy.Record) {
	r.comparisons.record(&rec)
	r.Collector.Record(rec)
}
