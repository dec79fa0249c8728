package server

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/supervisor"
)

// wantError checks code and sentence, and returns the machine-readable part.
func wantError(t *testing.T, err error, code connect.Code, sentence string) *errdetails.ErrorInfo {
	t.Helper()
	if connect.CodeOf(err) != code || !strings.Contains(err.Error(), sentence) {
		t.Fatalf("got %v, want %v with %q", err, code, sentence)
	}
	var wire *connect.Error
	if errors.As(err, &wire) {
		for _, d := range wire.Details() {
			if m, err := connectproto.UnmarshalErrorDetail(d); err == nil {
				if info, ok := m.(*errdetails.ErrorInfo); ok {
					return info
				}
			}
		}
	}
	return nil
}

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

func TestCreatedModelRunsAndIsRouted(t *testing.T) {
	r := newRig(t, nil)
	m := r.create(t, "qwen3-4b", 4)
	if m.GetRevision() != 1 || !m.GetRunning() || m.GetStatus().GetState() != lmwardenv1.ModelState_MODEL_STATE_READY || len(m.GetStatus().GetReplicas()) != 4 {
		t.Fatalf("model %v", m)
	}
	seen := map[string]bool{}
	for i, replica := range m.GetStatus().GetReplicas() {
		if len(replica.GetGpus()) != 1 || seen[replica.GetGpus()[0]] || replica.GetIndex() != uint32(i) {
			t.Errorf("replica %d has cards %v", i, replica.GetGpus())
		}
		seen[replica.GetGpus()[0]] = true
		if !strings.Contains(strings.Join(replica.GetCommand(), " "), "--max-num-seqs 32") {
			t.Errorf("replica %d runs %v", i, replica.GetCommand())
		}
	}
	snap := r.plane.model(t, "qwen3-4b")
	if len(snap.Replicas) != 4 || snap.Replicas[3].ID != "qwen3-4b/3" || !snap.Replicas[3].Route.Ready || snap.Replicas[3].Route.Capacity != 100_000 || snap.Replicas[3].Rank != -1 {
		t.Errorf("the proxy was told %+v", snap)
	}
	if !snap.Routing.Affinity || snap.Routing.Admission != route.AdmissionWorkingSet {
		t.Errorf("default routing is %+v", snap.Routing)
	}
}

func TestCreateRefusesWhatCannotBe(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "first", 3)
	tests := map[string]struct {
		req      *lmwardenv1.CreateModelRequest
		code     connect.Code
		sentence string
	}{
		"same name":  {&lmwardenv1.CreateModelRequest{Name: "first", Spec: &lmwardenv1.ModelSpec{Source: "x"}}, connect.CodeAlreadyExists, "taken by model first"},
		"same alias": {&lmwardenv1.CreateModelRequest{Name: "b", Spec: &lmwardenv1.ModelSpec{Source: "x", Aliases: []string{"first"}}}, connect.CodeAlreadyExists, "taken by model first"},
		"cards":      {&lmwardenv1.CreateModelRequest{Name: "b", Spec: &lmwardenv1.ModelSpec{Source: "x", Replicas: 2}}, connect.CodeFailedPrecondition, "held by model first"},
		"no source":  {&lmwardenv1.CreateModelRequest{Name: "b", Spec: &lmwardenv1.ModelSpec{}}, connect.CodeInvalidArgument, "source is empty"},
		"bad name":   {&lmwardenv1.CreateModelRequest{Name: "a b", Spec: &lmwardenv1.ModelSpec{Source: "x"}}, connect.CodeInvalidArgument, "name"},
		"range":      {&lmwardenv1.CreateModelRequest{Name: "b", Spec: &lmwardenv1.ModelSpec{Source: "x", MaxNumSeqs: proto.Uint32(9999)}}, connect.CodeInvalidArgument, "spec.max_num_seqs: must be greater than or equal to 1 and less than or equal to 4096"},
		"own flag":   {&lmwardenv1.CreateModelRequest{Name: "b", Spec: &lmwardenv1.ModelSpec{Source: "x", ExtraArgs: []string{"--port=1"}}}, connect.CodeInvalidArgument, "--port=1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := r.models.CreateModel(t.Context(), test.req)
			wantError(t, err, test.code, test.sentence)
		})
	}
	list, err := r.models.ListModels(t.Context(), &lmwardenv1.ListModelsRequest{})
	if err != nil || len(list.GetModels()) != 1 {
		t.Errorf("after the refusals there are %d models (%v), want 1", len(list.GetModels()), err)
	}
}

