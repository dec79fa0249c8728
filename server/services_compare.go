package server

import (
	"context"
	"fmt"
	"math"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/compare"
)

// StartComparison compares two settings on live traffic.
func (s routingService) StartComparison(_ context.Context, req *lmwardenv1.StartComparisonRequest) (*lmwardenv1.StartComparisonResponse, error) {
	e, err := s.models.get(req.GetModel())
	if err != nil {
		return nil, err
	}
	if e.broken != nil {
		return nil, brokenModel(req.GetModel(), e.broken)
	}
	if err := checkComparison(req.GetSettings()); err != nil {
		return nil, err
	}
	if admissionInForce(e.model.GetRouting()) != lmwardenv1.Admission_ADMISSION_NONE {
		return nil, comparisonUnderAdmission(req.GetModel())
	}
	if err := s.comparisons.start(e.model, req, s.now()); err != nil {
		return nil, err
	}
	out, err := s.comparison(req.GetModel())
	return &lmwardenv1.StartComparisonResponse{Comparison: out}, err
}

// GetComparison returns the comparison of a model that runs, or the last one.
func (s routingService) GetComparison(_ context.Context, req *lmwardenv1.GetComparisonRequest) (*lmwardenv1.GetComparisonResponse, error) {
	out, err := s.comparison(req.GetModel())
	return &lmwardenv1.GetComparisonResponse{Comparison: out}, err
}

// StopComparison ends the comparison of a model.
func (s routingService) StopComparison(_ context.Context, req *lmwardenv1.StopComparisonRequest) (*lmwardenv1.StopComparisonResponse, error) {
	if _, err := s.models.get(req.GetModel()); err != nil {
		return nil, err
	}
	c := s.comparisons
	c.mu.Lock()
	if one := c.last[req.GetModel()]; one != nil && one.running {
		c.stop(req.GetModel(), one, "it was stopped", s.now())
	}
	c.mu.Unlock()
	out, err := s.comparison(req.GetModel())
	return &lmwardenv1.StopComparisonResponse{Comparison: out}, err
}

// comparison returns the comparison of a model as shown.
func (c *control) comparison(model string) (*lmwardenv1.Comparison, error) {
	if _, err := c.models.get(model); err != nil {
		return nil, err
	}
	all := c.comparisons
	all.mu.Lock()
	defer all.mu.Unlock()
	one := all.last[model]
	if one == nil {
		return nil, noComparison(model)
	}
	return all.show(model, one, c.now()), nil
}

// shown returns a comparison in the API's terms. The caller holds the mutex of all.
func (one *comparison) shown(model string) *lmwardenv1.Comparison {
	r := one.report
	out := &lmwardenv1.Comparison{
		Model: model, Running: one.running, Started: timestamppb.New(one.started), Ends: timestamppb.New(one.ends),
		Message: one.message, Seed: one.seed, Verdict: r.Verdict,
		Method: fmt.Sprintf("95 %% intervals by the percentile bootstrap over whole conversations, %d resamples; the seed makes them repeatable.", r.Resamples),
	}
	for i, a := range r.Arms {
		out.Arms = append(out.Arms, &lmwardenv1.ComparisonArm{
			Name: one.names[i], Settings: one.set[i], Conversations: count(a.Conversations),
			Ended: count(a.Ended), Turns: count(a.Turns), Failed: count(a.Failed),
		})
	}
	for i := range r.Figures {
		out.Figures = append(out.Figures, comparisonFigure(&r.Figures[i]))
	}
	return out
}

// figureNames are the names and units of the figures.
var figureNames = [compare.NumKinds][2]string{
	compare.FirstTokenMean:  {"first token, all turns, mean", "s"},
	compare.FirstTurnMean:   {"first token, first turns, mean", "s"},
	compare.FirstTurnP50:    {"first token, first turns, p50", "s"},
	compare.FirstTurnP95:    {"first token, first turns, p95", "s"},
	compare.LaterTurnMean:   {"first token, later turns, mean", "s"},
	compare.LaterTurnP50:    {"first token, later turns, p50", "s"},
	compare.LaterTurnP95:    {"first token, later turns, p95", "s"},
	compare.SessionMean:     {"session, mean", "s"},
	compare.SessionP50:      {"session, p50", "s"},
	compare.SessionP95:      {"session, p95", "s"},
	compare.HitShare:        {"prompt from cache", ""},
	compare.OutputPerMinute: {"output of a session", "tokens/min"},
}

func comparisonFigure(f *compare.Figure) *lmwardenv1.ComparisonFigure {
	return &lmwardenv1.ComparisonFigure{
		Name: figureNames[f.Kind][0], Unit: figureNames[f.Kind][1],
		A: number(f.Value[0]), B: number(f.Value[1]), Difference: number(f.Difference),
		Low: number(f.Low), High: number(f.High), Noise: number(f.Noise),
		ObservationsA: count(f.Observations[0]), ObservationsB: count(f.Observations[1]),
		HigherIsBetter: f.Kind.HigherIsBetter(),
	}
}

// number returns a pointer to a figure, or nil when nothing was observed.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func comparisonRuns(model string, ends time.Time) error {
	return &refusal{connect.CodeFailedPrecondition, "COMPARISON_RUNS", fmt.Sprintf("a comparison runs on model %s until %s; stop it first, or wait", model, ends.Format(time.TimeOnly)), map[string]string{"model": model}}
}

func comparisonUnderAdmission(model string) error {
	return &refusal{connect.CodeFailedPrecondition, "ADMISSION_ON", fmt.Sprintf("admission by working set is on for model %s: the door then chooses the replicas, and the settings would not be used. Set admission to none for the time of the comparison (lmwarden routing set %s --admission none)", model, model), map[string]string{"model": model}}
}

func noComparison(model string) error {
	return &refusal{connect.CodeNotFound, "NOT_FOUND", fmt.Sprintf("no comparison was made on model %s; begin one with lmwarden compare start", model), map[string]string{"model": model}}
}
