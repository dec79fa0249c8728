package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
)

// line is one arm's figure over the numbers of sessions.
type line struct {
	arm    int // index of the arm, which gives colour and mark
	dashed bool
	name   string
	points []point
}

// point is one value, at the index of its number of sessions.
type point struct {
	x           int
	value, half float64
}

// chart is a drawing of lines over numbers of sessions.
type chart struct {
	label    string // for those who do not see it
	unit     string
	decimals int
	sessions []int
	log      bool
	top      float64 // of the scale; 0 takes it from the values
	arms     int     // in all, so that their marks stand beside each other
	lines    []line
}

// Places of a chart, in its own units.
const (
	chartWidth  = 640.0
	chartHeight = 264.0
	chartLeft   = 56.0
	chartRight  = 12.0
	chartTop    = 12.0
	chartBottom = 44.0
)

// scale turns values into heights.
type scale struct {
	low, high float64
	log       bool
	ticks     []float64
}

// newScale holds all values, from 0 or, on a logarithmic scale, from a round number.
func (c chart) newScale() scale {
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range c.lines {
		for _, p := range l.points {
			if p.value > 0 || !c.log {
				low, high = min(low, p.value), max(high, p.value+p.half)
			}
		}
	}
	if math.IsInf(high, -1) || high <= 0 {
		low, high = 1, 1
	}
	if c.log {
		return logScale(low, high)
	}
	if c.top > 0 {
		high = c.top
	}
	step := math.Pow(10, math.Floor(math.Log10(high)))
	for _, part := range []float64{0.1, 0.2, 0.25, 0.5, 1} {
		if high/(step*part) <= 6 {
			step *= part
			break
		}
	}
	s := scale{high: math.Ceil(high/step-1e-9) * step}
	for i := 0.0; i*step <= s.high*(1+1e-9); i++ {
		s.ticks = append(s.ticks, i*step)
	}
	return s
}

// logScale has ticks at 1, 2 and 5 of each decade or, over many, at 1 only.
func logScale(low, high float64) scale {
	var all []float64
	for e := math.Floor(math.Log10(low)) - 1; e <= math.Log10(high)+1; e++ {
		for _, m := range []float64{1, 2, 5} {
			all = append(all, m*math.Pow(10, e))
		}
	}
	s := scale{log: true, low: all[0], high: all[len(all)-1]}
	for _, t := range all {
		if t <= low*(1+1e-9) {
			s.low = t
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i] >= high*(1-1e-9) {
			s.high = all[i]
		}
	}
	if s.high <= s.low {
		s.high = s.low * 10
	}
	for _, t := range all {
		decade := math.Abs(math.Log10(t)-math.Round(math.Log10(t))) < 1e-9
		if t >= s.low*(1-1e-9) && t <= s.high*(1+1e-9) && (decade || s.high/s.low <= 1100) {
			s.ticks = append(s.ticks, t)
		}
	}
	return s
}

// y returns the height of a value.
func (s scale) y(v float64) float64 {
	part := (v - s.low) / (s.high - s.low)
	if s.log {
		part = math.Log(max(v, s.low)/s.low) / math.Log(s.high/s.low)
	}
	return chartTop + (chartHeight-chartTop-chartBottom)*(1-min(1, max(0, part)))
}

// x returns the place of the i-th number of sessions.
func (c chart) x(i int) float64 {
	room := chartWidth - chartLeft - chartRight
	return chartLeft + room*(float64(i)+0.5)/float64(len(c.sessions))
}

// beside is how far the marks of two arms stand apart, so that equal ones are seen.
const beside = 5.0

// xOf returns the place of an arm at the i-th number of sessions.
func (c chart) xOf(arm, i int) float64 {
	return c.x(i) + beside*(float64(arm)-float64(c.arms-1)/2)
}

// svg draws the chart, or nothing when it has no point. Only its own words come from
// outside, and they are escaped.
func (c chart) svg() template.HTML {
	if !slices.ContainsFunc(c.lines, func(l line) bool { return len(l.points) > 0 }) {
		return ""
	}
	s := c.newScale()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, chartWidth, chartHeight, html.EscapeString(c.label))
	for _, t := range s.ticks {
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`,
			chartLeft, chartWidth-chartRight, s.y(t), s.y(t), chartLeft-8, s.y(t)+4, tick(t))
	}
	for i, n := range c.sessions {
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle">%d</text>`, c.x(i), chartHeight-chartBottom+18, n)
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="middle">sessions at the same time</text>`, (chartLeft+chartWidth-chartRight)/2, chartHeight-8)
	for _, l := range c.lines {
		c.drawLine(&b, s, l)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // built here, foreign words escaped
}

// drawLine draws one line with the intervals and marks of its points.
func (c chart) drawLine(b *strings.Builder, s scale, l line) {
	fmt.Fprintf(b, `<g class="arm%d">`, l.arm%arms)
	if len(l.points) > 1 {
		var at []string
		for _, p := range l.points {
			at = append(at, fmt.Sprintf("%.1f,%.1f", c.xOf(l.arm, p.x), s.y(p.value)))
		}
		dash := ""
		if l.dashed {
			dash = ` stroke-dasharray="5 4"`
		}
		fmt.Fprintf(b, `<polyline points="%s"%s/>`, strings.Join(at, " "), dash)
	}
	for _, p := range l.points {
		if p.half > 0 {
			fmt.Fprintf(b, `<line class="half" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, c.xOf(l.arm, p.x), c.xOf(l.arm, p.x), s.y(p.value-p.half), s.y(p.value+p.half))
		}
		text := fmt.Sprintf("%s, %d sessions: %s %s", l.name, c.sessions[p.x], Number(p.value, c.decimals), c.unit)
		if p.half > 0 {
			text += " ± " + Number(p.half, c.decimals)
		}
		fmt.Fprintf(b, `<g transform="translate(%.1f %.1f)">%s<title>%s</title></g>`, c.xOf(l.arm, p.x), s.y(p.value), mark(l.arm, l.dashed), html.EscapeString(text))
	}
	b.WriteString(`</g>`)
}

// arms is the number of colours and marks. With more arms they come again.
const arms = 8

// marks tell arms apart without their colours.
var marks = [arms]string{
	`<circle r="4"%s/>`,
	`<path d="M-4-4h8v8h-8z"%s/>`,
	`<path d="M0-5 5 4H-5z"%s/>`,
	`<path d="M0-5.5 5.5 0 0 5.5-5.5 0z"%s/>`,
	`<path d="M0 5 5-4H-5z"%s/>`,
	`<path d="M-1.5-5h3v3.5H5v3H1.5V5h-3V1.5H-5v-3h3.5z"%s/>`,
	`<path d="M-5-2.5 0-5.5 5-2.5V2.5L0 5.5-5 2.5z"%s/>`,
	`<path d="M-5-3h10v6H-5z"%s/>`,
}

// mark draws the mark of an arm, hollow on dashed lines.
func mark(arm int, hollow bool) string {
	class := ""
	if hollow {
		class = ` class="hollow"`
	}
	return fmt.Sprintf(marks[arm%arms], class)
}

// tick prints a value of a scale as short as it can be.
func tick(v float64) string {
	switch {
	case v >= 1000:
		return strings.TrimSuffix(Number(v/1000, 1), ".0") + "k"
	case v >= 1:
		return strings.TrimSuffix(Number(v, 1), ".0")
	default:
		return fmt.Sprintf("%.3g", v)
	}
}
