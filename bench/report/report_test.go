package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lmwarden/lmwarden/bench"
)

// run is a run with a throughput and a median.
func run(arm string, sessions, round int, output, p50 float64) Run {
	return Run{
		Arm: arm, Sessions: sessions, Round: round, Seed: uint64(round), Seconds: 60,
		Figures: Figures{OutputTokensPerMinute: Figure(output), TTFBP50Seconds: Figure(p50), TTFBP95Seconds: Figure(10 * p50), HitPercent: Figure(50)},
	}
}

var series = []Run{
	run("off", 8, 1, 10_000, 0.5), run("off", 8, 2, 11_000, 0.7), run("off", 8, 3, 12_000, 0.9),
	run("on", 8, 1, 20_000, 0.4),
	run("on", 24, 1, 9_500, 0.02), run("off", 24, 1, 9_000, 12),
	{Arm: "on", Sessions: 24, Round: 2, Partial: true, Figures: Figures{OutputTokensPerMinute: Figure(1)}},
}

// TestSummarize checks means and intervals against arithmetic done by hand: three
// values 1,000 apart have a standard deviation of 1,000, so half the interval is
// 4.303 x 1,000 / sqrt(3).
func TestSummarize(t *testing.T) {
	rows := Summarize(series)
	if len(rows) != 4 || rows[0].Arm != "off" || rows[0].Sessions != 8 || rows[3].Arm != "on" || rows[3].Sessions != 24 {
		t.Fatalf("rows %+v", rows)
	}
	if r := rows[0]; r.Runs != 3 || *r.OutputTokensPerMinute != 11_000 || math.Abs(*r.HalfWidth.OutputTokensPerMinute-2484.3) > 0.1 {
		t.Errorf("%d runs, %g ± %g", r.Runs, *r.OutputTokensPerMinute, *r.HalfWidth.OutputTokensPerMinute)
	}
	if r := rows[0]; r.ReplicasBusy != nil || *r.HalfWidth.HitPercent != 0 {
		t.Errorf("an absent figure came out as %v, a constant one with a width of %g", r.ReplicasBusy, *r.HalfWidth.HitPercent)
	}
	if r := rows[1]; r.HalfWidth != nil {
		t.Errorf("one run has the interval %+v", r.HalfWidth)
	}
	if r := rows[3]; r.Runs != 1 || *r.OutputTokensPerMinute != 9_500 {
		t.Errorf("a partial run was counted: %+v", r)
	}
}

// TestInterval draws samples with a known mean: the interval must hold it in about
// 95 % of the cases, whatever the number of runs.
func TestInterval(t *testing.T) {
	for _, n := range []int{2, 3, 8, 40} {
		held, tries := 0, 4000
		state := uint64(n)
		normal := func() float64 { // a sum of twelve uniform numbers
			sum := -6.0
			for range 12 {
				state = state*6364136223846793005 + 1442695040888963407
				sum += float64(state>>11) / (1 << 53)
			}
			return sum
		}
		for range tries {
			values := make([]float64, n)
			for i := range values {
				values[i] = 100 + 5*normal()
			}
			if mean, half := interval(values); math.Abs(mean-100) <= half {
				held++
			}
		}
		if share := float64(held) / float64(tries); share < 0.935 || share > 0.965 {
			t.Errorf("%d runs: the interval holds the mean in %.1f %% of the cases", n, 100*share)
		}
	}
}

