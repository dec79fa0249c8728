// Package layout divides the box's cards among models. It is pure: cards, what is held
// and a wish go in, groups of cards come out, or a sentence that says why not.
package layout

import (
	"fmt"
	"slices"
	"strings"
)

// Card is a card of the box.
type Card struct {
	UUID string
	// Name is the product name; cards of one replica must be alike.
	Name string
	// Message says why the card cannot be used, or is empty.
	Message string
}

// Holder is who has a card.
type Holder struct {
	Model   string
	Replica int
}

// Request is what one model wants.
type Request struct {
	// Model is the model's own name: cards that it holds itself count as free.
	Model string
	// Replicas is the number of groups; 0 means as many as fit.
	Replicas int
	// TensorParallel is the number of cards per group; 0 means 1.
	TensorParallel int
	// GPUs are the cards to use, by full UUID, in order; empty means that free ones
	// are chosen.
	GPUs []string
	// NoGPU asks for groups without cards, for engines that compute on the CPU or
	// simulate. GPUs must be empty then.
	NoGPU bool
}

// Assign returns the cards of each replica: disjoint groups of TensorParallel cards, in
// the order of cards or of Request.GPUs. cards are in PCI bus order, held says who has
// which card by UUID. Equal arguments give equal groups, and a replica keeps the group
// that it holds while the model's number of replicas changes and its cards stay.
// Errors are sentences for the person who asked; they name the holder and the fix.
func Assign(cards []Card, held map[string]Holder, request Request) ([][]string, error) {
	if request.Replicas < 0 || request.TensorParallel < 0 {
		return nil, fmt.Errorf("model %s asks for %d replicas of %d cards; neither number can be below 0", request.Model, request.Replicas, request.TensorParallel)
	}
	if request.NoGPU {
		return withoutCards(request)
	}
	tp := max(request.TensorParallel, 1)
	pool, err := usable(cards, held, request)
	if err != nil {
		return nil, err
	}
	groups, err := form(pool, cards, held, request, tp)
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 || len(groups) < request.Replicas {
		return nil, tooFew(cards, held, request, tp, len(pool))
	}
	return groups, nil
}

func withoutCards(request Request) ([][]string, error) {
	if len(request.GPUs) > 0 {
		return nil, fmt.Errorf("model %s names cards (%s), but its engines run without any; remove the list of cards", request.Model, strings.Join(request.GPUs, ", "))
	}
	groups := make([][]string, max(request.Replicas, 1))
	for i := range groups {
		groups[i] = []string{}
	}
	return groups, nil
}

// usable lists the cards that the request may have, in its order.
func usable(cards []Card, held map[string]Holder, request Request) ([]Card, error) {
	if len(request.GPUs) == 0 {
		var pool []Card
		for _, c := range cards {
			if h, taken := held[c.UUID]; c.Message == "" && (!taken || h.Model == request.Model) {
				pool = append(pool, c)
			}
		}
		return pool, nil
	}
	var pool []Card
	for _, uuid := range request.GPUs {
		i := slices.IndexFunc(cards, func(c Card) bool { return c.UUID == uuid })
		h, taken := held[uuid]
		switch {
		case i < 0:
			return nil, fmt.Errorf("the box has no card %s; choose from: %s", uuid, names(cards))
		case cards[i].Message != "":
			return nil, fmt.Errorf("card %s cannot be used: %s", uuid, cards[i].Message)
		case taken && h.Model != request.Model:
			return nil, fmt.Errorf("card %s is held by model %s replica %d; stop it or choose another card", uuid, h.Model, h.Replica)
		case slices.ContainsFunc(pool, func(c Card) bool { return c.UUID == uuid }):
			return nil, fmt.Errorf("card %s is named twice; name each card once", uuid)
		}
		pool = append(pool, cards[i])
	}
	if tp := max(request.TensorParallel, 1); len(pool)%tp != 0 {
		return nil, fmt.Errorf("%s cannot be divided into groups of %d; name a multiple of %d cards", plural(len(pool), "card"), tp, tp)
	}
	return pool, nil
}

