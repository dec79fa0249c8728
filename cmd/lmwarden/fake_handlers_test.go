package main

import (
	"context"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
)

// has refuses models that the box does not have.
func has(name string) error {
	if name == "qwen3-4b" {
		return nil
	}
	return connect.Errorf(connect.CodeNotFound, "there is no model %q; there is qwen3-4b", name)
}

func (b *fakeBox) ListModels(context.Context, *lmwardenv1.ListModelsRequest) (*lmwardenv1.ListModelsResponse, error) {
	if b.models == nil {
		return &lmwardenv1.ListModelsResponse{Models: []*lmwardenv1.Model{fakeModel()}}, nil
	}
	list := &lmwardenv1.ListModelsResponse{}
	for _, name := range b.models {
		m := fakeModel()
		m.Name = name
		list.Models = append(list.Models, m)
	}
	return list, nil
}

func (b *fakeBox) GetModel(_ context.Context, r *lmwardenv1.GetModelRequest) (*lmwardenv1.GetModelResponse, error) {
	m := fakeModel()
	m.DeclaredIn = b.declared
	return &lmwardenv1.GetModelResponse{Model: m}, has(r.GetName())
}

func (b *fakeBox) CreateModel(_ context.Context, r *lmwardenv1.CreateModelRequest) (*lmwardenv1.CreateModelResponse, error) {
	b.asked(r)
	return &lmwardenv1.CreateModelResponse{Model: fakeModel()}, nil
}

func (b *fakeBox) UpdateModel(_ context.Context, r *lmwardenv1.UpdateModelRequest) (*lmwardenv1.UpdateModelResponse, error) {
	b.asked(r)
	if r.GetRevision() != 0 && r.GetRevision() != 7 {
		return nil, connect.NewError(connect.CodeAborted, "the model was changed meanwhile; its revision is 7")
	}
	return &lmwardenv1.UpdateModelResponse{Model: fakeModel()}, nil
}

func (b *fakeBox) DeleteModel(_ context.Context, r *lmwardenv1.DeleteModelRequest) (*lmwardenv1.DeleteModelResponse, error) {
	return &lmwardenv1.DeleteModelResponse{}, has(r.GetName())
}

func (b *fakeBox) StartModel(_ context.Context, r *lmwardenv1.StartModelRequest) (*lmwardenv1.StartModelResponse, error) {
	return &lmwardenv1.StartModelResponse{Model: fakeModel()}, has(r.GetName())
}

func (b *fakeBox) StopModel(_ context.Context, r *lmwardenv1.StopModelRequest) (*lmwardenv1.StopModelResponse, error) {
	b.asked(r)
	return &lmwardenv1.StopModelResponse{Model: fakeModel()}, has(r.GetName())
}

// WatchModels shows a model that becomes ready.
func (b *fakeBox) WatchModels(_ context.Context, _ *lmwardenv1.WatchModelsRequest, stream lmwardenv1connect.ModelServiceWatchModelsServerStream) error {
	for _, state := range []lmwardenv1.ModelState{lmwardenv1.ModelState_MODEL_STATE_STARTING, lmwardenv1.ModelState_MODEL_STATE_READY} {
		m := fakeModel()
		m.Status.State, m.Status.Message = state, ""
		if err := stream.Send(&lmwardenv1.WatchModelsResponse{Models: []*lmwardenv1.Model{m}}); err != nil {
			return err
		}
	}
	return nil
}

func (b *fakeBox) ListReplicas(context.Context, *lmwardenv1.ListReplicasRequest) (*lmwardenv1.ListReplicasResponse, error) {
	return &lmwardenv1.ListReplicasResponse{Replicas: fakeReplicas()}, nil
}

func (b *fakeBox) RestartReplica(_ context.Context, r *lmwardenv1.RestartReplicaRequest) (*lmwardenv1.RestartReplicaResponse, error) {
	b.asked(r)
	return &lmwardenv1.RestartReplicaResponse{Replica: fakeReplicas()[min(r.GetIndex(), 1)]}, has(r.GetModel())
}