// TestColumns keeps the names that scripts rely on, and each column at its own field.
func TestColumns(t *testing.T) {
	var f Figures
	fields := reflect.TypeOf(f)
	seen := make(map[**float64]bool)
	for _, c := range Columns() {
		if at := c.of(&f); seen[at] {
			t.Errorf("%s reads the field of another column", c.Key)
		} else {
			seen[at] = true
		}
		*c.of(&f) = Figure(1)
		data, err := json.Marshal(f)
		if err != nil || string(data) != `{"`+c.Key+`":1}` {
			t.Errorf("the column %s is %s in JSON (%v)", c.Key, data, err)
		}
		*c.of(&f) = nil
	}
	if len(seen) != fields.NumField() {
		t.Errorf("%d columns for %d fields", len(seen), fields.NumField())
	}
	for _, key := range []string{"outputTokensPerMinute", "hitPercent", "ttfbP50Seconds", "stayedPercent", "replicasBusy"} {
		if column(key).Key != key {
			t.Errorf("no column %s", key)
		}
	}
}

// TestJSON has the figures of a single row at the top, and of several in results.
func TestJSON(t *testing.T) {
	var b bytes.Buffer
	settings := map[string]int{"minutes": 12}
	if err := WriteJSON(&b, series[:3], "1.2", settings, false); err != nil {
		t.Fatal(err)
	}
	var one struct {
		Arm      string
		Runs     int
		Output   float64 `json:"outputTokensPerMinute"`
		Half     Figures `json:"halfWidth95"`
		PerRun   []Run
		Results  []Row
		Version  string
		Settings map[string]int
	}
	if err := json.Unmarshal(b.Bytes(), &one); err != nil {
		t.Fatal(err)
	}
	if one.Arm != "off" || one.Runs != 3 || one.Output != 11_000 || *one.Half.OutputTokensPerMinute < 2000 || len(one.PerRun) != 3 || one.Results != nil || one.Version != "1.2" || one.Settings["minutes"] != 12 {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	if err := WriteJSON(&b, series, "1.2", settings, true); err != nil {
		t.Fatal(err)
	}
	var many struct {
		Arm         *string
		Results     []Row
		Interrupted bool
		Stopped     []Run
	}
	if err := json.Unmarshal(b.Bytes(), &many); err != nil || many.Arm != nil || len(many.Results) != 4 || !many.Interrupted || len(many.Stopped) != 1 || many.Stopped[0].Sessions != 24 {
		t.Errorf("%v, %s", err, b.String())
	}
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	if err := WriteCSV(&b, Summarize(series)); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(lines) != 7 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if head := strings.Join(lines[0][:8], ","); head != "arm,sessions,round,seed,seconds,sessionsPerHour,outputTokensPerMinute,ttfbP50Seconds" {
		t.Errorf("head %s", head)
	}
	if line := strings.Join(lines[2][:8], ","); line != "off,8,2,2,60,,11000,0.7" {
		t.Errorf("line %s", line)
	}
}

func TestNumber(t *testing.T) {
	for want, got := range map[string]string{
		"0": Number(0, 0), "999": Number(999, 0), "1,000": Number(1000, 0), "-1,234,567.50": Number(-1234567.5, 2), "0.03": Number(0.03, 2), "12,345.7": Number(12345.67, 1),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestLedger stops a series and goes on.
func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "series.json")
	settings := map[string]string{"load": "seed"}
	l, err := OpenLedger(path, settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range series {
		if err := l.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	dead := Run{Arm: "on", Sessions: 24, Round: 3, Figures: Figures{Requests: Figure(0), Errors: Figure(5), OutputTokensPerMinute: Figure(0)}}
	if err := l.Add(dead); err != nil {
		t.Fatal(err)
	}
	if all := l.All(); len(l.Runs()) != 6 || len(all) != 7 || !reflect.DeepEqual(all[6], dead) {
		t.Errorf("%d runs are kept and %d are known, want 6 and 7 with the failed one", len(l.Runs()), len(all))
	}
	again, err := OpenLedger(path, settings)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Runs()) != 6 {
		t.Fatalf("%d runs came back, want 6: the partial one and the one whose requests all failed are repeated", len(again.Runs()))
	}
	if r, ok := again.Find("off", 8, 2); !ok || !reflect.DeepEqual(r, series[1]) {
		t.Errorf("found %+v, %t", r, ok)
	}
	if _, ok := again.Find("on", 24, 2); ok {
		t.Error("a partial run was found")
	}
	if _, err := OpenLedger(path, map[string]string{"load": "endless"}); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("other settings gave %v", err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("%d files are left: %v", len(files), err)
	}
	if err := os.WriteFile(path, []byte("not JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLedger(path, settings); err == nil || !strings.Contains(err.Error(), "not the file of a series") {
		t.Errorf("a foreign file gave %v", err)
	}
	if _, err := OpenLedger(filepath.Join(path, "below"), settings); err == nil {
		t.Error("a path that cannot be was accepted")
	}
	memory, err := OpenLedger("", settings)
	if err != nil || memory.Add(series[0]) != nil || len(memory.Runs()) != 1 {
		t.Errorf("in memory: %v, %d runs", err, len(memory.Runs()))
	}
}

// TestPage makes a page that needs nothing else and whose charts are well-formed.
func TestPage(t *testing.T) {
	var b bytes.Buffer
	rows := Summarize(append([]Run{run("<b>&", 8, 1, 1, 1)}, series...))
	p := Page{Title: "Box <1>", About: "About.", Replicas: 4, Version: "1.2", Settings: []Setting{{"load", "seed & more"}}, Interrupted: true}
	if err := WriteHTML(&b, p, rows); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, banned := range []string{"<script", "http://", "https://", "@import", "url(", "<b>&", "ZgotmplZ", "NaN", "Inf"} {
		if strings.Contains(page, banned) {
			t.Errorf("the page contains %q", banned)
		}
	}
	for _, want := range []string{"Box &lt;1&gt;", "seed &amp; more", "11,000 ± 2,484", "prefers-color-scheme:dark", "24 sessions", "stopped before its end", "Filled marks"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	charts := regexp.MustCompile(`(?s)<svg viewBox="0 0 640.*?</svg>`).FindAllString(page, -1)
	// Nobody reported how many replicas were busy.
	if len(charts) != 3 || strings.Contains(page, "<h2>Replicas busy") {
		t.Fatalf("%d charts", len(charts))
	}
	for _, c := range charts {
		wellFormed(t, c)
	}
	if n := strings.Count(charts[0], "<title>"); n != 10 {
		t.Errorf("%d points of time to first byte, want 10", n)
	}
	b.Reset()
	if err := WriteHTML(&b, Page{Title: "Nothing"}, nil); err != nil || !strings.Contains(b.String(), "Nothing was measured") {
		t.Errorf("an empty series: %v", err)
	}
}

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("a chart is not well-formed: %v", err)
		}
	}
}

// TestScale holds all values within the scale, and has few and rising ticks.
func TestScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := chart{log: rapid.Bool().Draw(t, "log"), sessions: []int{1}}
		values := rapid.SliceOfN(rapid.Float64Range(0.01, 1e6), 1, 6).Draw(t, "values")
		var l line
		for _, v := range values {
			l.points = append(l.points, point{value: v})
		}
		c.lines = []line{l}
		s := c.newScale()
		if len(s.ticks) < 2 || len(s.ticks) > 12 {
			t.Fatalf("ticks %v", s.ticks)
		}
		for i, tick := range s.ticks {
			if i > 0 && tick <= s.ticks[i-1] {
				t.Fatalf("ticks %v", s.ticks)
			}
		}
		for _, v := range values {
			if v < s.low*(1-1e-9) || v > s.high*(1+1e-9) {
				t.Fatalf("%g is outside of %g to %g", v, s.low, s.high)
			}
			if y := s.y(v); y < chartTop-0.01 || y > chartHeight-chartBottom+0.01 {
				t.Fatalf("%g is drawn at %g", v, y)
			}
		}
	})
}

