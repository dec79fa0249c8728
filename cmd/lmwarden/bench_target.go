package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	simrun "github.com/lmwarden/lmwarden/sim/run"
)

// armMask names the routing settings that an arm changes.
var armMask = []string{"affinity", "policy", "spill", "spill_threshold", "admission", "client_pinning"}

// neverSpill is the highest threshold that a model can have.
const neverSpill = 4096

// arms are those with a meaning of their own, by name. All but off and on are the
// policies of simulate, without admission unless it is what they are about.
var arms = []struct {
	name   string
	change func(*lmwardenv1.RoutingSettings)
}{
	{"off", func(s *lmwardenv1.RoutingSettings) { s.Affinity = proto.Bool(false) }},
	{"on", func(s *lmwardenv1.RoutingSettings) { s.Affinity = proto.Bool(true) }},
	{"blind", pinnedArm},
	{"lopsided", pinnedArm},
	{"round-robin", plainArm(lmwardenv1.PlacementPolicy_PLACEMENT_POLICY_ROUND_ROBIN)},
	{"random", plainArm(lmwardenv1.PlacementPolicy_PLACEMENT_POLICY_RANDOM)},
	{"hash", func(s *lmwardenv1.RoutingSettings) {
		plainArm(lmwardenv1.PlacementPolicy_PLACEMENT_POLICY_HASH)(s)
		s.SpillThreshold = proto.Uint32(neverSpill)
	}},
	{"seed", plainArm(lmwardenv1.PlacementPolicy_PLACEMENT_POLICY_LEAST_LOADED)},
	{"priced", func(s *lmwardenv1.RoutingSettings) {
		plainArm(lmwardenv1.PlacementPolicy_PLACEMENT_POLICY_LEAST_LOADED)(s)
		s.Spill = lmwardenv1.SpillRule_SPILL_RULE_PRICED
	}},
	{"working-set", func(s *lmwardenv1.RoutingSettings) {
		plainArm(lmwardenv1.PlacementPolicy_PLACEMENT_POLICY_LEAST_LOADED)(s)
		s.Admission = lmwardenv1.Admission_ADMISSION_WORKING_SET
	}},
}

// plainArm sets affinity with that placement, the counting spill rule with the model's
// own threshold, and no admission.
func plainArm(p lmwardenv1.PlacementPolicy) func(*lmwardenv1.RoutingSettings) {
	return func(s *lmwardenv1.RoutingSettings) {
		s.Affinity, s.Policy = proto.Bool(true), p
		s.Spill, s.Admission = lmwardenv1.SpillRule_SPILL_RULE_COUNT, lmwardenv1.Admission_ADMISSION_NONE
	}
}

// pinnedArm lets the load itself name the replica of each turn, as [blindRanks] draws it.
func pinnedArm(s *lmwardenv1.RoutingSettings) {
	plainArm(lmwardenv1.PlacementPolicy_PLACEMENT_POLICY_LEAST_LOADED)(s)
	s.ClientPinning = proto.Bool(true)
}

// blindRanks draws the replicas of an arm that does not look at the load; nil for every
// other arm. It is safe for concurrent use.
func blindRanks(arm string, seed uint64, replicas int) func() int {
	p, err := simrun.FindPolicy(armName(arm))
	if err != nil || !p.Blind || replicas < 1 {
		return nil
	}
	luck := rand.New(rand.NewPCG(seed, 0xb11d))
	var mu sync.Mutex // guards luck
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return p.Rank(luck, replicas)
	}
}

// armName is the name of an arm as it is listed.
func armName(arm string) string {
	return strings.NewReplacer("_", "-", " ", "-").Replace(strings.TrimSpace(arm))
}

// armNames lists the arms.
func armNames() []string {
	names := make([]string, len(arms))
	for i, arm := range arms {
		names[i] = arm.name
	}
	return names
}

// armSettings returns the routing settings of an arm: those that the model has, with
// what the arm changes.
func armSettings(arm string, own *lmwardenv1.RoutingSettings) (*lmwardenv1.RoutingSettings, error) {
	plain, _, leans := strings.Cut(armName(arm), ":")
	if leans {
		if _, err := simrun.FindPolicy(armName(arm)); err != nil {
			return nil, usageErrorf("%w", err)
		}
	}
	for _, known := range arms {
		if known.name != plain {
			continue
		}
		settings := &lmwardenv1.RoutingSettings{}
		if own != nil {
			settings = proto.CloneOf(own)
		}
		known.change(settings)
		return settings, nil
	}
	return nil, usageErrorf("arm %q does not exist; choose from %s", arm, strings.Join(armNames(), ", "))
}

