package run

import (
	"testing"
	"time"
)

// meanOutput is the throughput of a policy over some seeds.
func meanOutput(t *testing.T, cfg Config, name string, seeds int) float64 {
	t.Helper()
	sum := 0.0
	for seed := range seeds {
		cfg.Policy, cfg.Seed = policy(t, name), uint64(seed)+1
		sum += mustRun(t, cfg).OutputTokensPerMinute
	}
	return sum / float64(seeds)
}

// TestAdmissionCostsNothing compares working-set admission with the rule without it
// where there is nothing to gain: below the caches' capacity, and with pauses for which
// keeping a place does not pay. It may cost some noise there, and no more.
func TestAdmissionCostsNothing(t *testing.T) {
	below := DefaultConfig(Policy{}, 8)
	staggered := below
	staggered.Load.Stagger = 90 * time.Second
	for name, c := range map[string]struct {
		cfg   Config
		least float64
	}{
		"8 sessions at once":        {below, 0.998},
		"8 sessions over 90 s":      {staggered, 0.98},
		"long pauses":               {scenario(t, "think-exp-30"), 0.98},
		"pauses at the break-even":  {scenario(t, "think-uniform"), 0.96},
		"pauses that are worth it":  {scenario(t, "think-exp-5"), 1.2},
		"mostly short pauses":       {scenario(t, "think-mix"), 1.2},
		"contexts of unequal sizes": {scenario(t, "unequal"), 1.3},
	} {
		seed, working := meanOutput(t, c.cfg, "seed", 2), meanOutput(t, c.cfg, "working-set", 2)
		if working < c.least*seed {
			t.Errorf("%s: %.0f tokens a minute with admission, %.0f without; want at least %.3f of that", name, working, seed, c.least)
		}
	}
}

func scenario(t *testing.T, name string) Config {
	t.Helper()
	s, err := FindScenario(name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Config(Policy{})
}