// TestVerdict compares only what is apart by more than the noise.
func TestVerdict(t *testing.T) {
	for want, runs := range map[string][]Run{
		"8 sessions: on gives 20,000 output tokens a minute, 50 % of the prompts from cache, 0.40 s to the first byte at the median: 82 % more output than off.": series[:4],
		"no arm is ahead by more than the noise": {run("off", 8, 1, 100, 1), run("off", 8, 2, 200, 1), run("on", 8, 1, 160, 1)},
		"1 session: off gives":                   {run("off", 1, 1, 100, 1)},
		"off gives nothing":                      {run("off", 2, 1, 0, 1), run("on", 2, 1, 160, 1)},
	} {
		if said := verdict(Summarize(runs)); len(said) != 1 || !strings.Contains(said[0], want) {
			t.Errorf("said %q, want %q", said, want)
		}
	}
}

// TestOf carries the figures of a live step over, absent ones as absent.
func TestOf(t *testing.T) {
	p50 := 0.5
	r := Of(bench.Step{Arm: "on", Sessions: 4, Requests: 7, OutputTokensPerMinute: 99, TTFB: bench.Quantiles{P50: &p50}, FirstError: "x", Partial: true}, 5)
	if r.Arm != "on" || r.Round != 1 || r.Seed != 5 || *r.TTFBP50Seconds != 0.5 || *r.Requests != 7 || r.HitPercent != nil || r.Problem != "x" || !r.Partial {
		t.Errorf("%+v", r)
	}
}

