package server

import (
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
)

// onOff compares affinity on with off on model m for ten minutes.
func onOff() *lmwardenv1.StartComparisonRequest {
	arm := func(name string, on bool) *lmwardenv1.ComparisonSetting {
		return &lmwardenv1.ComparisonSetting{Name: name, Settings: &lmwardenv1.RoutingSettings{Affinity: proto.Bool(on)}}
	}
	return &lmwardenv1.StartComparisonRequest{
		Model: "m", Settings: []*lmwardenv1.ComparisonSetting{arm("on", true), arm("off", false)},
		Duration: durationpb.New(10 * time.Minute), Seed: 5,
	}
}

// createPlain makes a model without admission.
func (r *rig) createPlain(t *testing.T) {
	t.Helper()
	_, err := r.models.CreateModel(t.Context(), &lmwardenv1.CreateModelRequest{
		Name: "m", Spec: &lmwardenv1.ModelSpec{Source: "Qwen/Qwen3-4B", Replicas: 2, TensorParallelSize: 1},
		Routing: &lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_NONE, SpillThreshold: proto.Uint32(6)},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// trialOf returns the last trial that the router was told; nil when it was ended.
func (r *rig) trialOf(t *testing.T) *route.Trial {
	t.Helper()
	r.plane.mu.Lock()
	defer r.plane.mu.Unlock()
	if len(r.plane.trials) == 0 {
		t.Fatal("the router was told of no trial")
	}
	return r.plane.trials[len(r.plane.trials)-1]
}

func TestComparisonRunsAndEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.createPlain(t)
		if _, err := r.routing.StartComparison(t.Context(), onOff()); err != nil {
			t.Fatal(err)
		}
		trial := r.trialOf(t)
		if !trial.Arms[0].Affinity || trial.Arms[1].Affinity || trial.Seed != 5 || trial.Arms[1].SpillThreshold != 6 {
			t.Errorf("trial %+v; the arms differ in affinity and inherit the rest", trial)
		}
		_, err := r.routing.StartComparison(t.Context(), onOff())
		wantError(t, err, connect.CodeFailedPrecondition, "stop it first")
		rec := trialRecorder{r.stats, r.comparisons}
		for n := range 40 {
			for turn := range 2 {
				rec.Record(proxy.Record{
					Model: "m", Decided: true, Arrived: time.Now().Add(time.Duration(turn) * 3 * time.Second), Duration: 2 * time.Second,
					FirstToken: time.Duration(1+n%2) * time.Second, Prompt: 100, Cached: 50, Completion: 10,
					Decision: route.Decision{Trial: trial.ID, Arm: n % 2, Conversation: route.Key{byte(n + 1)}, Turn: uint64(turn + 1)},
				})
			}
		}
		rec.Record(proxy.Record{Model: "m", Decided: true, Decision: route.Decision{Conversation: route.Key{99}, Turn: 1}})
		time.Sleep(9 * time.Minute)
		got, err := r.routing.GetComparison(t.Context(), &lmwardenv1.GetComparisonRequest{Model: "m"})
		c := got.GetComparison()
		if err != nil || !c.GetRunning() || c.GetArms()[0].GetTurns() != 40 || c.GetArms()[1].GetEnded() != 20 || c.GetMethod() == "" {
			t.Fatalf("%v, %v", c, err)
		}
		if f := c.GetFigures()[0]; f.GetA() != 1 || f.GetB() != 2 || f.GetLow() != 1 || f.GetHigh() != 1 || f.GetNoise() > 0.05 {
			t.Errorf("mean first token: %v", f)
		}
		if want := "on is better by 1.00 to 1.00 s to the first token, on the mean of all turns; less than 1 % chance that this is noise."; c.GetVerdict() != want {
			t.Errorf("verdict %q, want %q", c.GetVerdict(), want)
		}
		time.Sleep(2 * time.Minute)
		got, err = r.routing.GetComparison(t.Context(), &lmwardenv1.GetComparisonRequest{Model: "m"})
		if err != nil || got.GetComparison().GetRunning() || got.GetComparison().GetMessage() != "" {
			t.Errorf("after its time: %v, %v", got, err)
		}
		if r.trialOf(t) != nil {
			t.Error("the router still assigns conversations")
		}
		if page, _ := r.events.Page("m", 0, 1); len(page) != 1 || page[0].Kind != "comparison_ended" {
			t.Errorf("last event %v", page)
		}
	})
}

func TestComparisonEndsWhenItsGroundGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.createPlain(t)
		start := func() {
			t.Helper()
			if _, err := r.routing.StartComparison(t.Context(), onOff()); err != nil {
				t.Fatal(err)
			}
		}
		start()
		stopped, err := r.routing.StopComparison(t.Context(), &lmwardenv1.StopComparisonRequest{Model: "m"})
		if err != nil || stopped.GetComparison().GetRunning() || stopped.GetComparison().GetMessage() != "it was stopped" || r.trialOf(t) != nil {
			t.Errorf("stopped: %v, %v", stopped, err)
		}
		start()
		_, err = r.routing.UpdateRouting(t.Context(), &lmwardenv1.UpdateRoutingRequest{
			Model: "m", Settings: &lmwardenv1.RoutingSettings{}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"admission"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * heartbeat)
		got, err := r.routing.GetComparison(t.Context(), &lmwardenv1.GetComparisonRequest{Model: "m"})
		if err != nil || got.GetComparison().GetRunning() || r.trialOf(t) != nil {
			t.Errorf("with admission on: %v, %v", got, err)
		}
		_, err = r.routing.StartComparison(t.Context(), onOff())
		wantError(t, err, connect.CodeFailedPrecondition, "--admission none")
	})
}

func TestComparisonOfAModelThatWasMadeAnew(t *testing.T) {
	plane, events := &fakePlane{views: map[string]route.View{}}, stats.NewEvents()
	c := newComparisons(plane, events)
	now := time.Unix(1000, 0)
	made := func(at time.Time) *lmwardenv1.Model {
		return &lmwardenv1.Model{Name: "m", Created: timestamppb.New(at), Routing: &lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_NONE}}
	}
	if err := c.start(made(now), onOff(), now); err != nil {
		t.Fatal(err)
	}
	c.tick([]*entry{{model: made(now)}}, now.Add(time.Second))
	if one := c.last["m"]; one == nil || !one.running {
		t.Fatalf("of the same model: %+v", one)
	}
	c.tick([]*entry{{model: made(now.Add(time.Second))}}, now.Add(2*time.Second))
	if len(c.last) != 0 || len(plane.trials) != 2 || plane.trials[1] != nil {
		t.Errorf("%v, trials %v: the comparison went on with a model that it knows nothing of", c.last, plane.trials)
	}
	page, _ := events.Page("m", 0, 1)
	if len(page) != 1 || page[0].Kind != "comparison_ended" {
		t.Errorf("%v", page)
	}
}

func TestComparisonRefusals(t *testing.T) {
	r := newRig(t, nil)
	r.createPlain(t)
	set := func(a, b *lmwardenv1.RoutingSettings) *lmwardenv1.StartComparisonRequest {
		return &lmwardenv1.StartComparisonRequest{Model: "m", Settings: []*lmwardenv1.ComparisonSetting{{Settings: a}, {Settings: b}}}
	}
	on, none := &lmwardenv1.RoutingSettings{Affinity: proto.Bool(true)}, &lmwardenv1.RoutingSettings{}
	for _, tt := range []struct {
		name string
		req  *lmwardenv1.StartComparisonRequest
		code connect.Code
		says string
	}{
		{"admission", set(on, &lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_WORKING_SET}), connect.CodeInvalidArgument, "share one door"},
		{"a bound", set(on, &lmwardenv1.RoutingSettings{MaxQueue: proto.Uint32(3)}), connect.CodeInvalidArgument, "max_queue holds for a model as a whole"},
		{"the same twice", set(on, on), connect.CodeInvalidArgument, "the same"},
		{"the same as the model's own", set(on, none), connect.CodeInvalidArgument, "come to the same with the model's own"},
		{"one name", &lmwardenv1.StartComparisonRequest{Model: "m", Settings: []*lmwardenv1.ComparisonSetting{
			{Name: "B", Settings: on}, {Settings: &lmwardenv1.RoutingSettings{Affinity: proto.Bool(false)}},
		}}, connect.CodeInvalidArgument, `both settings are called "B"`},
		{"one setting", &lmwardenv1.StartComparisonRequest{Model: "m", Settings: []*lmwardenv1.ComparisonSetting{{Settings: on}}}, connect.CodeInvalidArgument, "settings"},
		{"no such model", &lmwardenv1.StartComparisonRequest{Model: "x", Settings: set(on, none).GetSettings()}, connect.CodeNotFound, "x"},
	} {
		_, err := r.routing.StartComparison(t.Context(), tt.req)
		t.Run(tt.name, func(t *testing.T) { wantError(t, err, tt.code, tt.says) })
	}
	_, err := r.routing.GetComparison(t.Context(), &lmwardenv1.GetComparisonRequest{Model: "m"})
	wantError(t, err, connect.CodeNotFound, "lmwarden compare start")
}