// WatchReplicas shows replicas that are restarted: 0 becomes ready, 1 fails.
func (b *fakeBox) WatchReplicas(_ context.Context, _ *lmwardenv1.WatchReplicasRequest, stream lmwardenv1connect.ReplicaServiceWatchReplicasServerStream) error {
	steps := []struct {
		life  uint64 // above the present one
		state lmwardenv1.ReplicaState
		phase string
	}{
		{0, lmwardenv1.ReplicaState_REPLICA_STATE_READY, ""},
		{0, lmwardenv1.ReplicaState_REPLICA_STATE_STOPPING, ""},
		{1, lmwardenv1.ReplicaState_REPLICA_STATE_STARTING, "loading weights"},
		{1, lmwardenv1.ReplicaState_REPLICA_STATE_READY, ""},
	}
	for _, step := range steps {
		replicas := fakeReplicas()
		for i, r := range replicas {
			r.State, r.Phase = step.state, step.phase
			r.Incarnation += step.life
			if i == 1 && step.life > 0 && step.phase == "" {
				r.State = lmwardenv1.ReplicaState_REPLICA_STATE_FAILED
			}
		}
		if err := stream.Send(&lmwardenv1.WatchReplicasResponse{Replicas: replicas}); err != nil {
			return err
		}
	}
	return nil
}

func (b *fakeBox) DrainReplica(_ context.Context, r *lmwardenv1.DrainReplicaRequest) (*lmwardenv1.DrainReplicaResponse, error) {
	b.asked(r)
	return &lmwardenv1.DrainReplicaResponse{Replica: fakeReplicas()[0]}, has(r.GetModel())
}

func (b *fakeBox) StreamLogs(_ context.Context, r *lmwardenv1.StreamLogsRequest, stream lmwardenv1connect.ReplicaServiceStreamLogsServerStream) error {
	b.asked(r)
	for _, lines := range [][]string{{"Loading weights", "GPU KV cache size: 46,128 tokens"}, {"Application startup complete."}} {
		if err := stream.Send(&lmwardenv1.StreamLogsResponse{Lines: lines, Incarnation: 1}); err != nil {
			return err
		}
	}
	return nil
}

func (b *fakeBox) GetRouting(_ context.Context, r *lmwardenv1.GetRoutingRequest) (*lmwardenv1.GetRoutingResponse, error) {
	return &lmwardenv1.GetRoutingResponse{Card: fakeCard()}, has(r.GetModel())
}

func (b *fakeBox) UpdateRouting(_ context.Context, r *lmwardenv1.UpdateRoutingRequest) (*lmwardenv1.UpdateRoutingResponse, error) {
	b.asked(r)
	if b.readOnly != nil {
		return nil, b.readOnly
	}
	return &lmwardenv1.UpdateRoutingResponse{Card: fakeCard()}, has(r.GetModel())
}

func (b *fakeBox) WatchRouting(_ context.Context, r *lmwardenv1.WatchRoutingRequest, stream lmwardenv1connect.RoutingServiceWatchRoutingServerStream) error {
	if err := has(r.GetModel()); err != nil {
		return err
	}
	for n := range uint32(2) {
		card := fakeCard()
		card.InFlight = n
		if err := stream.Send(&lmwardenv1.WatchRoutingResponse{Card: card}); err != nil {
			return err
		}
	}
	return nil
}

// ListConversations gives one conversation a page, three in all.
func (b *fakeBox) ListConversations(_ context.Context, r *lmwardenv1.ListConversationsRequest) (*lmwardenv1.ListConversationsResponse, error) {
	b.asked(r)
	next := map[string]string{"": "2", "2": "3"}[r.GetPageToken()]
	return &lmwardenv1.ListConversationsResponse{NextPageToken: next, Conversations: []*lmwardenv1.Conversation{{
		Id: "8f1c0a9be2d4775" + map[string]string{"": "0", "2": "1", "3": "2"}[r.GetPageToken()], Home: proto.Uint32(1),
		ContextTokens: proto.Uint64(12_656), ResidentTokens: 12_640, Turns: 4, InFlight: 1, LastActive: ago(5 * time.Second),
		KeySource: "cc-header", Group: "aa", Admitted: true,
	}}}, nil
}