func TestUnknownModelNamesThoseThatExist(t *testing.T) {
	r := newRig(t, nil)
	_, err := r.models.GetModel(t.Context(), &lmwardenv1.GetModelRequest{Name: "x"})
	wantError(t, err, connect.CodeNotFound, "there is none yet")
	r.create(t, "a", 1)
	r.create(t, "b", 1)
	_, err = r.routing.GetRouting(t.Context(), &lmwardenv1.GetRoutingRequest{Model: "x"})
	if info := wantError(t, err, connect.CodeNotFound, "there are a, b"); info.GetReason() != "MODEL_NOT_FOUND" {
		t.Errorf("detail %v", info)
	}
}

func TestUpdateRouting(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 2)
	update := func(revision uint64, s *lmwardenv1.RoutingSettings, paths ...string) (*lmwardenv1.RoutingCard, error) {
		resp, err := r.routing.UpdateRouting(t.Context(), &lmwardenv1.UpdateRoutingRequest{Model: "m", Revision: revision, Settings: s, UpdateMask: mask(paths...)})
		return resp.GetCard(), err
	}
	card, err := update(1, &lmwardenv1.RoutingSettings{Affinity: proto.Bool(false), SpillThreshold: proto.Uint32(3)}, "affinity", "spill_threshold")
	if err != nil || card.GetRevision() != 2 || card.GetAffinity() || card.GetSpillThresholdAuto() {
		t.Fatalf("card %v, %v", card, err)
	}
	if s := r.plane.model(t, "m").Routing; s.Affinity || s.SpillThreshold != 3 {
		t.Errorf("when the call answers the proxy has %+v", s)
	}
	if n := len(r.engines.applies); n != 1 {
		t.Errorf("the engines were touched %d times, want once at the start", n)
	}
	_, err = update(1, &lmwardenv1.RoutingSettings{}, "affinity")
	if info := wantError(t, err, connect.CodeAborted, "revision 2, not 1"); info.GetMetadata()["revision"] != "2" || info.GetReason() != "STALE_REVISION" {
		t.Errorf("detail %v", info)
	}
	if card, err = update(2, &lmwardenv1.RoutingSettings{}, "affinity"); err != nil || !card.GetAffinity() || card.GetSettings().GetSpillThreshold() != 3 {
		t.Errorf("back to the default: %v, %v", card, err)
	}
	_, err = update(0, &lmwardenv1.RoutingSettings{SpillThreshold: proto.Uint32(9999)}, "spill_threshold")
	wantError(t, err, connect.CodeInvalidArgument, "settings.spill_threshold: must be greater than or equal to 1 and less than or equal to 4096")
	_, err = update(0, &lmwardenv1.RoutingSettings{}, "colour")
	wantError(t, err, connect.CodeInvalidArgument, "colour is no setting")
	_, err = update(0, &lmwardenv1.RoutingSettings{})
	wantError(t, err, connect.CodeInvalidArgument, "update_mask")
}

func TestUpdateModel(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 2)
	update := func(revision uint64, s *lmwardenv1.ModelSpec, paths ...string) (*lmwardenv1.Model, error) {
		resp, err := r.models.UpdateModel(t.Context(), &lmwardenv1.UpdateModelRequest{Name: "m", Revision: revision, Spec: s, UpdateMask: mask(paths...)})
		return resp.GetModel(), err
	}
	m, err := update(1, &lmwardenv1.ModelSpec{Aliases: []string{"claude-*"}}, "aliases")
	if err != nil || m.GetRevision() != 2 || m.GetSpec().GetMaxNumSeqs() != 32 {
		t.Fatalf("%v, %v", m, err)
	}
	if got := r.plane.model(t, "m").Aliases; len(got) != 1 || len(r.engines.applies) != 1 {
		t.Errorf("aliases %v after %d changes of engines; want one alias and engines left alone", got, len(r.engines.applies))
	}
	_, err = update(2, &lmwardenv1.ModelSpec{Source: "other"}, "source")
	wantError(t, err, connect.CodeFailedPrecondition, "fixed when a model is made")
	_, err = update(2, &lmwardenv1.ModelSpec{Replicas: 9}, "replicas")
	wantError(t, err, connect.CodeFailedPrecondition, "cards")
	_, err = update(1, &lmwardenv1.ModelSpec{}, "aliases")
	wantError(t, err, connect.CodeAborted, "revision 2")
	if _, err := update(2, &lmwardenv1.ModelSpec{MaxNumSeqs: proto.Uint32(64)}, "max_num_seqs"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(r.engines.Status()[0].Command, " "); !strings.Contains(got, "--max-num-seqs 64") {
		t.Errorf("replica 0 runs %s", got)
	}
}

