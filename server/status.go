package server

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/supervisor"
)

// statuses returns the replicas of a model by index, those that still stop among them.
func (c *control) statuses(model string) []supervisor.Status {
	var out []supervisor.Status
	for _, st := range c.engines.Status() {
		if st.ID.Model == model {
			out = append(out, st)
		}
	}
	return out
}

// status returns the status of one replica, or a refusal.
func (c *control) status(model string, index uint32) (supervisor.Status, error) {
	if _, err := c.models.get(model); err != nil {
		return supervisor.Status{}, err
	}
	all := c.statuses(model)
	for _, st := range all {
		if uint32(st.ID.Index) == index {
			return st, nil
		}
	}
	return supervisor.Status{}, unknownReplica(model, index, len(all))
}

// replicasOf returns the replicas of one model, or of all when model is empty.
func (c *control) replicasOf(model string) ([]*lmwardenv1.Replica, error) {
	if model != "" {
		if _, err := c.models.get(model); err != nil {
			return nil, err
		}
	}
	var out []*lmwardenv1.Replica
	for _, st := range c.engines.Status() {
		if model == "" || st.ID.Model == model {
			out = append(out, c.replica(st))
		}
	}
	return out, nil
}

// allModels returns every model with its status.
func (c *control) allModels() []*lmwardenv1.Model {
	var out []*lmwardenv1.Model
	for _, e := range c.models.list() {
		out = append(out, c.model(e))
	}
	return out
}

// model returns one model as shown: what is desired, and beside it what is the case.
func (c *control) model(e *entry) *lmwardenv1.Model {
	m := proto.CloneOf(e.model)
	m.Status = c.modelStatus(e)
	return m
}

func (c *control) modelStatus(e *entry) *lmwardenv1.ModelStatus {
	if e.broken != nil {
		return &lmwardenv1.ModelStatus{
			State:   lmwardenv1.ModelState_MODEL_STATE_BROKEN,
			Message: fmt.Sprintf("The stored record cannot be read: %v. Delete the model and make it anew.", e.broken),
		}
	}
	statuses := c.statuses(e.name())
	view, _ := c.plane.View(e.name())
	full := fullnessOf(view)
	now := c.now()
	s := &lmwardenv1.ModelStatus{
		InFlight:                  count(view.InFlight),
		LiveConversations:         count(view.Live),
		ActiveConversations:       count(view.Active),
		Fit:                       full.fit,
		Fill:                      known[float64](full.fill),
		CompletionTokensPerSecond: c.stats.CompletionRate(e.name(), now),
	}
	s.State, s.Message = modelState(e.runs(), c.loop.problem(e.name()), statuses)
	for _, st := range statuses {
		s.Replicas = append(s.Replicas, c.replica(st))
		s.EngineVersion = or(s.GetEngineVersion(), st.Engine.Version)
		if s.MaxModelLen == nil {
			s.MaxModelLen = optional[uint32](st.Engine.MaxModelLen)
		}
	}
	t := c.stats.Throughput(e.name(), now, time.Hour, 1)
	s.HitRateHour = hitRate(t.CachedHour, t.PromptHour)
	if q := c.stats.Latency(e.name(), now, 5*time.Minute).FirstToken; q.Count > 0 {
		p50 := q.P50.Seconds()
		s.FirstTokenP50Seconds = &p50
	}
	return s
}

// hitRate returns cached over all prompt tokens, or nil without any.
func hitRate(cached, prompt uint64) *float64 {
	if prompt == 0 {
		return nil
	}
	rate := float64(cached) / float64(prompt)
	return &rate
}

// modelState sums up the replicas of a model. Problem says why no replica can be
// placed, or is empty.
func modelState(runs bool, problem string, all []supervisor.Status) (lmwardenv1.ModelState, string) {
	n := make(map[supervisor.State]int)
	message := problem
	for _, st := range all {
		n[st.State]++
		if message == "" && st.Message != "" && st.State != supervisor.Ready {
			message = fmt.Sprintf("Replica %d: %s", st.ID.Index, st.Message)
		}
	}
	serving := n[supervisor.Ready] + n[supervisor.Suspect]
	switch {
	case !runs && len(all) == n[supervisor.Stopped]:
		return lmwardenv1.ModelState_MODEL_STATE_STOPPED, ""
	case !runs:
		return lmwardenv1.ModelState_MODEL_STATE_STOPPING, message
	case len(all) > 0 && n[supervisor.Ready] == len(all) && problem == "":
		return lmwardenv1.ModelState_MODEL_STATE_READY, ""
	case serving > 0:
		return lmwardenv1.ModelState_MODEL_STATE_DEGRADED, message
	case problem != "", len(all) > 0 && n[supervisor.Failed] == len(all):
		return lmwardenv1.ModelState_MODEL_STATE_FAILED, message
	}
	return lmwardenv1.ModelState_MODEL_STATE_STARTING, message
}
