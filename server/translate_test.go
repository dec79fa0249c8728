package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
	"github.com/lmwarden/lmwarden/server/store"
	"github.com/lmwarden/lmwarden/supervisor"
)

func TestErrorsReachTheWireWithTheirCode(t *testing.T) {
	tests := map[string]struct {
		err  error
		code connect.Code
		text string
	}{
		"refusal, wrapped": {fmt.Errorf("x: %w", stoppedModel("m")), connect.CodeFailedPrecondition, "model m is stopped"},
		"stale, wrapped":   {fmt.Errorf("x: %w", &store.StaleError{Name: "m", Seen: 1, Current: 2}), connect.CodeAborted, "revision 2"},
		"already coded":    {connect.NewError(connect.CodeUnauthenticated, "token"), connect.CodeUnauthenticated, "token"},
		"client left":      {fmt.Errorf("x: %w", context.Canceled), connect.CodeCanceled, ""},
		"too late":         {context.DeadlineExceeded, connect.CodeDeadlineExceeded, ""},
		"conversation":     {fmt.Errorf("x: %w", proxy.ErrUnknownConversation), connect.CodeNotFound, "idle too long"},
		"disk full":        {fmt.Errorf("write: %w", syscall.ENOSPC), connect.CodeResourceExhausted, "disk"},
		"stopping":         {errStopping, connect.CodeUnavailable, "stopping"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			wantError(t, toWire(test.err, zerolog.Nop()), test.code, test.text)
		})
	}
	if toWire(nil, zerolog.Nop()) != nil {
		t.Error("no error became one")
	}
}

func TestUnknownErrorsAreLoggedAndHidden(t *testing.T) {
	var log strings.Builder
	err := toWire(errors.New("the secret path /srv/x"), zerolog.New(&log))
	wantError(t, err, connect.CodeInternal, "error_id")
	if strings.Contains(err.Error(), "secret") || !strings.Contains(log.String(), "secret") {
		t.Errorf("sent %q, logged %q", err, log.String())
	}
	_, id, _ := strings.Cut(err.Error(), "error_id ")
	if !strings.Contains(log.String(), id) {
		t.Errorf("the log %q does not hold the id %q", log.String(), id)
	}
}

