package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/supervisor"
)

// defaultTail is the number of log lines when the caller asks for none.
const defaultTail = 200

// replicaService answers lmwarden.v1.ReplicaService.
type replicaService struct{ *control }

var _ lmwardenv1connect.ReplicaServiceHandler = replicaService{}

// ListReplicas lists replicas of one model, or of all.
func (s replicaService) ListReplicas(_ context.Context, req *lmwardenv1.ListReplicasRequest) (*lmwardenv1.ListReplicasResponse, error) {
	replicas, err := s.replicasOf(req.GetModel())
	return &lmwardenv1.ListReplicasResponse{Replicas: replicas}, err
}

// WatchReplicas sends the replicas now and whenever one changed.
func (s replicaService) WatchReplicas(ctx context.Context, req *lmwardenv1.WatchReplicasRequest, stream lmwardenv1connect.ReplicaServiceWatchReplicasServerStream) error {
	return watch(ctx, func() (*lmwardenv1.WatchReplicasResponse, error) {
		replicas, err := s.replicasOf(req.GetModel())
		return &lmwardenv1.WatchReplicasResponse{Replicas: replicas}, err
	}, stream.Send)
}

// RestartReplica drains a replica, ends its processes and starts it again.
func (s replicaService) RestartReplica(_ context.Context, req *lmwardenv1.RestartReplicaRequest) (*lmwardenv1.RestartReplicaResponse, error) {
	st, err := s.status(req.GetModel(), req.GetIndex())
	if err != nil {
		return nil, err
	}
	if err := s.engines.Restart(st.ID); err != nil {
		return nil, stoppedModel(req.GetModel())
	}
	s.note("replica_restarting", st.ID.Model, st.ID.Index, "A restart of replica %d of %s was asked for; it finishes what it has first.", st.ID.Index, st.ID.Model)
	replica, err := s.shown(st.ID)
	return &lmwardenv1.RestartReplicaResponse{Replica: replica}, err
}

// DrainReplica takes a replica out of rotation; what it has goes on.
func (s replicaService) DrainReplica(ctx context.Context, req *lmwardenv1.DrainReplicaRequest) (*lmwardenv1.DrainReplicaResponse, error) {
	replica, err := s.rotate(ctx, req.GetModel(), req.GetIndex(), true)
	return &lmwardenv1.DrainReplicaResponse{Replica: replica}, err
}

// ResumeReplica puts a drained replica back into rotation.
func (s replicaService) ResumeReplica(ctx context.Context, req *lmwardenv1.ResumeReplicaRequest) (*lmwardenv1.ResumeReplicaResponse, error) {
	replica, err := s.rotate(ctx, req.GetModel(), req.GetIndex(), false)
	return &lmwardenv1.ResumeReplicaResponse{Replica: replica}, err
}

// rotate marks a replica and waits until the proxy knows of it.
func (s replicaService) rotate(ctx context.Context, model string, index uint32, out bool) (*lmwardenv1.Replica, error) {
	st, err := s.status(model, index)
	if err != nil {
		return nil, err
	}
	was := s.drained.has(st)
	s.drained.set(st, out)
	switch {
	case out && !was:
		s.note("replica_drained", model, st.ID.Index, "Replica %d of %s was taken out of rotation.", index, model)
	case !out && was:
		s.note("replica_resumed", model, st.ID.Index, "Replica %d of %s was put back into rotation.", index, model)
	}
	if err := s.loop.sync(ctx); err != nil {
		return nil, err
	}
	return s.shown(st.ID)
}

func (s replicaService) shown(id supervisor.ReplicaID) (*lmwardenv1.Replica, error) {
	st, err := s.status(id.Model, uint32(id.Index))
	if err != nil {
		return nil, err
	}
	return s.replica(st), nil
}

// StreamLogs streams the log of a replica, oldest line first.
func (s replicaService) StreamLogs(ctx context.Context, req *lmwardenv1.StreamLogsRequest, stream lmwardenv1connect.ReplicaServiceStreamLogsServerStream) error {
	if _, err := s.models.get(req.GetModel()); err != nil {
		return err
	}
	query := supervisor.LogQuery{
		Tail:        int(req.GetTail()),
		Follow:      req.GetFollow(),
		Incarnation: req.GetIncarnation(),
	}
	if query.Tail == 0 {
		query.Tail = defaultTail
	}
	id := supervisor.ReplicaID{Model: req.GetModel(), Index: int(req.GetIndex())}
	err := s.engines.Logs(ctx, id, query, func(lines []supervisor.LogLine) error {
		for len(lines) > 0 {
			n := sameLife(lines)
			if err := stream.Send(logMessage(lines[:n])); err != nil {
				return err
			}
			lines = lines[n:]
		}
		return nil
	})
	return unlessLeft(ctx, err)
}

// sameLife returns how many of the lines the first line's engine wrote.
func sameLife(lines []supervisor.LogLine) int {
	for i, l := range lines {
		if l.Incarnation != lines[0].Incarnation {
			return i
		}
	}
	return len(lines)
}

func logMessage(lines []supervisor.LogLine) *lmwardenv1.StreamLogsResponse {
	out := &lmwardenv1.StreamLogsResponse{
		Time:        timestamppb.New(lines[len(lines)-1].Time),
		Incarnation: lines[0].Incarnation,
	}
	if lines[len(lines)-1].Time.IsZero() {
		out.Time = timestamppb.New(time.Now())
	}
	for _, l := range lines {
		out.Lines = append(out.Lines, l.Text)
	}
	return out
}