// A change that does not start costs one replica: the others go on as they were.
func TestAChangeRestartsOneReplicaAfterTheOther(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 3)
	r.engines.setHold(true)
	_, err := r.models.UpdateModel(t.Context(), &lmwardenv1.UpdateModelRequest{Name: "m", Spec: &lmwardenv1.ModelSpec{MaxNumSeqs: proto.Uint32(64)}, UpdateMask: mask("max_num_seqs")})
	if err != nil {
		t.Fatal(err)
	}
	lives := func() (out []uint64) {
		// Two passes: the second one sees what the first one did.
		for range 2 {
			if err := r.loop.sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, st := range r.engines.Status() {
			out = append(out, st.Incarnation)
		}
		return out
	}
	for i, want := range [][]uint64{{2, 1, 1}, {2, 2, 1}, {2, 2, 2}} {
		if got := lives(); !slices.Equal(got, want) {
			t.Fatalf("lives %v, want %v", got, want)
		}
		r.engines.set(supervisor.ReplicaID{Model: "m", Index: i}, func(st *supervisor.Status) { st.State = supervisor.Ready })
	}
}

func TestStopStartDelete(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 2)
	stopped, err := r.models.StopModel(t.Context(), &lmwardenv1.StopModelRequest{Name: "m", Wait: true})
	if err != nil || stopped.GetModel().GetStatus().GetState() != lmwardenv1.ModelState_MODEL_STATE_STOPPED || len(r.engines.Status()) != 0 {
		t.Fatalf("stop: %v, %v", stopped, err)
	}
	if m := r.plane.model(t, "m"); !strings.Contains(m.State, "stopped") || len(m.Replicas) != 0 {
		t.Errorf("the proxy was told %+v", m)
	}
	started, err := r.models.StartModel(t.Context(), &lmwardenv1.StartModelRequest{Name: "m"})
	if err != nil || started.GetModel().GetStatus().GetState() != lmwardenv1.ModelState_MODEL_STATE_READY {
		t.Fatalf("start: %v, %v", started, err)
	}
	again, err := r.models.StartModel(t.Context(), &lmwardenv1.StartModelRequest{Name: "m"})
	if err != nil || again.GetModel().GetRevision() != started.GetModel().GetRevision() {
		t.Errorf("a second start made revision %d of %d (%v)", again.GetModel().GetRevision(), started.GetModel().GetRevision(), err)
	}
	_, err = r.models.DeleteModel(t.Context(), &lmwardenv1.DeleteModelRequest{Name: "m", Revision: 1})
	wantError(t, err, connect.CodeAborted, "revision 3")
	if _, err := r.models.DeleteModel(t.Context(), &lmwardenv1.DeleteModelRequest{Name: "m", Revision: 3}); err != nil {
		t.Fatal(err)
	}
	_, err = r.models.GetModel(t.Context(), &lmwardenv1.GetModelRequest{Name: "m"})
	wantError(t, err, connect.CodeNotFound, "there is no model")
}

func TestDeclaredModelIsReadOnly(t *testing.T) {
	r := newRig(t, &lmwardenv1.Config{Models: []*lmwardenv1.DeclaredModel{{Name: "d", Spec: &lmwardenv1.ModelSpec{Source: "x", Replicas: 1}}}})
	if err := r.loop.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := r.models.GetModel(t.Context(), &lmwardenv1.GetModelRequest{Name: "d"})
	if err != nil || got.GetModel().GetDeclaredIn() != "/etc/lmwarden.yaml" || got.GetModel().GetStatus().GetState() != lmwardenv1.ModelState_MODEL_STATE_READY {
		t.Fatalf("%v, %v", got, err)
	}
	const sentence = "declared in /etc/lmwarden.yaml"
	_, err = r.routing.UpdateRouting(t.Context(), &lmwardenv1.UpdateRoutingRequest{Model: "d", Settings: &lmwardenv1.RoutingSettings{}, UpdateMask: mask("affinity")})
	wantError(t, err, connect.CodeFailedPrecondition, sentence)
	_, err = r.models.DeleteModel(t.Context(), &lmwardenv1.DeleteModelRequest{Name: "d"})
	wantError(t, err, connect.CodeFailedPrecondition, sentence)
	if got, err = r.models.GetModel(t.Context(), &lmwardenv1.GetModelRequest{Name: "d"}); err != nil || !got.GetModel().GetRunning() {
		t.Errorf("a refused deletion stopped the model: %v, %v", got, err)
	}
}

