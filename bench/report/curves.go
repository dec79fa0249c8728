package report

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// curve is the cumulative distribution of one arm's times.
type curve struct {
	arm    int
	name   string
	shares []float64 // by bucket of a histogram, 0 to 1
	count  int       // of the times
}

// curvesAt collects the curves of all arms at one number of sessions, over all runs.
func curvesAt(rows []Row, names []string, sessions int) (out []curve) {
	for arm, name := range names {
		var all Histogram
		for _, r := range rows {
			if r.Arm != name || r.Sessions != sessions {
				continue
			}
			for _, run := range r.PerRun {
				all = all.add(run.TTFBHistogram)
			}
		}
		if n := all.Count(); n >= leastHistograms {
			out = append(out, curve{arm, name, all.shares(), n})
		}
	}
	return out
}

// drawCurves draws the share of turns that had their first byte within a time, over that
// time on a logarithmic scale. A mark stands at each median.
func drawCurves(label string, curves []curve) template.HTML {
	if len(curves) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, chartWidth, chartHeight, html.EscapeString(label))
	writeCurves(&b, curves)
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // built here, foreign words escaped
}

func writeCurves(b *strings.Builder, curves []curve) {
	low, high := math.Inf(1), 0.0
	for _, c := range curves {
		first := slices.IndexFunc(c.shares, func(share float64) bool { return share > 0 })
		low, high = min(low, BucketSeconds(first-1)), max(high, BucketSeconds(len(c.shares)-1))
	}
	across := logScale(low, high)
	x := func(seconds float64) float64 {
		part := math.Log(max(seconds, across.low)/across.low) / math.Log(across.high/across.low)
		return chartLeft + (chartWidth-chartLeft-chartRight)*min(1, part)
	}
	up := scale{high: 100, ticks: []float64{0, 25, 50, 75, 100}}
	for _, t := range up.ticks {
		fmt.Fprintf(b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text x="%g" y="%.1f" text-anchor="end">%g %%</text>`,
			chartLeft, chartWidth-chartRight, up.y(t), up.y(t), chartLeft-8, up.y(t)+4, t)
	}
	for _, t := range across.ticks {
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text x="%.1f" y="%g" text-anchor="middle">%s</text>`,
			x(t), x(t), chartTop, chartHeight-chartBottom, x(t), chartHeight-chartBottom+18, tick(t))
	}
	fmt.Fprintf(b, `<text x="%g" y="%g" text-anchor="middle">seconds to the first byte, all turns</text>`, (chartLeft+chartWidth-chartRight)/2, chartHeight-8)
	for _, c := range curves {
		c.write(b, x, up)
	}
}

// write draws one curve.
func (c curve) write(b *strings.Builder, x func(float64) float64, up scale) {
	fmt.Fprintf(b, `<g class="arm%d">`, c.arm%arms)
	var at []string
	median := 0.0
	for i, share := range c.shares {
		if share == 0 {
			continue
		}
		if len(at) == 0 {
			at = append(at, fmt.Sprintf("%.1f,%.1f", x(BucketSeconds(i-1)), up.y(0)))
		}
		at = append(at, fmt.Sprintf("%.1f,%.1f", x(BucketSeconds(i)), up.y(100*share)))
		if median == 0 && share >= 0.5 {
			median = c.at(i)
		}
	}
	at = append(at, fmt.Sprintf("%g,%.1f", chartWidth-chartRight, up.y(100)))
	fmt.Fprintf(b, `<polyline points="%s"/>`, strings.Join(at, " "))
	text := fmt.Sprintf("%s: half of %s turns within %s s", c.name, Number(float64(c.count), 0), strconv.FormatFloat(median, 'g', 3, 64))
	fmt.Fprintf(b, `<g transform="translate(%.1f %.1f)">%s<title>%s</title></g></g>`, x(median), up.y(50), mark(c.arm, false), html.EscapeString(text))
}

// at reads the median off within bucket i, evenly over the logarithm as it is drawn.
func (c curve) at(i int) float64 {
	before := 0.0
	if i > 0 {
		before = c.shares[i-1]
	}
	part := (0.5 - before) / (c.shares[i] - before)
	return BucketSeconds(i-1) * math.Pow(BucketSeconds(i)/BucketSeconds(i-1), part)
}

// Style of a picture that stands alone: the page's colours, light and dark.
const pictureStyle = `<style>
svg{font:11.5px ui-sans-serif,system-ui,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.ground{fill:#fff}text{fill:#566474}.title{fill:#15202c;font-size:14px;font-weight:600}.grid{stroke:#e2e6eb}
polyline{fill:none;stroke-width:2;stroke-linejoin:round}
.arm0{stroke:#566474;fill:#566474}.arm1{stroke:#1d5fc4;fill:#1d5fc4}.arm2{stroke:#8d63d6;fill:#8d63d6}.arm3{stroke:#0e7f86;fill:#0e7f86}
.arm4{stroke:#b03a86;fill:#b03a86}.arm5{stroke:#2b8a57;fill:#2b8a57}.arm6{stroke:#8a5a2b;fill:#8a5a2b}.arm7{stroke:#394a9c;fill:#394a9c}
.legend text{stroke:none}
@media(prefers-color-scheme:dark){.ground{fill:#141a21}text{fill:#9dabba}.title{fill:#e7edf3}.grid{stroke:#232d38}
.arm0{stroke:#9dabba;fill:#9dabba}.arm1{stroke:#6ea8ff;fill:#6ea8ff}.arm2{stroke:#b49bf2;fill:#b49bf2}.arm3{stroke:#4fc3c9;fill:#4fc3c9}
.arm4{stroke:#e587c1;fill:#e587c1}.arm5{stroke:#5ccb92;fill:#5ccb92}.arm6{stroke:#d3a172;fill:#d3a172}.arm7{stroke:#8f9ff0;fill:#8f9ff0}}
</style>`

// WriteSVG writes the distributions of the times to first byte as one picture that needs
// nothing else, a chart for each number of sessions. It fails when no arm has enough
// turns for a curve.
func WriteSVG(w io.Writer, rows []Row) error {
	const titled, legend = chartHeight + 28, 34.0
	names, sessions := axes(rows)
	var charts strings.Builder
	height := 0.0
	for _, n := range sessions {
		curves := curvesAt(rows, names, n)
		if len(curves) == 0 {
			continue
		}
		fmt.Fprintf(&charts, `<g transform="translate(0 %g)"><text class="title" x="%g" y="20">%s</text><g transform="translate(0 28)">`, height, chartLeft, distributionTitle(n))
		writeCurves(&charts, curves)
		charts.WriteString("</g></g>\n")
		height += titled
	}
	if height == 0 {
		return fmt.Errorf("there is no distribution to draw: an arm needs %d turns with a first byte", leastHistograms)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-label="Time to first byte, distribution">`, chartWidth, height+legend)
	b.WriteString(pictureStyle)
	fmt.Fprintf(&b, `<rect class="ground" width="%g" height="%g"/>`+"\n", chartWidth, height+legend)
	b.WriteString(charts.String())
	at := chartLeft
	for i, name := range names {
		fmt.Fprintf(&b, `<g class="legend" transform="translate(%g %g)"><g class="arm%d">%s</g><text x="10" y="4">%s</text></g>`, at, height+legend/2, i%arms, mark(i, false), html.EscapeString(name))
		at += 34 + 6.5*float64(len(name))
	}
	b.WriteString("\n</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// distributionTitle names a distribution.
func distributionTitle(sessions int) string {
	return "Time to first byte at " + cmp.Or(map[int]string{1: "1 session"}[sessions], strconv.Itoa(sessions)+" sessions")
}
