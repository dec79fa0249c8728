package server

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
)

// modelService answers lmwarden.v1.ModelService.
type modelService struct{ *control }

var _ lmwardenv1connect.ModelServiceHandler = modelService{}

// CreateModel makes a model and, unless told otherwise, starts it.
func (s modelService) CreateModel(ctx context.Context, req *lmwardenv1.CreateModelRequest) (*lmwardenv1.CreateModelResponse, error) {
	m := &lmwardenv1.Model{Name: req.GetName(), Spec: req.GetSpec(), Routing: req.GetRouting(), Running: !req.GetStopped()}
	if err := s.checkNew(ctx, m); err != nil {
		return nil, err
	}
	e, err := s.models.create(m)
	if err != nil {
		return nil, err
	}
	s.note("model_added", m.GetName(), box, "Model %s was added.", m.GetName())
	if err := s.loop.sync(ctx); err != nil {
		return nil, err
	}
	return &lmwardenv1.CreateModelResponse{Model: s.model(e)}, nil
}

// checkNew refuses what could not run, before anything is stored.
func (s modelService) checkNew(ctx context.Context, m *lmwardenv1.Model) error {
	if err := checkModelSpec(m); err != nil {
		return err
	}
	if _, err := s.models.get(m.GetName()); err == nil {
		return nameTaken(m.GetName(), m.GetName())
	}
	if err := s.models.checkNames(m); err != nil || !m.GetRunning() {
		return err
	}
	return s.loop.check(ctx, m)
}

// checkModelSpec refuses a spec that contradicts itself or that vLLM would not take.
func checkModelSpec(m *lmwardenv1.Model) error {
	err := checkSpec(m.GetSpec())
	if err == nil { // else vLLM's view of it says the same again
		err = checkEngine(m.GetName(), m.GetSpec())
	}
	if err != nil {
		return invalid("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// GetModel returns one model.
func (s modelService) GetModel(_ context.Context, req *lmwardenv1.GetModelRequest) (*lmwardenv1.GetModelResponse, error) {
	e, err := s.models.get(req.GetName())
	if err != nil {
		return nil, err
	}
	return &lmwardenv1.GetModelResponse{Model: s.model(e)}, nil
}

// ListModels lists all models by name.
func (s modelService) ListModels(context.Context, *lmwardenv1.ListModelsRequest) (*lmwardenv1.ListModelsResponse, error) {
	return &lmwardenv1.ListModelsResponse{Models: s.allModels()}, nil
}

// UpdateModel changes a model's spec; the reconcile loop restarts what must be.
func (s modelService) UpdateModel(ctx context.Context, req *lmwardenv1.UpdateModelRequest) (*lmwardenv1.UpdateModelResponse, error) {
	var before *lmwardenv1.Model
	e, err := s.models.update(req.GetName(), req.GetRevision(), func(m *lmwardenv1.Model) error {
		before = proto.CloneOf(m)
		if err := applyMask(m.GetSpec(), req.GetSpec(), req.GetUpdateMask()); err != nil {
			return err
		}
		if err := checkModelSpec(m); err != nil || !m.GetRunning() {
			return err
		}
		return s.loop.checkChange(ctx, before, m)
	})
	if err != nil {
		return nil, err
	}
	s.noteChange("model_changed", req.GetName(), "Settings", req.GetName(), before.GetSpec(), e.model.GetSpec(), req.GetUpdateMask().GetPaths())
	if err := s.loop.sync(ctx); err != nil {
		return nil, err
	}
	return &lmwardenv1.UpdateModelResponse{Model: s.model(e)}, nil
}

// DeleteModel stops a model, waits until no process is left and forgets it.
func (s modelService) DeleteModel(ctx context.Context, req *lmwardenv1.DeleteModelRequest) (*lmwardenv1.DeleteModelResponse, error) {
	e, err := s.models.get(req.GetName())
	if err != nil {
		return nil, err
	}
	if e.broken != nil {
		return &lmwardenv1.DeleteModelResponse{}, s.models.remove(req.GetName(), 0)
	}
	// Refused before anything is stopped.
	if err := writable(e, req.GetRevision()); err != nil {
		return nil, err
	}
	// The revision is checked again here; the stop makes a new one.
	if e, err = s.models.setRunning(req.GetName(), req.GetRevision(), false); err != nil {
		return nil, err
	}
	if err := s.waitStopped(ctx, req.GetName()); err != nil {
		return nil, err
	}
	if err := s.models.remove(req.GetName(), e.model.GetRevision()); err != nil {
		return nil, err
	}
	s.stats.Forget(req.GetName())
	s.note("model_removed", req.GetName(), box, "Model %s was removed.", req.GetName())
	return &lmwardenv1.DeleteModelResponse{}, nil
}

// StartModel starts a stopped model.
func (s modelService) StartModel(ctx context.Context, req *lmwardenv1.StartModelRequest) (*lmwardenv1.StartModelResponse, error) {
	e, err := s.models.get(req.GetName())
	if err != nil {
		return nil, err
	}
	if e.broken == nil && !e.model.GetRunning() {
		m := proto.CloneOf(e.model)
		m.Running = true
		if err := s.loop.check(ctx, m); err != nil {
			return nil, err
		}
	}
	was := e.runs()
	if e, err = s.models.setRunning(req.GetName(), 0, true); err != nil {
		return nil, err
	}
	if !was {
		s.note("model_started", req.GetName(), box, "Model %s was started.", req.GetName())
	}
	if err := s.loop.sync(ctx); err != nil {
		return nil, err
	}
	return &lmwardenv1.StartModelResponse{Model: s.model(e)}, nil
}

// StopModel drains a model's replicas and ends their processes.
func (s modelService) StopModel(ctx context.Context, req *lmwardenv1.StopModelRequest) (*lmwardenv1.StopModelResponse, error) {
	e, err := s.models.get(req.GetName())
	if err != nil {
		return nil, err
	}
	was := e.runs()
	if e, err = s.models.setRunning(req.GetName(), 0, false); err != nil {
		return nil, err
	}
	if was {
		s.note("model_stopped", req.GetName(), box, "Model %s was stopped; its replicas finish what they have.", req.GetName())
	}
	if req.GetWait() {
		err = s.waitStopped(ctx, req.GetName())
	} else {
		err = s.loop.sync(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &lmwardenv1.StopModelResponse{Model: s.model(e)}, nil
}

// WatchModels sends all models now and whenever one changed.
func (s modelService) WatchModels(ctx context.Context, _ *lmwardenv1.WatchModelsRequest, stream lmwardenv1connect.ModelServiceWatchModelsServerStream) error {
	return watch(ctx, func() (*lmwardenv1.WatchModelsResponse, error) {
		return &lmwardenv1.WatchModelsResponse{Models: s.allModels()}, nil
	}, stream.Send)
}

// waitStopped returns when no process of a stopped model is left.
func (s modelService) waitStopped(ctx context.Context, name string) error {
	// Only after a pass does the supervisor know that the model shall stop.
	if err := s.loop.sync(ctx); err != nil {
		return err
	}
	return s.engines.WaitStopped(ctx, name)
}
