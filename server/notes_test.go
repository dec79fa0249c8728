package server

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
)

// What a person did stands among the events, once for each change.
func TestEventsTellWhatPeopleDid(t *testing.T) {
	r := newRig(t, nil)
	ctx := t.Context()
	r.create(t, "m", 2)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time nothing changes
		_, err := r.routing.UpdateRouting(ctx, &lmwardenv1.UpdateRoutingRequest{
			Model: "m", Settings: &lmwardenv1.RoutingSettings{Affinity: proto.Bool(false)}, UpdateMask: mask("affinity", "spill_threshold"),
		})
		do(err)
		_, err = r.replicas.DrainReplica(ctx, &lmwardenv1.DrainReplicaRequest{Model: "m", Index: 1})
		do(err)
	}
	_, err := r.replicas.ResumeReplica(ctx, &lmwardenv1.ResumeReplicaRequest{Model: "m", Index: 1})
	do(err)
	_, err = r.replicas.RestartReplica(ctx, &lmwardenv1.RestartReplicaRequest{Model: "m", Index: 0})
	do(err)
	_, err = r.models.UpdateModel(ctx, &lmwardenv1.UpdateModelRequest{Name: "m", Spec: &lmwardenv1.ModelSpec{MaxNumSeqs: proto.Uint32(16)}, UpdateMask: mask("max_num_seqs")})
	do(err)
	_, err = r.models.StopModel(ctx, &lmwardenv1.StopModelRequest{Name: "m", Wait: true})
	do(err)
	_, err = r.models.StartModel(ctx, &lmwardenv1.StartModelRequest{Name: "m"})
	do(err)
	_, err = r.models.DeleteModel(ctx, &lmwardenv1.DeleteModelRequest{Name: "m"})
	do(err)

	list, err := r.system.ListEvents(ctx, &lmwardenv1.ListEventsRequest{Model: "m"})
	do(err)
	var got []string
	for _, e := range list.GetEvents() {
		got = append([]string{e.GetKind() + ": " + e.GetMessage()}, got...)
	}
	want := []string{
		"model_added: Model m was added.",
		"routing_changed: Routing of m changed: affinity from its default to off.",
		"replica_drained: Replica 1 of m was taken out of rotation.",
		"replica_resumed: Replica 1 of m was put back into rotation.",
		"replica_restarting: A restart of replica 0 of m was asked for; it finishes what it has first.",
		"model_changed: Settings of m changed: max_num_seqs from 32 to 16.",
		"model_stopped: Model m was stopped; its replicas finish what they have.",
		"model_started: Model m was started.",
		"model_removed: Model m was removed.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	_, err = r.system.ListEvents(ctx, &lmwardenv1.ListEventsRequest{Model: "nope"})
	wantError(t, err, connect.CodeNotFound, "nope")
}

// Who starts the daemon in a terminal sees there why a model does not run.
func TestGraveEventsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := &control{log: zerolog.New(&out), events: stats.NewEvents()}
		ctx, cancel := context.WithCancel(t.Context())
		go c.logEvents(ctx)
		c.events.Add(stats.Event{Severity: stats.Note, Kind: "calm", Message: "All is well."})
		c.events.Add(stats.Event{Severity: stats.Error, Kind: "replica_failed", Message: "It failed."})
		synctest.Wait()
		cancel()
		synctest.Wait()
		if want := `{"level":"error","kind":"replica_failed","message":"It failed."}`; strings.TrimSpace(out.String()) != want {
			t.Errorf("logged %s, want %s", out.String(), want)
		}
	})
}

// A conversation is found by its id or by a beginning that only it has.
func TestConversationsAreFoundByABeginning(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 2)
	r.plane.mu.Lock()
	r.plane.conversations = []route.ConversationView{{Key: route.Key{0xab, 0x12}}, {Key: route.Key{0xab, 0x34}}, {Key: route.Key{0xcd}}}
	r.plane.mu.Unlock()
	move := func(id string) (*lmwardenv1.MoveConversationResponse, error) {
		return r.routing.MoveConversation(t.Context(), &lmwardenv1.MoveConversationRequest{Model: "m", Conversation: id, Replica: 1})
	}
	for id, whole := range map[string]string{"c": "cd00000000000000", "ab34": "ab34000000000000", "ab12000000000000": "ab12000000000000"} {
		if got, err := move(id); err != nil || got.GetConversation().GetId() != whole || got.GetConversation().GetHome() != 1 {
			t.Errorf("%s: %v, %v; want %s at home on 1", id, got, err, whole)
		}
	}
	_, err := move("ab")
	wantError(t, err, connect.CodeInvalidArgument, "ab12000000000000, ab34000000000000")
	_, err = move("ef")
	wantError(t, err, connect.CodeNotFound, "lmwarden conversation list m")
}

// A cache holds no more of a conversation than there is of it.
func TestCachedIsNotMoreThanTheContext(t *testing.T) {
	for _, test := range []struct{ context, resident, inFlight, wantContext, wantResident int64 }{
		{12_401, 13_190, 0, 12_401, 12_401},
		{12_401, 13_190, 1, 13_190, 13_190},
		{12_401, 9_000, 1, 12_401, 9_000},
		{0, 500, 1, 0, 500}, // not known before the first usage
	} {
		got := conversation(route.ConversationView{Context: test.context, Resident: test.resident, InFlight: int(test.inFlight)}, nil)
		if int64(got.GetContextTokens()) != test.wantContext || int64(got.GetResidentTokens()) != test.wantResident {
			t.Errorf("%+v: context %d, cached %d", test, got.GetContextTokens(), got.GetResidentTokens())
		}
	}
}

func TestAMissingSourceIsToldOnce(t *testing.T) {
	r := newRig(t, nil)
	_, err := r.models.CreateModel(t.Context(), &lmwardenv1.CreateModelRequest{Name: "m", Spec: &lmwardenv1.ModelSpec{}})
	if err == nil || strings.Count(err.Error(), "source") != 1 {
		t.Errorf("got %v, want one sentence on the source", err)
	}
}
