package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
)

// pageMessages starts a Watch and returns what it sends, one message at a time. The
// kinds are the names of the parts.
func pageMessages(t *testing.T, r *rig, req *lmwardenv1.WatchRequest) (next func() (string, *lmwardenv1.WatchResponse), leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := r.system.Watch(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	next = func() (string, *lmwardenv1.WatchResponse) {
		t.Helper()
		m, err := stream.Receive()
		if err != nil {
			t.Fatal(err)
		}
		f := m.ProtoReflect().WhichOneof(m.ProtoReflect().Descriptor().Oneofs().ByName("part"))
		return string(f.Name()), m
	}
	return next, func() {
		cancel()
		_ = stream.Close()
	}
}

func TestWatchSendsEachPartNowAndWhenItChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.create(t, "m", 1)
		r.events.Add(stats.Event{Kind: "before"})
		next, leave := pageMessages(t, r, &lmwardenv1.WatchRequest{Models: true, Events: true, Routing: "m", Stats: proto.String("")})
		defer leave()
		for _, want := range []string{"info", "events", "models", "routing", "stats"} {
			if kind, _ := next(); kind != want {
				t.Fatalf("%s came, want %s", kind, want)
			}
		}
		// An event comes at once, before the next look.
		start := time.Now()
		r.events.Add(stats.Event{Kind: "now"})
		kind, m := next()
		if kind != "events" || m.GetEvents().GetEvents()[0].GetKind() != "now" || len(m.GetEvents().GetEvents()) != 1 {
			t.Fatalf("%s came: %v", kind, m)
		}
		if waited := time.Since(start); waited > 0 {
			t.Errorf("the event came after %v", waited)
		}
		// A change of the router comes within a second.
		r.plane.setView("m", route.View{InFlight: 7})
		for kind, m := next(); ; kind, m = next() {
			if kind == "routing" && m.GetRouting().GetInFlight() == 7 {
				break
			}
		}
		if waited := time.Since(start); waited > 2*time.Second {
			t.Errorf("the change came after %v", waited)
		}
	})
}

func TestWatchGivesSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		next, leave := pageMessages(t, r, &lmwardenv1.WatchRequest{Models: true})
		defer leave()
		for _, want := range []string{"info", "models"} {
			if kind, _ := next(); kind != want {
				t.Fatalf("%s came, want %s", kind, want)
			}
		}
		start := time.Now()
		if kind, _ := next(); kind != "heartbeat" {
			t.Fatalf("%s came, want heartbeat", kind)
		}
		if waited := time.Since(start); waited < 4*time.Second || waited > 6*time.Second {
			t.Errorf("the sign of life came after %v, want about 5s", waited)
		}
	})
}

func TestWatchOfAnUnknownModelIsRefused(t *testing.T) {
	r := newRig(t, nil)
	stream, err := r.system.Watch(t.Context(), &lmwardenv1.WatchRequest{Routing: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if m, err := stream.Receive(); err != nil || m.GetInfo() == nil {
		t.Fatalf("%v, %v", m, err)
	}
	if m, err := stream.Receive(); err == nil {
		t.Errorf("%v came for a model that does not exist", m)
	}
}

func TestModelsAreSentOnlyWhenTheyChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := r.models.WatchModels(ctx, &lmwardenv1.WatchModelsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if m, err := stream.Receive(); err != nil || len(m.GetModels()) != 0 {
			t.Fatalf("%v, %v", m, err)
		}
		made := make(chan struct{})
		go func() {
			defer close(made)
			time.Sleep(10 * time.Second)
			if _, err := r.models.CreateModel(ctx, &lmwardenv1.CreateModelRequest{Name: "m", Spec: &lmwardenv1.ModelSpec{Source: "x", Replicas: 1}}); err != nil {
				t.Error(err)
			}
		}()
		// The message may come before the call has its answer, and the end of the test
		// would refuse the call.
		defer func() { <-made }()
		start := time.Now()
		if m, err := stream.Receive(); err != nil || len(m.GetModels()) != 1 {
			t.Fatalf("%v, %v", m, err)
		}
		if waited := time.Since(start); waited < 10*time.Second || waited > 11*time.Second {
			t.Errorf("the next message came after %v, want 10s to 11s: nothing changed before", waited)
		}
	})
}

func TestThrashIsAnEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.create(t, "m", 1)
		at := func(active int64) {
			r.plane.setView("m", route.View{Active: 3, Replicas: []route.ReplicaView{{Active: 3, ActiveTokens: active, Capacity: 100}}})
			time.Sleep(fitFirm + 2*heartbeat)
		}
		for _, active := range []int64{50, 120, 98, 130, 50} { // 98 is not calm yet
			at(active)
		}
		page, _ := r.events.Page("m", 0, 100)
		var kinds []string
		for _, e := range page {
			kinds = append(kinds, e.Kind)
		}
		if len(kinds) != 3 || kinds[0] != "cache_fits" || kinds[1] != "cache_thrash" || kinds[2] != "model_added" {
			t.Errorf("events %v, want one of thrash and then one of calm", kinds)
		}
	})
}
