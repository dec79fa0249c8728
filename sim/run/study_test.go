package run

import (
	"flag"
	"fmt"
	"math"
	"testing"
	"time"
)

// studyTable has TestStudy play all its rows and print them: make study-table.
var studyTable = flag.Bool("study.table", false, "play and print the whole table of docs/simulating.md against the earlier study")

// What a row may differ by from the study.
const (
	studyOutput = 10.0 // percent
	studyHits   = 3.0  // percentage points
)

// studyRow is one row of the study. Hits and times are 0 where it gives none.
type studyRow struct {
	load     string
	sessions int // 0 for the load's own
	policy   string
	stagger  time.Duration
	runs     int // seeds of the whole table, when not 3

	output, hits   float64
	p50, p95, mean float64 // time to first byte, seconds

	quick bool // is played by every test run
	apart bool // is known to differ: the row after it says by what
	more  bool // may have more hits: our rule leaves more room for growth than the study's
}

func studyRows() []studyRow {
	const begun = 45 * time.Second
	return []studyRow{
		{load: "seed", sessions: 8, policy: "seed", output: 11_691, hits: 86.9, p50: 0.43, p95: 4.8, mean: 1.00},
		{load: "seed", sessions: 8, policy: "seed-recent", stagger: begun, output: 11_691, hits: 86.9, p50: 0.43, p95: 4.8, mean: 1.00},
		{load: "seed", sessions: 8, policy: "working-set", output: 11_689, hits: 86.9, p50: 0.43, p95: 4.8, mean: 1.00},
		{load: "seed", sessions: 16, policy: "seed", output: 16_674, hits: 84.9, p50: 0.69, p95: 5.7, mean: 1.72},
		{load: "seed", sessions: 16, policy: "seed-recent", stagger: begun, output: 16_674, hits: 84.9, p50: 0.69, p95: 5.7, mean: 1.72},
		{load: "seed", sessions: 16, policy: "working-set", output: 16_995, hits: 85.7, p50: 0.47, p95: 5.4, mean: 1.30},
		{load: "seed", sessions: 24, policy: "blind", output: 9_775, hits: 33.5, p50: 13.7, p95: 51.4, mean: 18.7, quick: true},
		{load: "seed", sessions: 24, policy: "hash", runs: 12, output: 9_941, hits: 59.5, p50: 6.7, p95: 77.7, mean: 21.7, quick: true},
		{load: "seed", sessions: 24, policy: "cache-tree", output: 10_931, hits: 33.5, p50: 13.0, p95: 22.4, mean: 12.8, quick: true},
		{load: "seed", sessions: 24, policy: "seed", output: 11_246, hits: 37.6, p50: 12.7, p95: 23.3, mean: 12.5, apart: true},
		{load: "seed", sessions: 24, policy: "seed-recent", stagger: begun, runs: 12, output: 11_246, hits: 37.6, p50: 12.7, p95: 23.3, mean: 12.5, quick: true},
		{load: "seed", sessions: 24, policy: "working-set", output: 17_022, hits: 84.9, p50: 0.79, p95: 54.1, mean: 8.5, more: true},
		{load: "seed", sessions: 32, policy: "seed", output: 10_496, hits: 27.9, p50: 27.2, p95: 36.3, mean: 25.6},
		{load: "seed", sessions: 32, policy: "seed-recent", stagger: begun, output: 10_496, hits: 27.9, p50: 27.2, p95: 36.3, mean: 25.6},
		{load: "seed", sessions: 32, policy: "working-set", output: 16_885, hits: 83.3, p50: 0.69, p95: 94.3, mean: 15.6, more: true},
		{load: "death", policy: "seed", output: 12_132, hits: 69.6, p50: 2.96, p95: 18.0, mean: 4.8},
		{load: "death", policy: "working-set", output: 14_413, hits: 85.4, p50: 0.55, p95: 23.7, mean: 3.9},
		{load: "think-exp-5", policy: "seed", output: 10_670},
		{load: "think-exp-5", policy: "working-set", output: 13_186},
		{load: "think-mix", policy: "seed", output: 10_513},
		{load: "think-mix", policy: "working-set", output: 13_427},
		{load: "farm-27b", policy: "seed", output: 3_892, hits: 45.9, p50: 78.9, p95: 173.9, mean: 79.4, apart: true},
		{load: "farm-27b", policy: "seed-recent", output: 3_892, hits: 45.9, p50: 78.9, p95: 173.9, mean: 79.4, apart: true},
		{load: "farm-27b", policy: "working-set", output: 9_623, hits: 86.8, p50: 1.07, p95: 197.8, mean: 27.9},
		// Another load than the study's: only the hits are to be compared.
		{load: "farm-27b-unequal", policy: "seed", apart: true, hits: 45.9},
		{load: "farm-27b-unequal", policy: "seed-recent", hits: 45.9},
		{load: "farm-27b-unequal", policy: "working-set", hits: 86.8},
	}
}

