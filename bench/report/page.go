package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
)

// Setting is one of the exact settings of a series, as a person reads it.
type Setting struct {
	Name, Value string
}

// Page is what is shown around the figures.
type Page struct {
	// Title says what was measured: "Simulated box".
	Title string
	// About says in a sentence how, and what the figures are not.
	About string
	// Replicas of the box; 0 when not known.
	Replicas int
	// Settings, exactly.
	Settings []Setting
	// Version of the program.
	Version string
	// Interrupted says that steps are missing.
	Interrupted bool
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// view is what the page's template reads.
type view struct {
	Page
	Verdict  []string
	Arms     []key
	Figures  []figure
	Headings []string
	Table    [][]string
	RunHeads []string
	Runs     [][]string
	Repeated bool
}

// key is an entry of the legend.
type key struct {
	Name, Class string
	Mark        template.HTML
}

// figure is a chart with its words.
type figure struct {
	Title, About string
	Dashes       bool
	Chart        template.HTML
}

// WriteHTML writes a series as one page that needs nothing else: no script, no font,
// no network.
func WriteHTML(w io.Writer, p Page, rows []Row) error {
	v := view{Page: p, Verdict: verdict(rows), Headings: Headings(true), RunHeads: append([]string{"arm", "sessions", "run", "seed"}, Headings(true)[2:]...)}
	names, sessions := axes(rows)
	for i, name := range names {
		v.Arms = append(v.Arms, key{Name: name, Class: "arm" + strconv.Itoa(i%arms), Mark: template.HTML(mark(i, false))}) //nolint:gosec // a constant of ours
	}
	v.Figures = figures(p, rows, names, sessions)
	for _, r := range rows {
		v.Table = append(v.Table, Cells(r, true))
		v.Repeated = v.Repeated || r.Runs > 1
		for _, run := range r.PerRun {
			line := []string{run.Arm, strconv.Itoa(run.Sessions), strconv.Itoa(run.Round), strconv.FormatUint(run.Seed, 10)}
			for _, c := range columns {
				line = append(line, cell(Row{Figures: run.Figures}, c, false))
			}
			v.Runs = append(v.Runs, line)
		}
	}
	if err := pageTemplate.Execute(w, v); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// axes returns the arms in the order in which they come and the numbers of sessions in
// order.
func axes(rows []Row) (names []string, sessions []int) {
	for _, r := range rows {
		if !slices.Contains(names, r.Arm) {
			names = append(names, r.Arm)
		}
		if !slices.Contains(sessions, r.Sessions) {
			sessions = append(sessions, r.Sessions)
		}
	}
	slices.Sort(sessions)
	return names, sessions
}

// figures draws the charts. One of a figure that nobody reported is left out.
func figures(p Page, rows []Row, names []string, sessions []int) []figure {
	trace := func(c chart, title, about string, dashes bool, keys ...string) figure {
		c.label, c.sessions, c.arms = title, sessions, len(names)
		for i, k := range keys {
			for arm, name := range names {
				c.lines = append(c.lines, lineOf(rows, arm, name, sessions, column(k), i > 0))
			}
		}
		return figure{Title: title, About: about, Dashes: dashes, Chart: c.svg()}
	}
	busy := "Replicas with requests running, averaged over the step. It is not the use of the cards."
	if p.Replicas > 0 {
		busy = fmt.Sprintf("Of %d: replicas with requests running, averaged over the step. It is not the use of the cards.", p.Replicas)
	}
	all := []figure{
		trace(chart{unit: "s", decimals: 2, log: true}, "Time to first byte", "Median and p95 on a logarithmic scale, to the first streamed token. A p95 of short conversations is a first turn, which is cold wherever it goes.", true, "ttfbP50Seconds", "ttfbP95Seconds"),
		trace(chart{unit: "tokens a minute"}, "Output tokens a minute", "What the whole box wrote.", false, "outputTokensPerMinute"),
		trace(chart{unit: "%", decimals: 1, top: 100}, "Prefix-cache hits", "Prompt tokens from a cache, in percent of those asked for, all replicas together.", false, "hitPercent"),
		trace(chart{unit: "replicas", decimals: 2, top: float64(p.Replicas)}, "Replicas busy", busy, false, "replicasBusy"),
	}
	for _, n := range sessions {
		title := distributionTitle(n)
		all = append(all, figure{
			Title: title, About: "Share of all turns that had their first byte within a time; the marks are the medians.",
			Chart: drawCurves(title, curvesAt(rows, names, n)),
		})
	}
	return slices.DeleteFunc(all, func(f figure) bool { return f.Chart == "" })
}

// lineOf collects the points of an arm.
func lineOf(rows []Row, arm int, name string, sessions []int, c Column, second bool) line {
	l := line{arm: arm, dashed: second, name: name + ", " + c.Heading}
	for i, n := range sessions {
		for _, r := range rows {
			if r.Arm != name || r.Sessions != n || c.Value(&r.Figures) == nil {
				continue
			}
			p := point{x: i, value: *c.Value(&r.Figures)}
			if r.HalfWidth != nil && c.Value(r.HalfWidth) != nil {
				p.half = *c.Value(r.HalfWidth)
			}
			l.points = append(l.points, p)
		}
	}
	return l
}

// verdict says in a sentence for each number of sessions what the case is: how the arm
// with the most output compares with the first one. Where intervals overlap it says so.
func verdict(rows []Row) []string {
	var said []string
	_, sessions := axes(rows)
	for _, n := range sessions {
		var first, best *Row
		for i := range rows {
			r := &rows[i]
			if r.Sessions != n || r.OutputTokensPerMinute == nil {
				continue
			}
			if first == nil {
				first = r
			}
			if best == nil || *r.OutputTokensPerMinute > *best.OutputTokensPerMinute {
				best = r
			}
		}
		if best != nil {
			said = append(said, compare(*first, *best))
		}
	}
	return said
}

func compare(first, best Row) string {
	what := func(r Row) string {
		s := Number(*r.OutputTokensPerMinute, 0) + " output tokens a minute"
		if r.HitPercent != nil {
			s += ", " + Number(*r.HitPercent, 0) + " % of the prompts from cache"
		}
		if r.TTFBP50Seconds != nil {
			s += ", " + Number(*r.TTFBP50Seconds, 2) + " s to the first byte at the median"
		}
		return s
	}
	at := strconv.Itoa(best.Sessions) + " sessions: "
	if best.Sessions == 1 {
		at = "1 session: "
	}
	if first.Arm == best.Arm {
		return at + first.Arm + " gives " + what(first) + "."
	}
	gain := *best.OutputTokensPerMinute - *first.OutputTokensPerMinute
	if gain <= width(first)+width(best) {
		return at + first.Arm + " gives " + what(first) + "; no arm is ahead by more than the noise."
	}
	if *first.OutputTokensPerMinute <= 0 {
		return at + best.Arm + " gives " + what(best) + "; " + first.Arm + " gives nothing."
	}
	return fmt.Sprintf("%s%s gives %s: %s %% more output than %s.", at, best.Arm, what(best), Number(100*gain / *first.OutputTokensPerMinute, 0), first.Arm)
}

// width is half the interval of a row's throughput, 0 when it was measured once.
func width(r Row) float64 {
	if r.HalfWidth == nil || r.HalfWidth.OutputTokensPerMinute == nil {
		return 0
	}
	return *r.HalfWidth.OutputTokensPerMinute
}
