package run

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// lopsided is the name of the policy that takes a number.
const lopsided = "lopsided"

// noSpill is a threshold that is never reached.
const noSpill = 1 << 20

// Policy is how turns find their replicas.
type Policy struct {
	Settings route.Settings
	// Blind sends each turn to a replica by chance, whatever the settings say. That is
	// what an engine's own balancer comes to when its ranks do not report their load: each
	// of several front ends counts through the ranks, and which front end a turn meets is
	// a matter of luck.
	Blind bool
	// Lean makes a blind choice uneven, from 0 to 1: the first replica gets 1 + Lean of
	// what an even choice gives it, the last one 1 - Lean, those between evenly less.
	Lean float64

	picker func(pickerBox) picker // finds the replicas in the router's place, when set
}

// OnlySimulated is true for a policy that stands for another router and that ours has not.
func (p Policy) OnlySimulated() bool { return p.picker != nil }

// Rank draws the replica of a turn for a blind policy, from 0 to replicas - 1.
func (p Policy) Rank(luck *rand.Rand, replicas int) int {
	at := luck.IntN(replicas)
	if p.Lean == 0 || replicas < 2 {
		return at
	}
	// An even draw is kept with the weight that it has, or the mirror of it is taken: of
	// the two, the weights are 1 + x and 1 - x.
	lean := p.Lean * (1 - 2*float64(at)/float64(replicas-1))
	if luck.Float64() < (1+lean)/2 {
		return at
	}
	return replicas - 1 - at
}

// policies by name, in the order in which they are listed.
var policies = []struct {
	name, about string
	change      func(p *Policy)
}{
	{"off", "no affinity: the replica with the fewest requests in flight", func(p *Policy) { p.Settings.Affinity = false }},
	{"blind", "no affinity and no look at the load: any replica", func(p *Policy) { p.Blind = true }},
	{lopsided, "blind, and the first replica is drawn three times as often as the last; lopsided:0.2 leans less", func(p *Policy) {
		p.Blind, p.Lean = true, 0.5
	}},
	{"round-robin", "homes in turn", func(p *Policy) { p.Settings.Policy = route.PolicyRoundRobin }},
	{"random", "homes by chance", func(p *Policy) { p.Settings.Policy = route.PolicyRandom }},
	{"hash", "home by a hash of the conversation, never left", func(p *Policy) {
		p.Settings.Policy, p.Settings.SpillThreshold = route.PolicyHash, noSpill
	}},
	{"seed", "home where the load is least, left at the spill threshold", func(*Policy) {}},
	{"seed-recent", "seed, but a home weighs conversations for 5 minutes after their last turn, also those that ended", func(p *Policy) {
		p.picker = newRecent
	}},
	{"cache-tree", "where the longest beginning of the prompt was sent before, if half of it was, else where the least was", func(p *Policy) {
		p.picker = newTree
	}},
	{"priced", "seed, but leaving home is weighed against reading anew", func(p *Policy) { p.Settings.Spill = route.SpillPriced }},
	{"working-set", "seed, and only as many conversations as the caches hold", func(p *Policy) {
		p.Settings.Admission = route.AdmissionWorkingSet
	}},
}

// PolicyNames returns the names that [FindPolicy] knows, from the simplest policy to
// the most elaborate.
func PolicyNames() []string {
	names := make([]string, len(policies))
	for i, p := range policies {
		names[i] = p.name
	}
	return names
}

// PolicyAbout says in a few words what the policy of that name does, or nothing.
func PolicyAbout(name string) string {
	for _, p := range policies {
		if p.name == name {
			return p.about
		}
	}
	return ""
}

// FindPolicy returns a policy by its name, or an error that lists the names. Behind the
// name lopsided and a colon may stand how much it leans.
func FindPolicy(name string) (Policy, error) {
	plain, lean, leans := strings.Cut(strings.ReplaceAll(name, "_", "-"), ":")
	for _, p := range policies {
		if p.name != plain || leans && plain != lopsided {
			continue
		}
		policy := Policy{Settings: route.DefaultSettings()}
		p.change(&policy)
		if leans {
			var err error
			if policy.Lean, err = strconv.ParseFloat(lean, 64); err != nil || !(policy.Lean >= 0 && policy.Lean <= 1) {
				return Policy{}, fmt.Errorf("policy %q leans by %q; it must be a number from 0 to 1", name, lean)
			}
		}
		return policy, nil
	}
	return Policy{}, fmt.Errorf("there is no policy %q; choose one of %s", name, strings.Join(PolicyNames(), ", "))
}
