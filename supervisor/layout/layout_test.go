package layout_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lmwarden/lmwarden/supervisor/layout"
)

func box(names ...string) []layout.Card {
	cards := make([]layout.Card, len(names))
	for i, n := range names {
		cards[i] = layout.Card{UUID: fmt.Sprintf("GPU-%d", i), Name: n}
	}
	return cards
}

func TestAssign(t *testing.T) {
	four := box("A", "A", "A", "A")
	held := map[string]layout.Holder{"GPU-1": {Model: "other", Replica: 2}}
	for _, c := range []struct {
		name    string
		cards   []layout.Card
		held    map[string]layout.Holder
		request layout.Request
		want    string
	}{
		{"as many as fit", four, nil, layout.Request{}, "[[GPU-0] [GPU-1] [GPU-2] [GPU-3]]"},
		{"groups of two", four, nil, layout.Request{TensorParallel: 2}, "[[GPU-0 GPU-1] [GPU-2 GPU-3]]"},
		{"around a held card", four, held, layout.Request{TensorParallel: 2, Replicas: 1}, "[[GPU-0 GPU-2]]"},
		{"as many as fit beside others", four, held, layout.Request{TensorParallel: 3}, "[[GPU-0 GPU-2 GPU-3]]"},
		{"the person's order", four, nil, layout.Request{TensorParallel: 2, GPUs: []string{"GPU-3", "GPU-0"}}, "[[GPU-3 GPU-0]]"},
		{"fewer replicas than named", four, nil, layout.Request{Replicas: 1, GPUs: []string{"GPU-3", "GPU-0"}}, "[[GPU-3]]"},
		{"kinds are not mixed", box("A", "B", "A", "B"), nil, layout.Request{TensorParallel: 2}, "[[GPU-0 GPU-2] [GPU-1 GPU-3]]"},
		{"without cards", nil, nil, layout.Request{NoGPU: true, Replicas: 2}, "[[] []]"},
		{"without cards, number left open", four, nil, layout.Request{NoGPU: true}, "[[]]"},
		{
			"what it holds it keeps", four,
			map[string]layout.Holder{"GPU-2": {Model: "m", Replica: 0}, "GPU-0": {Model: "m", Replica: 1}},
			layout.Request{Model: "m"},
			"[[GPU-2] [GPU-0] [GPU-1] [GPU-3]]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := layout.Assign(c.cards, c.held, c.request)
			if err != nil || fmt.Sprint(got) != c.want {
				t.Errorf("got %v, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestAssignRefuses(t *testing.T) {
	four := box("A", "A", "A", "A")
	broken := box("A", "A")
	broken[1].Message = "The card needs a reset."
	held := map[string]layout.Holder{"GPU-1": {Model: "other", Replica: 2}}
	for _, c := range []struct {
		name    string
		cards   []layout.Card
		held    map[string]layout.Holder
		request layout.Request
		want    string
	}{
		{"held", four, held, layout.Request{GPUs: []string{"GPU-1"}}, "card GPU-1 is held by model other replica 2; stop it or choose another card"},
		{"unknown", four, nil, layout.Request{GPUs: []string{"GPU-9"}}, "has no card GPU-9; choose from: GPU-0, GPU-1"},
		{"twice", four, nil, layout.Request{GPUs: []string{"GPU-1", "GPU-1"}}, "named twice"},
		{"uneven", four, nil, layout.Request{TensorParallel: 2, GPUs: []string{"GPU-1"}}, "1 card cannot be divided into groups of 2; name a multiple of 2"},
		{"broken", broken, nil, layout.Request{GPUs: []string{"GPU-1"}}, "cannot be used: The card needs a reset."},
		{"too many", four, held, layout.Request{Model: "m", Replicas: 4}, "model m needs 4 cards (4 replicas of 1), and 3 of 4 are free (1 held by model other); stop what holds them or ask for fewer"},
		{"too large", four, nil, layout.Request{Model: "m", TensorParallel: 8}, "the box has 4"},
		{"too few named", four, nil, layout.Request{Replicas: 2, GPUs: []string{"GPU-1"}}, "1 are named"},
		{"no cards", nil, nil, layout.Request{Model: "m"}, "the box has none; set engine.device: cpu"},
		{"mixed by hand", box("A", "B"), nil, layout.Request{TensorParallel: 2, GPUs: []string{"GPU-0", "GPU-1"}}, "of different kinds"},
		{"mixed box", box("A", "B"), nil, layout.Request{TensorParallel: 2}, "of one kind"},
		{"cards for none", four, nil, layout.Request{NoGPU: true, GPUs: []string{"GPU-0"}}, "remove the list"},
		{"below 0", four, nil, layout.Request{Replicas: -1}, "below 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := layout.Assign(c.cards, c.held, c.request)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want %q", got, err, c.want)
			}
		})
	}
}

// Groups are disjoint, of the right size, of one kind, of free cards, and the same
// each time, for any box.
func TestAssignHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cards := box(rapid.SliceOfN(rapid.SampledFrom([]string{"A", "B"}), 0, 12).Draw(t, "cards")...)
		held := map[string]layout.Holder{}
		for _, c := range cards {
			if rapid.IntRange(0, 3).Draw(t, "held") == 0 {
				held[c.UUID] = layout.Holder{Model: rapid.SampledFrom([]string{"m", "other"}).Draw(t, "by"), Replica: rapid.IntRange(0, 3).Draw(t, "replica")}
			}
		}
		request := layout.Request{Model: "m", Replicas: rapid.IntRange(0, 5).Draw(t, "replicas"), TensorParallel: rapid.IntRange(1, 4).Draw(t, "tp")}
		before := maps.Clone(held)
		groups, err := layout.Assign(cards, held, request)
		if !maps.Equal(before, held) {
			t.Fatal("the arguments were changed")
		}
		if err != nil {
			return
		}
		again, _ := layout.Assign(cards, held, request)
		if fmt.Sprint(groups) != fmt.Sprint(again) {
			t.Fatalf("not the same twice: %v, %v", groups, again)
		}
		if request.Replicas > 0 && len(groups) != request.Replicas {
			t.Fatalf("%d groups for %+v", len(groups), request)
		}
		kind := map[string]string{}
		for _, c := range cards {
			kind[c.UUID] = c.Name
		}
		seen := map[string]bool{}
		for _, g := range groups {
			if len(g) != request.TensorParallel {
				t.Fatalf("group %v for %+v", g, request)
			}
			for _, uuid := range g {
				if h, taken := held[uuid]; seen[uuid] || kind[uuid] != kind[g[0]] || taken && h.Model != "m" {
					t.Fatalf("card %s in %v", uuid, groups)
				}
				seen[uuid] = true
			}
		}
	})
}

// Going from many replicas to fewer and back gives each the cards that it had.
func TestScalingGivesBackTheSameCards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cards := box(slices.Repeat([]string{"A"}, rapid.IntRange(4, 12).Draw(t, "cards"))...)
		tp := rapid.IntRange(1, 2).Draw(t, "tp")
		many := len(cards) / tp
		few := rapid.IntRange(1, many).Draw(t, "few")
		assign := func(replicas int, groups [][]string) [][]string {
			held := map[string]layout.Holder{}
			for i, g := range groups {
				for _, uuid := range g {
					held[uuid] = layout.Holder{Model: "m", Replica: i}
				}
			}
			out, err := layout.Assign(cards, held, layout.Request{Model: "m", Replicas: replicas, TensorParallel: tp})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		first := assign(many, nil)
		less := assign(few, first)
		back := assign(many, less)
		if fmt.Sprint(less) != fmt.Sprint(first[:few]) || fmt.Sprint(back) != fmt.Sprint(first) {
			t.Fatalf("%v, then %v, then %v", first, less, back)
		}
	})
}