// seeds of the row: three in every test run.
func (r studyRow) seeds() int {
	if *studyTable {
		return max(3, r.runs)
	}
	return 3
}

// command is what follows lmwarden simulate in the command of the row.
func (r studyRow) command() string {
	c := "--policy " + r.policy
	if r.load != "seed" {
		c += " --load " + r.load
	}
	if r.sessions > 0 {
		c += fmt.Sprint(" --sessions ", r.sessions)
	}
	if r.stagger > 0 {
		c += fmt.Sprint(" --stagger ", r.stagger)
	}
	return c + fmt.Sprint(" --runs ", r.seeds())
}

// play plays the row with all its seeds.
func (r studyRow) play(t *testing.T) []Result {
	t.Helper()
	s, err := FindScenario(r.load)
	if err != nil {
		t.Fatal(err)
	}
	s.Load.Stagger = r.stagger
	if r.sessions > 0 {
		s.Load.Sessions = r.sessions
	}
	cfg := s.Config(policy(t, r.policy))
	results := make([]Result, r.seeds())
	for i := range results {
		cfg.Seed = uint64(i + 1)
		results[i] = mustRun(t, cfg)
	}
	return results
}

// markdown is the row with what was played.
func (r studyRow) markdown(played []Result) string {
	figures := func(output, hits, p50, p95, mean float64) string {
		text := "-"
		if output > 0 {
			text = fmt.Sprintf("%.0f", output)
		}
		if hits > 0 {
			text += fmt.Sprintf(", %.1f %%", hits)
		}
		if p50 > 0 {
			text += fmt.Sprintf(", %.2f / %.1f / %.2f", p50, p95, mean)
		}
		return text
	}
	ttfb := func(f func(Quantiles) float64) float64 {
		return meanOf(played, func(x Result) float64 { return f(x.TTFB) })
	}
	difference := func(format string, known bool, by float64) string {
		if !known {
			return ""
		}
		return fmt.Sprintf(format, by)
	}
	out, hit := meanOf(played, output), meanOf(played, hits)
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |", r.command(), figures(r.output, r.hits, r.p50, r.p95, r.mean),
		figures(out, hit, ttfb(func(q Quantiles) float64 { return q.P50 }), ttfb(func(q Quantiles) float64 { return q.P95 }), ttfb(func(q Quantiles) float64 { return q.Mean })),
		difference("%+.1f %%", r.output > 0, 100*(out/max(1, r.output)-1)), difference("%+.1f", r.hits > 0, hit-r.hits))
}

// TestStudy holds the simulation to an earlier study of the same box by separately written
// code: the output within 10 %, the hits within 3 points. A row that is known to differ is
// followed by one that does not, or may differ upwards.
func TestStudy(t *testing.T) {
	if *studyTable {
		fmt.Println("| `lmwarden simulate` | study: output, hits, TTFB p50 / p95 / mean | ours | output | hits |")
		fmt.Println("|---|---|---|---|---|")
	}
	for _, r := range studyRows() {
		if !r.quick && !*studyTable {
			continue
		}
		played := r.play(t)
		if *studyTable {
			fmt.Println(r.markdown(played))
		}
		if r.apart {
			continue
		}
		if got := meanOf(played, output); r.output > 0 && math.Abs(100*(got/r.output-1)) > studyOutput {
			t.Errorf("%s: %.0f output tokens a minute, the study has %.0f", r.command(), got, r.output)
		}
		if got := meanOf(played, hits); r.hits > 0 && (got < r.hits-studyHits || got > r.hits+studyHits && !r.more) {
			t.Errorf("%s: %.1f %% of the prompt from the cache, the study has %.1f %%", r.command(), got, r.hits)
		}
	}
}
