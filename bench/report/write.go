package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// Document is what a series says, as JSON. With one row only its figures are fields of
// the document itself; with several they are in Results.
type Document struct {
	*Row
	// Results holds the rows, unless there is only one.
	Results []Row `json:"results,omitempty"`
	// Version of the program, and the exact settings of the series.
	Version  string `json:"version"`
	Settings any    `json:"settings"`
	// Interrupted says that steps are missing.
	Interrupted bool `json:"interrupted,omitempty"`
	// Stopped holds runs that were stopped before their end; they count in no row.
	Stopped []Run `json:"stopped,omitempty"`
}

// WriteJSON writes a series as one JSON object, indented: the rows, and of the runs those
// that count in none of them.
func WriteJSON(w io.Writer, runs []Run, version string, settings any, interrupted bool) error {
	d := Document{Version: version, Settings: settings, Interrupted: interrupted}
	for _, r := range runs {
		if r.Partial {
			d.Stopped = append(d.Stopped, r)
		}
	}
	rows := Summarize(runs)
	if len(rows) == 1 {
		d.Row = &rows[0]
	} else {
		d.Results = rows
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	if err := out.Encode(d); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// WriteCSV writes one line for each run, under the keys of [Columns]. An absent figure
// is empty.
func WriteCSV(w io.Writer, rows []Row) error {
	out := csv.NewWriter(w)
	head := []string{"arm", "sessions", "round", "seed", "seconds"}
	for _, c := range columns {
		head = append(head, c.Key)
	}
	lines := [][]string{head}
	for _, row := range rows {
		for _, r := range row.PerRun {
			line := []string{r.Arm, strconv.Itoa(r.Sessions), strconv.Itoa(r.Round), strconv.FormatUint(r.Seed, 10), plain(&r.Seconds)}
			for _, c := range columns {
				line = append(line, plain(c.Value(&r.Figures)))
			}
			lines = append(lines, line)
		}
	}
	if err := out.WriteAll(lines); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// plain prints a figure for machines, or nothing.
func plain(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

// Tables are the columns of the tables that a terminal shows below each other: the figures
// of the routing first, then the times in full and how evenly they fell.
var Tables = [2][]string{
	{"sessionsPerHour", "outputTokensPerMinute", "ttfbP50Seconds", "ttfbP95Seconds", "replicasBusy", "hitPercent", "stayedPercent"},
	{
		"ttfbMeanSeconds", "ttfbP99Seconds", "firstTurnP50Seconds", "firstTurnP95Seconds", "laterTurnP50Seconds", "laterTurnP95Seconds",
		"sessionP50Seconds", "sessionP95Seconds", "slowestSlotSeconds", "fairnessPercent", "longestWaitSeconds",
	},
}

// Table returns headings and cells of the columns with these keys, means of several runs
// with half the width of their interval.
func Table(rows []Row, keys []string) (headings []string, cells [][]string) {
	headings = []string{"arm", "sessions"}
	for _, key := range keys {
		headings = append(headings, column(key).Heading)
	}
	for _, r := range rows {
		line := []string{r.Arm, strconv.Itoa(r.Sessions)}
		for _, key := range keys {
			line = append(line, cell(r, column(key), true))
		}
		cells = append(cells, line)
	}
	return headings, cells
}

// Headings returns the headings of the short table or, with all, of the whole one.
func Headings(all bool) []string {
	names := []string{"arm", "sessions"}
	for _, c := range columns {
		if all || c.Main {
			names = append(names, c.Heading)
		}
	}
	return names
}

// Cells returns a row under [Headings]; an absent figure is empty. With all, means of
// several runs carry half the width of their interval.
func Cells(r Row, all bool) []string {
	cells := []string{r.Arm, strconv.Itoa(r.Sessions)}
	for _, c := range columns {
		if all || c.Main {
			cells = append(cells, cell(r, c, all))
		}
	}
	return cells
}

// cell prints one figure of a row for people.
func cell(r Row, c Column, width bool) string {
	v := c.Value(&r.Figures)
	if v == nil {
		return ""
	}
	text := Number(*v, c.Decimals)
	if width && r.HalfWidth != nil {
		if half := c.Value(r.HalfWidth); half != nil {
			text += " ± " + Number(*half, c.Decimals)
		}
	}
	return text
}
