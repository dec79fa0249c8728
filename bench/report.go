package bench

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// column is one figure of a step, under the name that people know it by.
type column struct {
	name  string
	value func(Step) string
}

// columns of every report, in order.
var columns = []column{
	{"arm", func(s Step) string { return s.Arm }},
	{"round", func(s Step) string { return strconv.Itoa(s.Round) }},
	{"sessions", func(s Step) string { return strconv.Itoa(s.Sessions) }},
	{"sessions/h", func(s Step) string { return figure(&s.SessionsPerHour, 0) }},
	{"output tok/min", func(s Step) string { return figure(&s.OutputTokensPerMinute, 0) }},
	{"TTFB p50 s", func(s Step) string { return figure(s.TTFB.P50, 2) }},
	{"p95 s", func(s Step) string { return figure(s.TTFB.P95, 2) }},
	{"mean s", func(s Step) string { return figure(s.TTFB.Mean, 2) }},
	{"first turns p50 s", func(s Step) string { return figure(s.TTFBFirst.P50, 2) }},
	{"later turns p50 s", func(s Step) string { return figure(s.TTFBLater.P50, 2) }},
	{"later p95 s", func(s Step) string { return figure(s.TTFBLater.P95, 2) }},
	{"session p50 s", func(s Step) string { return figure(s.SessionTime.P50, 1) }},
	{"busy", func(s Step) string { return figure(s.ReplicasBusy, 2) }},
	{"hits %", func(s Step) string { return figure(s.HitPercent, 1) }},
	{"stayed %", func(s Step) string { return figure(s.StayedPercent, 1) }},
	{"slowest slot %", func(s Step) string { return figure(s.FairnessPercent, 0) }},
	{"requests", func(s Step) string { return strconv.Itoa(s.Requests) }},
	{"errors", func(s Step) string { return strconv.Itoa(s.Errors) }},
}

// Headings returns the names of a report's columns.
func Headings() []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return names
}

// Row returns a step's figures under [Headings]; an absent figure is empty.
func Row(s Step) []string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.value(s)
	}
	return cells
}

// WriteCSV writes the steps as comma-separated values under [Headings].
func WriteCSV(w io.Writer, steps []Step) error {
	out := csv.NewWriter(w)
	if err := out.Write(Headings()); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	for _, s := range steps {
		if err := out.Write(Row(s)); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// figure prints an optional number with so many decimals, or nothing.
func figure(v *float64, decimals int) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', decimals, 64)
}
