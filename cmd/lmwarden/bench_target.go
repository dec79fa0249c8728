package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// armMask names the routing settings that an arm changes.
var armMask = []string{"affinity", "policy"}

// armSettings returns the routing settings of an arm: off, on, or a placement policy
// by its name in the API.
func armSettings(arm string) (*lmwardenv1.RoutingSettings, error) {
	on, off := true, false
	switch arm {
	case "off":
		return &lmwardenv1.RoutingSettings{Affinity: &off}, nil
	case "on":
		return &lmwardenv1.RoutingSettings{Affinity: &on}, nil
	}
	number, err := enumNumber(lmwardenv1.PlacementPolicy(0).Descriptor(), strings.TrimPrefix(arm, "policy "))
	if err != nil {
		return nil, usageErrorf("arm %q does not exist; choose off, on, hash, random, \"round robin\" or \"least loaded\"", arm)
	}
	return &lmwardenv1.RoutingSettings{Affinity: &on, Policy: lmwardenv1.PlacementPolicy(number)}, nil
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
		if _, err := armSettings(arm); err != nil {
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
	card, err := cs.routing.GetRouting(ctx, &lmwardenv1.GetRoutingRequest{Model: model})
	if err != nil {
		return benchTarget{}, err
	}
	if len(card.GetCard().GetReplicas()) == 0 {
		return benchTarget{}, fmt.Errorf("model %q has no replica; start it with \"lmwarden model start %s\"", model, model)
	}
	target := benchTarget{
		url:   reachableURL(info.GetInfo().GetInferenceUrl(), a.addr),
		model: model,
		arms:  f.arms,
		busy:  func(ctx context.Context) (int, bool) { return busyReplicas(ctx, cs, model) },
	}
	target.switchBy(ctx, cs, card.GetCard().GetSettings())
	return target, nil
}

// switchBy lets the arms be switched through the daemon, and puts the model's own
// settings back at the end.
func (t *benchTarget) switchBy(ctx context.Context, cs *clients, before *lmwardenv1.RoutingSettings) {
	model := t.model
	update := func(ctx context.Context, settings *lmwardenv1.RoutingSettings) error {
		_, err := cs.routing.UpdateRouting(ctx, &lmwardenv1.UpdateRoutingRequest{
			Model: model, Settings: settings, UpdateMask: &fieldmaskpb.FieldMask{Paths: slices.Clone(armMask)},
		})
		return err
	}
	t.change = func(ctx context.Context, arm string) error {
		settings, err := armSettings(arm)
		if err != nil {
			return err
		}
		return update(ctx, settings)
	}
	t.restore = func() error {
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
