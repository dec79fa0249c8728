package server

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/supervisor"
)

// A model that shrinks: the proxy knows the replica that goes, as draining, until its
// last process is gone, and its card is nobody else's for as long.
func TestShrinkingKeepsWhatStillStops(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 3)
	r.engines.setLinger(true)
	_, err := r.models.UpdateModel(t.Context(), &lmwardenv1.UpdateModelRequest{
		Name: "m", Spec: &lmwardenv1.ModelSpec{Replicas: 2}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"replicas"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	sync := func() {
		t.Helper()
		if err := r.loop.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sync()
	got := r.plane.model(t, "m").Replicas
	if len(got) != 3 || !got[2].Route.Draining || got[2].Route.Ready || got[2].URL == "" || !got[1].Route.Ready || got[1].Route.Draining {
		t.Fatalf("while it stops the proxy knows %+v", got)
	}
	r.plane.cuts = map[proxy.ReplicaID]int{got[2].ID: 2}
	drain(t.Context(), r.control, supervisor.ReplicaID{Model: "m", Index: 2})
	page, _ := r.events.Page("m", 0, 100)
	cut := 0
	for _, e := range page {
		if e.Kind == "requests_cut" && e.Replica == 2 && strings.Contains(e.Message, "before 2 of its requests") {
			cut++
		}
	}
	if cut != 1 {
		t.Errorf("events %+v, want one of the requests that were cut", page)
	}
	_, err = r.models.CreateModel(t.Context(), &lmwardenv1.CreateModelRequest{
		Name: "n", Spec: &lmwardenv1.ModelSpec{Source: "x", Replicas: 2, MaxNumSeqs: proto.Uint32(32)},
	})
	if err == nil {
		t.Error("a model of two cards found place beside two that run and one that stops, on four cards")
	}
	r.engines.setLinger(false)
	sync()
	sync()
	if got := r.plane.model(t, "m").Replicas; len(got) != 2 {
		t.Errorf("when it is gone the proxy knows %+v", got)
	}
	r.create(t, "n", 2)
}
