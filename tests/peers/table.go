package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lmwarden/lmwarden/bench/report"
)

// table is what the series says, as Markdown: the settings, the figures, the programs.
func (s *series) table(interrupted bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d simulated engines (`%s`, %g times faster than the card), each started as `%s`. ",
		s.Replicas, s.Preset, s.Speed, s.plain(s.box, s.engines.command("127.0.0.1:PORT")))
	fmt.Fprintf(&b, "Load `%s` over the chat API, pauses %s, %s a step, %s, seed %d. ", s.Load.Name, s.Load.Think.String(), s.Duration, rounds(s.Rounds), s.Seed)
	b.WriteString("Engines and routers were started anew for each row, and the order of the rows turned around from step to step. ")
	b.WriteString("Times and rates are those of the clock; with several rounds they are means with half the width of their 95 % interval.\n\n")
	heads := append(report.Headings(false), "errors")
	writeRow(&b, heads)
	writeRow(&b, slices.Repeat([]string{"---"}, len(heads)))
	for _, row := range report.Summarize(s.ledger.All()) {
		writeRow(&b, cells(row))
	}
	if interrupted {
		b.WriteString("\nThe series was interrupted: rows are missing.\n")
	}
	for _, text := range s.problems {
		fmt.Fprintf(&b, "\nNot measured: %s.\n", strings.TrimSuffix(text, "."))
	}
	for _, row := range report.Summarize(s.ledger.All()) {
		for _, run := range row.PerRun {
			if run.Problem != "" {
				fmt.Fprintf(&b, "\n%s, %d sessions, round %d, first error: %s.\n", run.Arm, run.Sessions, run.Round, strings.TrimSuffix(strings.TrimSpace(run.Problem), "."))
			}
		}
	}
	b.WriteString("\n")
	writeRow(&b, []string{"arm", "version", "command"})
	writeRow(&b, slices.Repeat([]string{"---"}, 3))
	for _, a := range s.arms {
		if command := s.commands[a.name]; command != "" {
			writeRow(&b, []string{a.name, s.versions[a.name], "`" + command + "`"})
		}
	}
	return b.String()
}

// cells are those of the bench's short table, with the errors.
func cells(row report.Row) []string {
	all := report.Cells(row, true)
	heads := report.Headings(true)
	var out []string
	for _, head := range append(report.Headings(false), "errors") {
		out = append(out, all[slices.Index(heads, head)])
	}
	return out
}

func rounds(n int) string {
	if n == 1 {
		return "1 round"
	}
	return fmt.Sprintf("%d rounds", n)
}

// writeRow writes one row of a Markdown table.
func writeRow(b *strings.Builder, cells []string) {
	b.WriteString("|")
	for _, cell := range cells {
		b.WriteString(" " + strings.ReplaceAll(cell, "|", "\\|") + " |")
	}
	b.WriteString("\n")
}
