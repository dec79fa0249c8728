package run

import (
	"fmt"
	"strings"

	"github.com/lmwarden/lmwarden/proxy/route"
)

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
}

// policies by name, in the order in which they are listed.
var policies = []struct {
	name, about string
	change      func(p *Policy)
}{
	{"off", "no affinity: the replica with the fewest requests in flight", func(p *Policy) { p.Settings.Affinity = false }},
	{"blind", "no affinity and no look at the load: any replica", func(p *Policy) { p.Blind = true }},
	{"round-robin", "homes in turn", func(p *Policy) { p.Settings.Policy = route.PolicyRoundRobin }},
	{"random", "homes by chance", func(p *Policy) { p.Settings.Policy = route.PolicyRandom }},
	{"hash", "home by a hash of the conversation, never left", func(p *Policy) {
		p.Settings.Policy, p.Settings.SpillThreshold = route.PolicyHash, noSpill
	}},
	{"seed", "home where the load is least, left at the spill threshold", func(*Policy) {}},
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

// FindPolicy returns a policy by its name, or an error that lists the names.
func FindPolicy(name string) (Policy, error) {
	for _, p := range policies {
		if p.name == strings.ReplaceAll(name, "_", "-") {
			policy := Policy{Settings: route.DefaultSettings()}
			p.change(&policy)
			return policy, nil
		}
	}
	return Policy{}, fmt.Errorf("there is no policy %q; choose one of %s", name, strings.Join(PolicyNames(), ", "))
}
