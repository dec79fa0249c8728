package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lmwarden/lmwarden/bench/report"
)

// overload is the number of sessions from which the load does not fit any more, and
// wantedGain what admission should then give over the seed's rule.
const (
	overload   = 24
	wantedGain = 1.4
)

// verdict says for each number of sessions how our default compares with the seed's rule
// and with the best peer.
func (s *series) verdict() string {
	rows := report.Summarize(s.ledger.All())
	var b strings.Builder
	for _, sessions := range s.Steps {
		find := func(name string) *report.Row {
			i := slices.IndexFunc(rows, func(r report.Row) bool { return r.Arm == name && r.Sessions == sessions })
			if i < 0 {
				return nil
			}
			return &rows[i]
		}
		ours, seed := find(ownBest), find(ownSeed)
		if ours == nil {
			continue
		}
		var peer *report.Row
		for _, a := range s.arms {
			if r := find(a.name); r != nil && a.policy == "" && (peer == nil || output(r) > output(peer)) {
				peer = r
			}
		}
		var said []string
		if seed != nil && output(seed) > 0 {
			text := fmt.Sprintf("%.2f times that of %s (%s)", output(ours)/output(seed), ownSeed, tokens(seed))
			if sessions >= overload {
				text += fmt.Sprintf(", wanted are %.1f times: %s", wantedGain, met(output(ours) >= wantedGain*output(seed)))
			}
			said = append(said, text)
		}
		if peer != nil && output(peer) > 0 {
			said = append(said, fmt.Sprintf("%.2f times that of the best peer, %s (%s)", output(ours)/output(peer), peer.Arm, tokens(peer)))
		}
		if len(said) > 0 {
			fmt.Fprintf(&b, "\n**At %d sessions** the output of %s (%s) is %s.\n", sessions, ownBest, tokens(ours), strings.Join(said, "; "))
		}
	}
	return b.String()
}

func output(r *report.Row) float64 { return *r.OutputTokensPerMinute }

// tokens prints a row's output with half the width of its interval.
func tokens(r *report.Row) string {
	text := report.Number(output(r), 0)
	if r.HalfWidth != nil {
		text += " ± " + report.Number(*r.HalfWidth.OutputTokensPerMinute, 0)
	}
	return text + " tokens/min, " + rounds(r.Runs)
}

func met(yes bool) string {
	if yes {
		return "met"
	}
	return "not met"
}