func TestRouteSettings(t *testing.T) {
	want := route.DefaultSettings()
	want.Admission = route.AdmissionWorkingSet // the core's own default holds nobody
	if diff := cmp.Diff(want, routeSettings(nil)); diff != "" {
		t.Errorf("no settings are not the defaults:\n%s", diff)
	}
	got := routeSettings(&lmwardenv1.RoutingSettings{
		Affinity:         proto.Bool(false),
		SpillThreshold:   proto.Uint32(5),
		Spill:            lmwardenv1.SpillRule_SPILL_RULE_PRICED,
		Admission:        lmwardenv1.Admission_ADMISSION_WORKING_SET,
		Policy:           lmwardenv1.PlacementPolicy_PLACEMENT_POLICY_RANDOM,
		ClientPinning:    proto.Bool(false),
		ConversationIdle: durationpb.New(time.Hour),
		SubagentIdle:     durationpb.New(time.Minute),
		MaxConversations: proto.Uint32(64),
		MaxHold:          durationpb.New(time.Second),
		MaxQueue:         proto.Uint32(7),
	})
	want = route.Settings{
		SpillThreshold: 5, Spill: route.SpillPriced, Admission: route.AdmissionWorkingSet, Policy: route.PolicyRandom,
		IdleMain: time.Hour, IdleAgent: time.Minute, MaxConversations: 64, MaxHold: time.Second, MaxQueue: 7,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryClassHasACodeAndASentence(t *testing.T) {
	seen := map[lmwardenv1.DecisionClass]bool{}
	for c := route.ClassPlaced; c < route.NumClasses; c++ {
		code := decisionClass(c)
		if code == lmwardenv1.DecisionClass_DECISION_CLASS_UNSPECIFIED || seen[code] {
			t.Errorf("class %d has the code %v", c, code)
		}
		seen[code] = true
		if explain(&proxy.Record{Decided: true, Decision: route.Decision{Class: c}}) == "" {
			t.Errorf("class %v has no sentence", code)
		}
	}
	held := explain(&proxy.Record{Decided: true, Decision: route.Decision{Class: route.ClassSticky, Wait: 1500 * time.Millisecond}})
	if !strings.Contains(held, "waited 1.5 s at the door") {
		t.Errorf("a held request: %q", held)
	}
}

func TestFit(t *testing.T) {
	for _, test := range []struct {
		live, capacity int64
		want           lmwardenv1.Fit
	}{
		{0, 0, lmwardenv1.Fit_FIT_UNSPECIFIED},
		{0, 100, lmwardenv1.Fit_FIT_FITS},
		{84, 100, lmwardenv1.Fit_FIT_FITS},
		{85, 100, lmwardenv1.Fit_FIT_EDGE},
		{100, 100, lmwardenv1.Fit_FIT_EDGE},
		{101, 100, lmwardenv1.Fit_FIT_THRASH},
	} {
		if got, _ := fitOf(test.live, test.capacity); got != test.want {
			t.Errorf("%d of %d: %v, want %v", test.live, test.capacity, got, test.want)
		}
	}
	if full := fullnessOf(route.View{}); full.roomFor != -1 || full.fill >= 0 {
		t.Errorf("nothing known: %+v", full)
	}
}

// While admission works the room is what the door would give: with room for growth, and
// none while one of the mean size waits.
func TestRoomIsThatOfTheDoor(t *testing.T) {
	v := route.View{
		Holding: true, Reserve: 10, SharedTokens: -1, Active: 2,
		Replicas: []route.ReplicaView{
			{Capacity: 100, Active: 1, ActiveTokens: 20, Admitted: 1, AdmittedTokens: 20, Free: 70},
			{Capacity: 100, Active: 1, ActiveTokens: 20, Admitted: 2, AdmittedTokens: 60, Free: 20},
		},
	}
	for _, test := range []struct {
		waiting        int
		smallest, want int64
	}{
		{0, 0, 2},  // and not 8, as many as beside those at work
		{1, 25, 2}, // only a larger one waits
		{1, 20, 0},
		{1, 0, 0}, // nobody may pass
	} {
		v.Waiting, v.Smallest = test.waiting, test.smallest
		if got := fullnessOf(v).roomFor; got != test.want {
			t.Errorf("%d wait, the smallest with %d tokens: room for %d, want %d", test.waiting, test.smallest, got, test.want)
		}
	}
	// One that fills a replica has it to itself, without room for growth.
	large := route.View{
		Holding: true, Reserve: 18, SharedTokens: -1, Active: 1,
		Replicas: []route.ReplicaView{
			{Capacity: 100, Active: 1, ActiveTokens: 85, Admitted: 1, AdmittedTokens: 85},
			{Capacity: 100, Free: 100},
			{Capacity: 80, Free: 80},
		},
	}
	if got := fullnessOf(large).roomFor; got != 1 {
		t.Errorf("beside an empty replica: room for %d, want 1", got)
	}
	v.Waiting, v.Holding = 0, false
	if got := fullnessOf(v).roomFor; got != 8 {
		t.Errorf("without admission: room for %d, want 8", got)
	}
}

// A figure that is missing, negative or no number is absent, never 0.
func TestAbsentFiguresStayAbsent(t *testing.T) {
	nan, negative, zero := math.NaN(), -1.0, 0.0
	for _, v := range []*float64{nil, &nan, &negative} {
		if got := optional[float64](v); got != nil {
			t.Errorf("it became %v", *got)
		}
	}
	if got := optional[float64](&zero); got == nil || *got != 0 {
		t.Error("a true zero is missing")
	}
}

func TestReplicaChangesBecomeEvents(t *testing.T) {
	events := stats.NewEvents()
	wakes := 0
	s := &stateEvents{events: events, wake: func() { wakes++ }, last: map[supervisor.ReplicaID]standing{}}
	id := supervisor.ReplicaID{Model: "m", Index: 2}
	for _, state := range []supervisor.State{
		supervisor.Starting, supervisor.Starting, supervisor.Ready, supervisor.Ready,
		supervisor.Suspect, supervisor.Ready, supervisor.Backoff, supervisor.Failed,
	} {
		s.changed(supervisor.Status{ID: id, State: state, Message: "It said why."})
	}
	s.changed(supervisor.Status{ID: id, State: supervisor.Suspect, Message: "It is slow."})
	s.changed(supervisor.Status{ID: id, State: supervisor.Suspect, Silent: true, Message: "It hangs."})
	page, _ := events.Page("m", 0, 100)
	var got []string
	for _, e := range page {
		got = append([]string{e.Kind}, got...)
		if e.Replica != 2 || e.Message == "" {
			t.Errorf("event %+v", e)
		}
	}
	want := []string{"replica_ready", "replica_suspect", "replica_ready", "replica_backoff", "replica_failed", "replica_suspect", "replica_suspect"}
	if diff := cmp.Diff(want, got); diff != "" || wakes != 8 {
		t.Errorf("%d wakes, want 8\n%s", wakes, diff)
	}
}

func TestWhatTheRouterIsToldOfAReplica(t *testing.T) {
	now := time.Now()
	r := &reconciler{drained: newDrained(), now: func() time.Time { return now }}
	seqs, longest := int64(16), int64(18_000)
	fresh := supervisor.EngineFigures{At: now.Add(-time.Second), MaxNumSeqs: &seqs}
	short := supervisor.EngineFigures{At: fresh.At, MaxNumSeqs: &seqs, MaxModelLen: &longest}
	stated := &lmwardenv1.ModelSpec{MaxNumSeqs: proto.Uint32(32), MaxModelLen: proto.Uint32(40_000)}
	tests := map[string]struct {
		st       supervisor.Status
		anyReady bool
		want     route.Replica
	}{
		"ready":                {supervisor.Status{State: supervisor.Ready, Incarnation: 3, Engine: fresh}, true, route.Replica{Incarnation: 3, Ready: true, MaxNumSeqs: 16, MaxModelLen: 40_000}},
		"takes less":           {supervisor.Status{State: supervisor.Ready, Engine: short}, true, route.Replica{Ready: true, MaxNumSeqs: 16, MaxModelLen: 18_000}},
		"old figures":          {supervisor.Status{State: supervisor.Ready, Engine: supervisor.EngineFigures{At: now.Add(-time.Minute)}}, true, route.Replica{Ready: true, MaxNumSeqs: 32, MaxModelLen: 40_000, MetricsUnavailable: true}},
		"slow beside ready":    {supervisor.Status{State: supervisor.Suspect, Engine: fresh}, true, route.Replica{Ready: true, Avoid: true, MaxNumSeqs: 16, MaxModelLen: 40_000}},
		"silent beside ready":  {supervisor.Status{State: supervisor.Suspect, Silent: true, Engine: fresh}, true, route.Replica{Avoid: true, MaxNumSeqs: 16, MaxModelLen: 40_000}},
		"silent and none else": {supervisor.Status{State: supervisor.Suspect, Silent: true, Engine: fresh}, false, route.Replica{Ready: true, Avoid: true, MaxNumSeqs: 16, MaxModelLen: 40_000}},
		"stopping":             {supervisor.Status{State: supervisor.Stopping, Engine: fresh}, false, route.Replica{Draining: true, MaxNumSeqs: 16, MaxModelLen: 40_000}},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, r.routeReplica(test.st, stated, test.anyReady)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