// form makes groups out of the pool.
func form(pool, cards []Card, held map[string]Holder, request Request, tp int) ([][]string, error) {
	want := request.Replicas
	if want == 0 {
		want = len(pool) / tp
	}
	if len(request.GPUs) > 0 {
		// The order is the person's, so that groups are cut as they come.
		groups := cut(pool, tp, want)
		for _, g := range groups {
			if a, b, differ := unlike(g); differ {
				return nil, fmt.Errorf("cards %s (%s) and %s (%s) are of different kinds and cannot make one replica; order the list so that each group of %d is of one kind", a.UUID, a.Name, b.UUID, b.Name, tp)
			}
		}
		return uuids(groups), nil
	}
	groups := make([][]Card, want)
	left := pool
	for i, own := range holdings(cards, held, request.Model) {
		if i < want && len(own) == tp && contains(left, own) {
			if _, _, differ := unlike(own); !differ {
				groups[i], left = own, without(left, own)
			}
		}
	}
	for i := range groups {
		if groups[i] != nil {
			continue
		}
		group := firstAlike(left, tp)
		if group == nil {
			groups = groups[:i]
			break
		}
		groups[i], left = group, without(left, group)
	}
	return uuids(groups), nil
}

// holdings lists the cards of each replica of a model, in the order of cards.
func holdings(cards []Card, held map[string]Holder, model string) map[int][]Card {
	own := map[int][]Card{}
	for _, c := range cards {
		if h, ok := held[c.UUID]; ok && h.Model == model {
			own[h.Replica] = append(own[h.Replica], c)
		}
	}
	return own
}

// firstAlike finds the first tp cards of one kind, or nil.
func firstAlike(pool []Card, tp int) []Card {
	byName := map[string][]Card{}
	for _, c := range pool {
		byName[c.Name] = append(byName[c.Name], c)
		if len(byName[c.Name]) == tp {
			return byName[c.Name]
		}
	}
	return nil
}

func cut(pool []Card, tp, most int) [][]Card {
	var groups [][]Card
	for len(pool) >= tp && len(groups) < most {
		groups, pool = append(groups, pool[:tp]), pool[tp:]
	}
	return groups
}

func unlike(group []Card) (a, b Card, differ bool) {
	for _, c := range group[1:] {
		if c.Name != group[0].Name {
			return group[0], c, true
		}
	}
	return Card{}, Card{}, false
}

func contains(pool, group []Card) bool {
	return !slices.ContainsFunc(group, func(c Card) bool { return !slices.Contains(pool, c) })
}

func without(pool, group []Card) []Card {
	return slices.DeleteFunc(slices.Clone(pool), func(c Card) bool { return slices.Contains(group, c) })
}

func uuids(groups [][]Card) [][]string {
	all := make([][]string, len(groups))
	for i, g := range groups {
		for _, c := range g {
			all[i] = append(all[i], c.UUID)
		}
	}
	return all
}

// holding says who has the cards that a model cannot have: "3 held by model a, 1 cannot be
// used", in the order of the cards.
func holding(cards []Card, held map[string]Holder, model string) []string {
	var order []string
	number := make(map[string]int)
	for _, c := range cards {
		who := ""
		if h, taken := held[c.UUID]; taken && h.Model != model {
			who = "%d held by model " + h.Model
		} else if c.Message != "" {
			who = "%d cannot be used"
		}
		if who != "" && number[who] == 0 {
			order = append(order, who)
		}
		number[who]++
	}
	for i, who := range order {
		order[i] = fmt.Sprintf(who, number[who])
	}
	return order
}

// tooFew explains who has the cards that are missing.
func tooFew(cards []Card, held map[string]Holder, request Request, tp, free int) error {
	want := max(request.Replicas, 1)
	what := fmt.Sprintf("model %s needs %s (%s of %d)", request.Model, plural(want*tp, "card"), plural(want, "replica"), tp)
	if len(cards) == 0 {
		return fmt.Errorf("%s, and the box has none; set engine.device: cpu in the configuration to run without cards", what)
	}
	if len(request.GPUs) > 0 {
		return fmt.Errorf("%s, and %d are named; name more cards or ask for fewer replicas", what, len(request.GPUs))
	}
	others := holding(cards, held, request.Model)
	switch {
	case free >= want*tp:
		return fmt.Errorf("%s, but the %d free cards do not make up so many groups of one kind; ask for fewer replicas or fewer cards each", what, free)
	case len(others) > 0:
		return fmt.Errorf("%s, and %d of %d are free (%s); stop what holds them or ask for fewer", what, free, len(cards), strings.Join(others, ", "))
	default:
		return fmt.Errorf("%s, and the box has %d; ask for fewer replicas or fewer cards each", what, len(cards))
	}
}

// plural writes a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func names(cards []Card) string {
	if len(cards) == 0 {
		return "none, the box has no cards"
	}
	all := make([]string, len(cards))
	for i, c := range cards {
		all[i] = c.UUID
	}
	return strings.Join(all, ", ")
}