// Stopping and starting is operation, not configuration: whoever runs the box may do
// it with a declared model too, and the file decides again at the next start.
func TestDeclaredModelStopsAndStarts(t *testing.T) {
	r := newRig(t, &lmwardenv1.Config{Models: []*lmwardenv1.DeclaredModel{{Name: "d", Spec: &lmwardenv1.ModelSpec{Source: "x", Replicas: 1}}}})
	if err := r.loop.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopped, err := r.models.StopModel(t.Context(), &lmwardenv1.StopModelRequest{Name: "d", Wait: true})
	if err != nil || stopped.GetModel().GetRunning() || stopped.GetModel().GetRevision() != 2 {
		t.Fatalf("stop: %v, %v", stopped, err)
	}
	started, err := r.models.StartModel(t.Context(), &lmwardenv1.StartModelRequest{Name: "d"})
	if err != nil || !started.GetModel().GetRunning() || started.GetModel().GetDeclaredIn() == "" {
		t.Fatalf("start: %v, %v", started, err)
	}
}

func TestReplicas(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 2)
	drained, err := r.replicas.DrainReplica(t.Context(), &lmwardenv1.DrainReplicaRequest{Model: "m", Index: 1})
	if err != nil || drained.GetReplica().GetState() != lmwardenv1.ReplicaState_REPLICA_STATE_DRAINING {
		t.Fatalf("%v, %v", drained, err)
	}
	if rs := r.plane.model(t, "m").Replicas; !rs[1].Route.Draining || rs[0].Route.Draining {
		t.Errorf("the proxy was told %+v", rs)
	}
	if _, err := r.replicas.ResumeReplica(t.Context(), &lmwardenv1.ResumeReplicaRequest{Model: "m", Index: 1}); err != nil || r.plane.model(t, "m").Replicas[1].Route.Draining {
		t.Errorf("after the resume it drains still (%v)", err)
	}
	restarted, err := r.replicas.RestartReplica(t.Context(), &lmwardenv1.RestartReplicaRequest{Model: "m", Index: 0})
	if err != nil || restarted.GetReplica().GetIncarnation() != 2 {
		t.Errorf("restart: %v, %v", restarted, err)
	}
	_, err = r.replicas.RestartReplica(t.Context(), &lmwardenv1.RestartReplicaRequest{Model: "m", Index: 7})
	wantError(t, err, connect.CodeNotFound, "it has replicas 0 to 1")
	list, err := r.replicas.ListReplicas(t.Context(), &lmwardenv1.ListReplicasRequest{})
	if err != nil || len(list.GetReplicas()) != 2 || list.GetReplicas()[0].LastExit != nil {
		t.Errorf("list: %v, %v", list, err)
	}
	r.engines.set(supervisor.ReplicaID{Model: "m", Index: 0}, func(st *supervisor.Status) {
		st.State, st.Message, st.LastExit = supervisor.Failed, "The engine ended with code 1.", 1
	})
	m, err := r.models.GetModel(t.Context(), &lmwardenv1.GetModelRequest{Name: "m"})
	if err != nil || m.GetModel().GetStatus().GetState() != lmwardenv1.ModelState_MODEL_STATE_DEGRADED || !strings.Contains(m.GetModel().GetStatus().GetMessage(), "code 1") {
		t.Errorf("with one failed replica: %v, %v", m.GetModel().GetStatus(), err)
	}
}

func TestStreamLogs(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 2)
	read := func(req *lmwardenv1.StreamLogsRequest) (messages []*lmwardenv1.StreamLogsResponse, err error) {
		stream, err := r.replicas.StreamLogs(t.Context(), req)
		if err != nil {
			return nil, err
		}
		for {
			m, err := stream.Receive()
			if errors.Is(err, io.EOF) {
				return messages, nil
			}
			if err != nil {
				return messages, err
			}
			messages = append(messages, m)
		}
	}
	got, err := read(&lmwardenv1.StreamLogsRequest{Model: "m"})
	if err != nil || len(got) != 2 || got[0].GetIncarnation() != 1 || len(got[1].GetLines()) != 2 {
		t.Errorf("%v, %v; want one message per life", got, err)
	}
	if got, err := read(&lmwardenv1.StreamLogsRequest{Model: "m", Tail: 1}); err != nil || len(got) != 1 || got[0].GetLines()[0] != "ready" {
		t.Errorf("tail 1: %v, %v", got, err)
	}
	_, err = read(&lmwardenv1.StreamLogsRequest{Model: "m", Index: 1})
	wantError(t, err, connect.CodeNotFound, "no such log")
}
