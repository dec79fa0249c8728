package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// fakeComparison is a comparison with a figure of each unit, one of them not observed.
func fakeComparison(running bool) *lmwardenv1.Comparison {
	c := &lmwardenv1.Comparison{
		Model: "qwen3-4b", Running: running, Ends: ago(-time.Hour), Verdict: "affinity=on is better by 0.90 to 1.40 s to the first token, on the mean of all turns; 4 % chance that this is noise.",
		Method: "95 % intervals by the percentile bootstrap.",
		Arms: []*lmwardenv1.ComparisonArm{
			{Name: "affinity=on", Conversations: 41, Ended: 38, Turns: 240},
			{Name: "affinity=off", Conversations: 1, Turns: 1, Failed: 1},
		},
		Figures: []*lmwardenv1.ComparisonFigure{
			{Name: "first token, all turns, mean", Unit: "s", A: proto.Float64(0.6), B: proto.Float64(1.7), Difference: proto.Float64(1.1), Low: proto.Float64(0.9), High: proto.Float64(1.4), Noise: proto.Float64(0.04)},
			{Name: "prompt from cache", A: proto.Float64(0.86), B: proto.Float64(0.31), Difference: proto.Float64(-0.55)},
			{Name: "output of a session", Unit: "tokens/min", A: proto.Float64(212), HigherIsBetter: true},
		},
	}
	if !running {
		c.Message = "it was stopped"
	}
	return c
}

func (b *fakeBox) StartComparison(_ context.Context, r *lmwardenv1.StartComparisonRequest) (*lmwardenv1.StartComparisonResponse, error) {
	b.asked(r)
	return &lmwardenv1.StartComparisonResponse{Comparison: fakeComparison(true)}, has(r.GetModel())
}

func (b *fakeBox) GetComparison(_ context.Context, r *lmwardenv1.GetComparisonRequest) (*lmwardenv1.GetComparisonResponse, error) {
	return &lmwardenv1.GetComparisonResponse{Comparison: fakeComparison(true)}, has(r.GetModel())
}

func (b *fakeBox) StopComparison(_ context.Context, r *lmwardenv1.StopComparisonRequest) (*lmwardenv1.StopComparisonResponse, error) {
	return &lmwardenv1.StopComparisonResponse{Comparison: fakeComparison(false)}, has(r.GetModel())
}

// A comparison that ended on another day says on which.
func TestMomentNamesAnotherDay(t *testing.T) {
	for at, want := range map[time.Time]string{
		noon.Add(time.Hour):    "13:00:00",
		noon.AddDate(0, 0, -1): "2026-11-28 12:00:00",
		noon.AddDate(1, 0, 0):  "2027-11-29 12:00:00",
	} {
		if got := moment(timestamppb.New(at), noon); got != want {
			t.Errorf("%v is printed as %q, want %q", at, got, want)
		}
	}
}

func TestCompareStartSendsBothSettings(t *testing.T) {
	s, err := comparisonSetting("a", "affinity=off, spill-threshold=4,policy=round robin")
	if err != nil {
		t.Fatal(err)
	}
	want := &lmwardenv1.RoutingSettings{
		Affinity: proto.Bool(false), SpillThreshold: proto.Uint32(4), Policy: lmwardenv1.PlacementPolicy_PLACEMENT_POLICY_ROUND_ROBIN,
	}
	if !proto.Equal(s.GetSettings(), want) || s.GetName() != "--a" {
		t.Errorf("got %v, want %v", s, want)
	}
	box := newFakeBox(t)
	got := box.lmwarden(t, "compare", "start", "qwen3-4b", "--a", "affinity=on", "--b", "affinity=off", "--for", "5m")
	if got.code != 0 || !strings.Contains(got.stdout, "is better by 0.90 to 1.40 s") {
		t.Errorf("code %d, %q %q", got.code, got.stdout, got.err)
	}
	stopped := box.lmwarden(t, "compare", "stop", "qwen3-4b")
	if !strings.Contains(stopped.stdout, "because it was stopped") {
		t.Errorf("%q", stopped.stdout)
	}
	for text, says := range map[string]string{"": "is missing", "affinity": "is no setting", "affinity=maybe": "maybe", "colour=red": "colour"} {
		if _, err := comparisonSetting("b", text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}