// TestHistogram holds each time to the bucket whose bounds it lies between.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(0, int64(2*time.Hour)), 1, 50).Draw(t, "times")
		var all []time.Duration
		for _, n := range times {
			all = append(all, time.Duration(n))
		}
		h := HistogramOf(all)
		if h.Count() != len(all) || h[len(h)-1] == 0 {
			t.Fatalf("%d times of %d, the last bucket has %d", h.Count(), len(all), h[len(h)-1])
		}
		for i := range h {
			below := 0
			for _, d := range all {
				if d.Seconds() <= BucketSeconds(i) || i == bucketsInAll-1 {
					below++
				}
			}
			if got := h.shares()[i] * float64(len(all)); math.Abs(got-float64(below)) > 1e-6 {
				t.Fatalf("%.0f times up to %g s, want %d", got, BucketSeconds(i), below)
			}
		}
		if both := h.add(HistogramOf(all[:1])); both.Count() != len(all)+1 {
			t.Fatalf("a sum has %d times", both.Count())
		}
	})
	if HistogramOf(nil) != nil {
		t.Error("no times have buckets")
	}
}

// TestCurves draws a distribution whose median is known, on the page and alone.
func TestCurves(t *testing.T) {
	var times []time.Duration
	for i := range 200 {
		times = append(times, time.Duration(i+1)*100*time.Millisecond) // half up to 10 s
	}
	few, many := run("few <&>", 24, 1, 1, 1), run("many", 24, 1, 1, 10)
	few.TTFBHistogram, many.TTFBHistogram = HistogramOf(times[:leastHistograms-1]), HistogramOf(times)
	var b bytes.Buffer
	if err := WriteSVG(&b, Summarize([]Run{few, many, run("many", 4, 1, 1, 1)})); err != nil {
		t.Fatal(err)
	}
	picture := b.String()
	wellFormed(t, picture)
	for _, want := range []string{"many: half of 200 turns within 10 s", "at 24 sessions", "few &lt;&amp;&gt;"} {
		if !strings.Contains(picture, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if strings.Contains(picture, "at 4 sessions") || strings.Count(picture, "<polyline") != 1 {
		t.Error("a curve is drawn of too few turns")
	}
	b.Reset()
	if err := WriteSVG(&b, Summarize([]Run{few})); err == nil || b.Len() > 0 {
		t.Errorf("a picture of nothing: %v", err)
	}
	if err := WriteHTML(&b, Page{}, Summarize([]Run{many})); err != nil || !strings.Contains(b.String(), "half of 200 turns within 10 s") {
		t.Errorf("the page has no distribution: %v", err)
	}
}