// benchTarget finds what is to be measured: an endpoint by its URL, or a model of the
// daemon with its arms.
func (a *app) benchTarget(ctx context.Context, f benchFlags) (benchTarget, error) {
	if f.url != "" {
		if f.model == "" {
			return benchTarget{}, usageErrorf("--url needs --model: the name that the endpoint knows its model by")
		}
		return benchTarget{url: f.url, model: f.model, arms: []string{"as is"}}, nil
	}
	for _, arm := range f.arms {
		if _, err := armSettings(arm, nil); err != nil {
			return benchTarget{}, err
		}
	}
	cs, err := a.dial()
	if err != nil {
		return benchTarget{}, err
	}
	info, err := cs.system.GetInfo(ctx, &lmwardenv1.GetInfoRequest{})
	if err != nil {
		return benchTarget{}, err
	}
	model, err := a.chooseModel(ctx, cs, f.model)
	if err != nil {
		return benchTarget{}, err
	}
	// Before anything is sent: every arm would be refused.
	m, err := cs.models.GetModel(ctx, &lmwardenv1.GetModelRequest{Name: model})
	if err != nil {
		return benchTarget{}, err
	}
	if file := m.GetModel().GetDeclaredIn(); file != "" {
		return benchTarget{}, &codeError{exitConflict, fmt.Errorf("model %q is declared in %s and is read-only here, so no arm can be switched; measure it as it is with --url %s --model %s",
			model, file, info.GetInfo().GetInferenceUrl(), model)}
	}
	card, err := cs.routing.GetRouting(ctx, &lmwardenv1.GetRoutingRequest{Model: model})
	if err != nil {
		return benchTarget{}, err
	}
	if len(card.GetCard().GetReplicas()) == 0 {
		return benchTarget{}, fmt.Errorf("model %q has no replica; start it with \"lmwarden model start %s\"", model, model)
	}
	target := benchTarget{
		url:      info.GetInfo().GetInferenceUrl(),
		model:    model,
		arms:     f.arms,
		replicas: len(card.GetCard().GetReplicas()),
		busy:     func(ctx context.Context) (int, bool) { return busyReplicas(ctx, cs, model) },
	}
	target.switchBy(ctx, cs, card.GetCard().GetSettings())
	return target, nil
}

// switchBy lets the arms be switched through the daemon, and puts the model's own
// settings back at the end if any arm was.
func (t *benchTarget) switchBy(ctx context.Context, cs *clients, before *lmwardenv1.RoutingSettings) {
	model := t.model
	update := func(ctx context.Context, settings *lmwardenv1.RoutingSettings) error {
		_, err := cs.routing.UpdateRouting(ctx, &lmwardenv1.UpdateRoutingRequest{
			Model: model, Settings: settings, UpdateMask: &fieldmaskpb.FieldMask{Paths: slices.Clone(armMask)},
		})
		return err
	}
	changed := false
	t.change = func(ctx context.Context, arm string) error {
		settings, err := armSettings(arm, before)
		if err != nil {
			return err
		}
		err = update(ctx, settings)
		if err == nil || ctx.Err() != nil { // the daemon may have made one that was cut off
			changed = true
		}
		return err
	}
	t.restore = func() error {
		if !changed {
			return nil
		}
		// Also after an interrupt: the user's own settings must come back.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if before == nil {
			before = &lmwardenv1.RoutingSettings{}
		}
		if err := update(ctx, before); err != nil {
			return fmt.Errorf("the routing of %q is not as it was before: %w", model, err)
		}
		return nil
	}
}

// busyReplicas counts the replicas with requests running, by the engines' own figures.
func busyReplicas(ctx context.Context, cs *clients, model string) (n int, known bool) {
	r, err := cs.routing.GetRouting(ctx, &lmwardenv1.GetRoutingRequest{Model: model})
	if err != nil {
		return 0, false
	}
	for _, replica := range r.GetCard().GetReplicas() {
		if replica.Running == nil {
			continue
		}
		known = true
		if replica.GetRunning() > 0 {
			n++
		}
	}
	return n, known
}