func (b *fakeBox) MoveConversation(_ context.Context, r *lmwardenv1.MoveConversationRequest) (*lmwardenv1.MoveConversationResponse, error) {
	b.asked(r)
	return &lmwardenv1.MoveConversationResponse{Conversation: &lmwardenv1.Conversation{Id: r.GetConversation(), Home: proto.Uint32(r.GetReplica())}}, nil
}

func (b *fakeBox) ForgetConversation(_ context.Context, r *lmwardenv1.ForgetConversationRequest) (*lmwardenv1.ForgetConversationResponse, error) {
	b.asked(r)
	return &lmwardenv1.ForgetConversationResponse{}, nil
}

func (b *fakeBox) ExplainRequest(_ context.Context, r *lmwardenv1.ExplainRequestRequest) (*lmwardenv1.ExplainRequestResponse, error) {
	if r.GetId() != "r1" {
		return nil, connect.Errorf(connect.CodeNotFound, "there is no request %q in the history; it holds the latest 10,000", r.GetId())
	}
	return &lmwardenv1.ExplainRequestResponse{Record: fakeRecord()}, nil
}

func (b *fakeBox) ListGpus(context.Context, *lmwardenv1.ListGpusRequest) (*lmwardenv1.ListGpusResponse, error) {
	return &lmwardenv1.ListGpusResponse{Gpus: []*lmwardenv1.Gpu{
		{
			Uuid: "GPU-0", Index: 0, Name: "NVIDIA RTX A4000", MemoryTotalBytes: proto.Uint64(16 << 30), MemoryUsedBytes: proto.Uint64(14 << 30),
			Utilization: proto.Float64(0.97), TemperatureCelsius: proto.Uint32(71), PowerWatts: proto.Float64(131.6), Model: "qwen3-4b", Replica: proto.Uint32(0),
		},
		{Uuid: "GPU-1", Index: 1, Name: "NVIDIA RTX A4000", Message: "the driver lost the card (Xid 79); restart the box"},
	}}, nil
}

func (b *fakeBox) QueryThroughput(_ context.Context, r *lmwardenv1.QueryThroughputRequest) (*lmwardenv1.QueryThroughputResponse, error) {
	b.asked(r)
	return &lmwardenv1.QueryThroughputResponse{Throughput: &lmwardenv1.Throughput{
		HitRateHour: proto.Float64(0.78),
		Buckets: []*lmwardenv1.ThroughputBucket{
			{Start: ago(10 * time.Minute), CachedPerSecond: 21_400, ComputedPerSecond: 5_100, CompletionPerSecond: 212.5, Requests: 61},
			{Start: ago(5 * time.Minute)},
		},
	}}, nil
}

func (b *fakeBox) QueryLatency(context.Context, *lmwardenv1.QueryLatencyRequest) (*lmwardenv1.QueryLatencyResponse, error) {
	return &lmwardenv1.QueryLatencyResponse{
		FirstTurns: &lmwardenv1.Quantiles{Count: 12, Mean: proto.Float64(3.1), P50: proto.Float64(3), P95: proto.Float64(4.8), P99: proto.Float64(5)},
		LaterTurns: &lmwardenv1.Quantiles{},
	}, nil
}

func (b *fakeBox) ListRequests(_ context.Context, r *lmwardenv1.ListRequestsRequest) (*lmwardenv1.ListRequestsResponse, error) {
	b.asked(r)
	failed := &lmwardenv1.RequestRecord{Id: "r0", Arrived: ago(2 * time.Minute), Model: "qwen3-4b", Status: 503, Error: "no replica is ready"}
	return &lmwardenv1.ListRequestsResponse{Requests: []*lmwardenv1.RequestRecord{fakeRecord(), failed}}, nil
}

func (b *fakeBox) GetInfo(context.Context, *lmwardenv1.GetInfoRequest) (*lmwardenv1.GetInfoResponse, error) {
	return &lmwardenv1.GetInfoResponse{Info: &lmwardenv1.Info{Version: "1.0", InferenceUrl: b.inference, AdminUrl: b.url, AsksForKey: b.keys}}, nil
}

