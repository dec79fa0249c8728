package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lmwarden/lmwarden/bench/report"
	simrun "github.com/lmwarden/lmwarden/sim/run"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

// agreement is how far real and virtual time may lie apart, in percent of the output.
const agreement = 10

// played is what virtual time says of a row, as means over its rounds, in the terms of
// the card.
type played struct {
	output, hits, p50, mean float64
}

// play plays a row in virtual time: the same conversations, from empty caches, over the
// same time of the card, without a network.
func (s *series) play(ctx context.Context, policy string, sessions, rounds int) (played, error) {
	var sum played
	for round := range rounds {
		p, err := simrun.FindPolicy(policy)
		if err != nil {
			return sum, err
		}
		c := simrun.DefaultConfig(p, sessions)
		c.Preset, c.Replicas, c.Network, c.Seed = s.Preset, s.Replicas, 0, s.Seed+uint64(round)
		c.Load.Think = load.Seed().Think
		c.Warmup, c.Length = 0, time.Duration(float64(s.Duration)*s.Speed)
		r, err := simrun.Run(ctx, c)
		if err != nil {
			return sum, err
		}
		n := float64(rounds)
		sum.output += r.AnsweredTokensPerMinute / n
		sum.hits += r.HitPercent / n
		sum.p50 += r.TTFB.P50 / n
		sum.mean += r.TTFB.Mean / n
	}
	return sum, nil
}

// beside prints our own rows as they were measured and as virtual time has them. Rates and
// times are those of the card.
func (s *series) beside(ctx context.Context) (string, error) {
	policies := make(map[string]string)
	for _, a := range s.arms {
		if a.policy != "" {
			policies[a.name] = a.policy
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nReal time beside virtual time (the same routing code and model of the engine in one process, `lmwarden simulate`), in the terms of the card: rates divided by the speed of %g, times multiplied by it.\n\n", s.Speed)
	writeRow(&b, []string{"arm", "sessions", "output tok/min, real", "virtual", "apart", "hits %, real", "virtual", "TTFB p50 s, real", "virtual", "TTFB mean s, real", "virtual"})
	writeRow(&b, []string{"---", "---", "---", "---", "---", "---", "---", "---", "---", "---", "---"})
	furthest := 0.0
	for _, row := range report.Summarize(s.ledger.All()) {
		policy, own := policies[row.Arm]
		if !own || row.HitPercent == nil || row.TTFBP50Seconds == nil {
			continue
		}
		v, err := s.play(ctx, policy, row.Sessions, row.Runs)
		if err != nil {
			return b.String(), fmt.Errorf("%s at %d sessions in virtual time: %w", row.Arm, row.Sessions, err)
		}
		real := *row.OutputTokensPerMinute / s.Speed
		apart := 100 * (real/v.output - 1)
		furthest = max(furthest, math.Abs(apart))
		writeRow(&b, []string{
			row.Arm, fmt.Sprint(row.Sessions), report.Number(real, 0), report.Number(v.output, 0), fmt.Sprintf("%+.1f %%", apart),
			report.Number(*row.HitPercent, 1), report.Number(v.hits, 1),
			report.Number(*row.TTFBP50Seconds*s.Speed, 2), report.Number(v.p50, 2),
			report.Number(*row.TTFBMeanSeconds*s.Speed, 2), report.Number(v.mean, 2),
		})
	}
	fmt.Fprintf(&b, "\n**Real and virtual time** lie at most %.1f %% of the output apart, wanted are %d %%: %s.\n", furthest, agreement, met(furthest <= agreement))
	return b.String(), nil
}
