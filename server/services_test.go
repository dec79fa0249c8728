package server

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
	"github.com/lmwarden/lmwarden/server/store"
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
	if !snap.Routing.Affinity || snap.Routing.Admission != route.AdmissionNone {
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
	_, err = r.models.StopModel(t.Context(), &lmwardenv1.StopModelRequest{Name: "d"})
	wantError(t, err, connect.CodeFailedPrecondition, sentence)
	_, err = r.models.DeleteModel(t.Context(), &lmwardenv1.DeleteModelRequest{Name: "d"})
	wantError(t, err, connect.CodeFailedPrecondition, sentence)
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

func TestRoutingCard(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 2)
	key := route.Key{1, 2, 3, 4, 5, 6, 7, 8, 9}
	r.plane.conversations = []route.ConversationView{
		{Key: key, Home: 0, Context: 30_000, Turns: 3, Live: true, Resident: 29_000},
		{Key: route.Key{9}, Home: 0, Context: 60_000, Turns: 9, Live: true},
		{Key: route.Key{8}, Home: -1},
	}
	r.plane.setView("m", route.View{
		Replicas: []route.ReplicaView{
			{InFlight: 2, Live: 2, LiveTokens: 90_000, Capacity: 100_000, Counts: [route.NumClasses]uint64{route.ClassSticky: 8, route.ClassPlaced: 2}},
			{Capacity: 100_000, Counts: [route.NumClasses]uint64{route.ClassSpilled: 2}},
		},
		Counts:   [route.NumClasses]uint64{route.ClassSticky: 8, route.ClassPlaced: 2, route.ClassSpilled: 2},
		InFlight: 2, Live: 2, SpillThreshold: 8, SpillAuto: true, SharedTokens: 10_000,
	})
	r.stats.Record(proxy.Record{ID: "r1", Model: "m", KeySource: "cc-header", Decided: true, Decision: route.Decision{Class: route.ClassSticky, Conversation: key, Home: 0, Turn: 3}, Prompt: 100, Cached: 90, Completion: 5, Arrived: time.Now()})
	r.stats.Close()
	resp, err := r.routing.GetRouting(t.Context(), &lmwardenv1.GetRoutingRequest{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	card := resp.GetCard()
	if card.GetStickyPercent() != 80 || card.GetSpillThreshold() != 8 || !card.GetSpillThresholdAuto() || card.GetInFlight() != 2 {
		t.Errorf("pills: %v", card)
	}
	row := card.GetReplicas()[0]
	if row.GetFit() != lmwardenv1.Fit_FIT_EDGE || row.GetCounts().GetSticky() != 8 || row.GetCapacityTokens() != 100_000 || row.KvUsed != nil {
		t.Errorf("row 0: %v", row)
	}
	if cs := row.GetConversations(); len(cs) != 2 || cs[0].GetContextTokens() != 60_000 || cs[1].GetId() != "0102030405060708" || cs[1].GetKeySource() != "cc-header" {
		t.Errorf("conversations: %v; want the longest first", cs)
	}
	// Both halves count: 90,000 of 200,000 fits; the mean is 40,000, which fits twice
	// on replica 1 beside the shared prompt and not on replica 0.
	if card.GetFit() != lmwardenv1.Fit_FIT_FITS || card.GetRoomFor() != 2 || card.GetSharedTokens() != 10_000 {
		t.Errorf("fit %v, room for %d", card.GetFit(), card.GetRoomFor())
	}
	if len(card.GetLatest()) != 1 || card.GetLatest()[0].GetReason() == "" {
		t.Errorf("latest: %v", card.GetLatest())
	}
}

func TestConversations(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 2)
	for i := range 5 {
		r.plane.conversations = append(r.plane.conversations, route.ConversationView{Key: route.Key{byte(i + 1)}, Home: i % 2})
	}
	var ids []string
	for token := ""; ; {
		page, err := r.routing.ListConversations(t.Context(), &lmwardenv1.ListConversationsRequest{Model: "m", PageSize: 2, PageToken: token})
		if err != nil || len(page.GetConversations()) > 2 {
			t.Fatalf("%v, %v", page, err)
		}
		for _, c := range page.GetConversations() {
			ids = append(ids, c.GetId())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(ids) != 5 || ids[0] != "0100000000000000" {
		t.Errorf("pages held %v", ids)
	}
	one, err := r.routing.ListConversations(t.Context(), &lmwardenv1.ListConversationsRequest{Model: "m", Replica: proto.Uint32(1)})
	if err != nil || len(one.GetConversations()) != 2 {
		t.Errorf("on replica 1: %v, %v", one, err)
	}
	moved, err := r.routing.MoveConversation(t.Context(), &lmwardenv1.MoveConversationRequest{Model: "m", Conversation: ids[0], Replica: 1})
	if err != nil || moved.GetConversation().GetHome() != 1 {
		t.Errorf("move: %v, %v", moved, err)
	}
	_, err = r.routing.MoveConversation(t.Context(), &lmwardenv1.MoveConversationRequest{Model: "m", Conversation: ids[0], Replica: 2})
	wantError(t, err, connect.CodeNotFound, "has no replica 2")
	if _, err := r.routing.ForgetConversation(t.Context(), &lmwardenv1.ForgetConversationRequest{Model: "m", Conversation: ids[0]}); err != nil {
		t.Error(err)
	}
	_, err = r.routing.ForgetConversation(t.Context(), &lmwardenv1.ForgetConversationRequest{Model: "m", Conversation: ids[0]})
	wantError(t, err, connect.CodeNotFound, "knows no conversation")
	_, err = r.routing.ListConversations(t.Context(), &lmwardenv1.ListConversationsRequest{Model: "m", PageToken: "x"})
	wantError(t, err, connect.CodeInvalidArgument, "page_token")
}

func TestStatsAndRequests(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 1)
	for i, status := range []int{200, 200, 502} {
		r.stats.Record(proxy.Record{
			ID: "r" + string(rune('0'+i)), Model: "m", Arrived: time.Now().Add(-2 * time.Second), Duration: time.Second, FirstToken: 100 * time.Millisecond,
			Status: status, Decided: true, Decision: route.Decision{Class: route.ClassSticky, Turn: uint64(i + 1), Home: -1}, Prompt: 100, Cached: 75, Completion: -1,
		})
	}
	r.stats.Close()
	tp, err := r.statsAPI.QueryThroughput(t.Context(), &lmwardenv1.QueryThroughputRequest{Model: "m"})
	if err != nil || len(tp.GetThroughput().GetBuckets()) != 60 || tp.GetThroughput().GetHitRateHour() != 0.75 {
		t.Errorf("throughput: %v, %v", tp.GetThroughput().GetHitRateHour(), err)
	}
	lat, err := r.statsAPI.QueryLatency(t.Context(), &lmwardenv1.QueryLatencyRequest{})
	if err != nil || lat.GetFirstTurns().GetCount() != 1 || lat.GetLaterTurns().GetCount() != 2 || lat.GetFirstToken().P50 == nil {
		t.Errorf("latency: %v, %v", lat, err)
	}
	failed, err := r.statsAPI.ListRequests(t.Context(), &lmwardenv1.ListRequestsRequest{Failed: true})
	if err != nil || len(failed.GetRequests()) != 1 || failed.GetRequests()[0].GetId() != "r2" || failed.GetRequests()[0].Home != nil || failed.GetRequests()[0].CompletionTokens != nil {
		t.Errorf("failed: %v, %v", failed, err)
	}
	page, err := r.statsAPI.ListRequests(t.Context(), &lmwardenv1.ListRequestsRequest{PageSize: 2})
	if err != nil || len(page.GetRequests()) != 2 || page.GetNextPageToken() == "" {
		t.Fatalf("page: %v, %v", page, err)
	}
	rest, err := r.statsAPI.ListRequests(t.Context(), &lmwardenv1.ListRequestsRequest{PageSize: 2, PageToken: page.GetNextPageToken()})
	if err != nil || len(rest.GetRequests()) != 1 || rest.GetRequests()[0].GetId() != "r0" || rest.GetNextPageToken() != "" {
		t.Errorf("second page: %v, %v", rest, err)
	}
	explained, err := r.routing.ExplainRequest(t.Context(), &lmwardenv1.ExplainRequestRequest{Id: "r1"})
	if err != nil || explained.GetRecord().GetDecision() != lmwardenv1.DecisionClass_DECISION_CLASS_STICKY {
		t.Errorf("explain: %v, %v", explained, err)
	}
	_, err = r.statsAPI.GetRequest(t.Context(), &lmwardenv1.GetRequestRequest{Id: "gone"})
	wantError(t, err, connect.CodeNotFound, "not in the history")
}

func TestGpusShowTheirHolders(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 3)
	got, err := r.gpusAPI.ListGpus(t.Context(), &lmwardenv1.ListGpusRequest{})
	if err != nil || len(got.GetGpus()) != 4 {
		t.Fatalf("%v, %v", got, err)
	}
	if g := got.GetGpus()[2]; g.GetModel() != "m" || g.GetReplica() != 2 || !g.GetSimulated() {
		t.Errorf("card 2: %v", g)
	}
	if g := got.GetGpus()[3]; g.GetModel() != "" || g.Replica != nil {
		t.Errorf("the free card: %v", g)
	}
	info, err := r.system.GetInfo(t.Context(), &lmwardenv1.GetInfoRequest{})
	if err != nil || info.GetInfo().GetCards() != "4 × RTX A4000" {
		t.Errorf("info: %v, %v", info, err)
	}
}

func TestSystem(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 1)
	doctor, err := r.system.RunDoctor(t.Context(), &lmwardenv1.RunDoctorRequest{})
	if err != nil || len(doctor.GetChecks()) < 6 {
		t.Fatalf("%v, %v", doctor, err)
	}
	for _, c := range doctor.GetChecks() {
		if c.GetName() == "" || c.GetMessage() == "" || !c.GetOk() && c.GetFix() == "" {
			t.Errorf("check %v is not complete", c)
		}
	}
	described, err := r.system.DescribeSettings(t.Context(), &lmwardenv1.DescribeSettingsRequest{Message: "lmwarden.v1.RoutingSettings"})
	if err != nil || described.GetFields()[0].GetName() != "affinity" {
		t.Errorf("settings: %v, %v", described, err)
	}
	_, err = r.system.DescribeSettings(t.Context(), &lmwardenv1.DescribeSettingsRequest{Message: "lmwarden.v1.Gpu"})
	wantError(t, err, connect.CodeInvalidArgument, "lmwarden.v1.ModelSpec")
	r.events.Add(stats.Event{Severity: stats.Error, Kind: "replica_failed", Model: "m", Replica: 0, Message: "x"})
	events, err := r.system.ListEvents(t.Context(), &lmwardenv1.ListEventsRequest{Model: "m"})
	if err != nil || len(events.GetEvents()) != 1 || events.GetEvents()[0].Replica == nil {
		t.Errorf("events: %v, %v", events, err)
	}
}

func TestBackupCanBeOpened(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 1)
	stream, err := r.system.Backup(t.Context(), &lmwardenv1.BackupRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	for {
		m, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, m.GetData()...)
	}
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if records, err := st.Models(); err != nil || len(records) != 1 || decodeEntry(records[0]).model.GetSpec().GetSource() != "Qwen/Qwen3-4B" {
		t.Errorf("the copy holds %v, %v", records, err)
	}
}