func (b *fakeBox) RunDoctor(context.Context, *lmwardenv1.RunDoctorRequest) (*lmwardenv1.RunDoctorResponse, error) {
	return &lmwardenv1.RunDoctorResponse{Checks: []*lmwardenv1.Check{
		{Name: "driver", Ok: true, Message: "580.95"},
		{Name: "shm", Message: "/dev/shm has 64 MiB", Fix: "mount it with 1 GiB or more"},
	}}, nil
}

func (b *fakeBox) ListEvents(context.Context, *lmwardenv1.ListEventsRequest) (*lmwardenv1.ListEventsResponse, error) {
	return &lmwardenv1.ListEventsResponse{Events: []*lmwardenv1.Event{
		{Id: 2, Time: ago(time.Minute), Severity: lmwardenv1.Severity_SEVERITY_ERROR, Model: "qwen3-4b", Replica: proto.Uint32(1), Message: "the engine ended with exit code 1"},
		{Id: 1, Time: ago(time.Hour), Severity: lmwardenv1.Severity_SEVERITY_NOTE, Message: "the daemon started"},
	}}, nil
}

// WatchEvents repeats an event that the list had, and sends a new one.
func (b *fakeBox) WatchEvents(_ context.Context, _ *lmwardenv1.WatchEventsRequest, stream lmwardenv1connect.SystemServiceWatchEventsServerStream) error {
	for id := uint64(2); id <= 3; id++ {
		if err := stream.Send(&lmwardenv1.WatchEventsResponse{Event: &lmwardenv1.Event{Id: id, Time: ago(0), Severity: lmwardenv1.Severity_SEVERITY_WARNING, Message: "news"}}); err != nil {
			return err
		}
	}
	return nil
}

// Backup sends two pieces, and fails after the first when the box is told to.
func (b *fakeBox) Backup(_ context.Context, _ *lmwardenv1.BackupRequest, stream lmwardenv1connect.SystemServiceBackupServerStream) error {
	for _, piece := range []string{"first ", "second"} {
		if err := stream.Send(&lmwardenv1.BackupResponse{Data: []byte(piece)}); err != nil {
			return err
		}
		if b.inference == "broken" {
			return connect.NewError(connect.CodeInternal, "the disk is gone")
		}
	}
	return nil
}

func (b *fakeBox) ListRecipes(_ context.Context, r *lmwardenv1.ListRecipesRequest) (*lmwardenv1.ListRecipesResponse, error) {
	b.asked(r)
	list := &lmwardenv1.ListRecipesResponse{Recipes: []*lmwardenv1.Recipe{
		{Client: "claude-code", Title: "Claude Code", Where: "in the shell that starts Claude Code", Text: "export ANTHROPIC_MODEL=" + r.GetModel()},
		{Client: "codex", Title: "Codex", Where: "in ~/.codex/config.toml", Text: "model = \"" + r.GetModel() + "\"\nwire_api = \"responses\""},
	}}
	if b.keys && r.GetKey() == "" {
		list.Note = "This daemon asks for a key: put yours in place of YOUR_KEY."
	}
	return list, nil
}

// fakeKeys are every key and one with limits of its own.
func fakeKeys() []*lmwardenv1.Key {
	own := &lmwardenv1.KeyLimits{MaxRequestsPerMinute: proto.Uint32(60), MaxBodyBytes: proto.Uint64(1 << 20)}
	return []*lmwardenv1.Key{
		{Name: "*", Limits: &lmwardenv1.KeyLimits{}, InForce: &lmwardenv1.KeyLimits{}},
		{Name: "team-a", Limits: own, InForce: own, Revision: 3, DeclaredIn: "/etc/lmwarden.yaml"},
	}
}

func (b *fakeBox) ListKeys(context.Context, *lmwardenv1.ListKeysRequest) (*lmwardenv1.ListKeysResponse, error) {
	return &lmwardenv1.ListKeysResponse{Keys: fakeKeys()}, nil
}

func (b *fakeBox) UpdateKey(_ context.Context, r *lmwardenv1.UpdateKeyRequest) (*lmwardenv1.UpdateKeyResponse, error) {
	b.asked(r)
	return &lmwardenv1.UpdateKeyResponse{Key: fakeKeys()[1]}, nil
}
