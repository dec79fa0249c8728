package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/sim/engine"
)

// Load is what the clients do. All token counts are of the simulated tokenizer.
type Load struct {
	Sessions     int           // conversations at once
	SharedTokens int           // system prompt and tools, the same in all conversations
	FirstMin     int           // first message, at least
	FirstMax     int           // and at most
	Turns        int           // in a conversation
	TurnTokens   int           // new tokens of each turn but the first
	OutputTokens int           // of each answer
	Gap          time.Duration // between an answer and the next turn
	Network      time.Duration // way of a request to the box and of its answer back, together
	Stagger      time.Duration // the first turns come within this time; 0 is all at once
}

// DefaultLoad is the load with which the product's figures were measured, for so many
// conversations at once.
func DefaultLoad(sessions int) Load {
	return Load{
		Sessions: sessions, SharedTokens: 3500, FirstMin: 7200, FirstMax: 7500, Turns: 6,
		TurnTokens: 400, OutputTokens: 256, Gap: 400 * time.Millisecond, Network: 150 * time.Millisecond,
	}
}

// Config of a run.
type Config struct {
	Preset           string // card and model, see [engine.PresetNames]
	Replicas         int
	MaxNumSeqs       int
	MaxBatchedTokens int
	BlockSize        int
	CapacityTokens   int // KV tokens of a replica; 0 takes the preset's
	Policy           Policy
	Load             Load
	Deaths           []Death
	Warmup           time.Duration // not measured
	Length           time.Duration // measured, after the warm-up
	Seed             uint64
}

// DefaultConfig is the four-card box for 12 minutes after 3 of warm-up, with the given
// policy and conversations.
func DefaultConfig(p Policy, sessions int) Config {
	return Config{
		Preset: "a4000/qwen3-4b", Replicas: 4, MaxNumSeqs: 32, MaxBatchedTokens: 2048, BlockSize: 16,
		Policy: p, Load: DefaultLoad(sessions), Warmup: 3 * time.Minute, Length: 12 * time.Minute, Seed: 1,
	}
}

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

// policies by name.
var policies = map[string]func(p *Policy){
	"blind":       func(p *Policy) { p.Blind = true },
	"off":         func(p *Policy) { p.Settings.Affinity = false },
	"seed":        func(*Policy) {},
	"priced":      func(p *Policy) { p.Settings.Spill = route.SpillPriced },
	"hash":        func(p *Policy) { p.Settings.Policy, p.Settings.SpillThreshold = route.PolicyHash, noSpill },
	"round_robin": func(p *Policy) { p.Settings.Policy = route.PolicyRoundRobin },
	"random":      func(p *Policy) { p.Settings.Policy = route.PolicyRandom },
	"working_set": func(p *Policy) { p.Settings.Admission = route.AdmissionWorkingSet },
}

// PolicyNames returns the names that [FindPolicy] knows, sorted.
func PolicyNames() []string {
	names := make([]string, 0, len(policies))
	for n := range policies {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// FindPolicy returns a policy by its name:
//
//	blind        each turn to any replica
//	off          no affinity, fewest requests in flight
//	seed         least-loaded placement, spill at the threshold
//	priced       the same, but leaving home is weighed against reading anew
//	hash         home by a hash of the conversation, blind to load, never left
//	round_robin  homes in turn
//	random       homes by chance
//	working_set  seed, and only as many conversations as the caches hold
func FindPolicy(name string) (Policy, error) {
	change, ok := policies[name]
	if !ok {
		return Policy{}, fmt.Errorf("there is no policy %q; choose one of %s", name, strings.Join(PolicyNames(), ", "))
	}
	p := Policy{Settings: route.DefaultSettings()}
	change(&p)
	return p, nil
}

// box is what a valid configuration stands for.
type box struct {
	engine   engine.Config
	capacity int
}

// build checks the configuration and sizes the engines.
func (c Config) build() (box, error) {
	preset, err := engine.FindPreset(c.Preset)
	if err != nil {
		return box{}, err
	}
	var errs []error
	atLeast := func(what string, value, least int) {
		if value < least {
			errs = append(errs, fmt.Errorf("%s is %d; it must be at least %d", what, value, least))
		}
	}
	l := c.Load
	atLeast("the number of replicas", c.Replicas, 1)
	atLeast("the number of sessions", l.Sessions, 1)
	atLeast("the number of turns", l.Turns, 1)
	atLeast("the shared prompt", l.SharedTokens, 0)
	atLeast("the first message", l.FirstMin, 1)
	atLeast("the longest first message", l.FirstMax, l.FirstMin)
	atLeast("the tokens of a turn", l.TurnTokens, 1)
	atLeast("the output tokens", l.OutputTokens, 1)
	atLeast("the block size", c.BlockSize, 1)
	if c.Length <= 0 || c.Warmup < 0 || l.Gap < 0 || l.Network < 0 || l.Stagger < 0 {
		errs = append(errs, errors.New("the length must be above 0, and no other time below 0"))
	}
	if err := errors.Join(errs...); err != nil {
		return box{}, err
	}
	capacity := c.CapacityTokens
	if capacity == 0 {
		capacity = preset.Capacity(0.92, 1, 1)
	}
	longest := l.SharedTokens + l.FirstMax + (l.Turns-1)*l.TurnTokens + l.Turns*l.OutputTokens
	blocks := capacity / c.BlockSize
	if longest > (blocks-1)*c.BlockSize {
		return box{}, fmt.Errorf("a conversation grows to %d tokens, but a replica holds %d; make the load smaller or the capacity larger", longest, capacity)
	}
	return box{
		capacity: capacity,
		engine: engine.Config{
			BlockSize: c.BlockSize, NumBlocks: blocks, MaxNumSeqs: c.MaxNumSeqs,
			MaxBatchedTokens: c.MaxBatchedTokens, MaxModelLen: longest, Cost: preset.Cost(1, 1),
		},
	}, nil
}
