package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/lmwarden/lmwarden/bench/proxyload"
)

// TestBenchProxy measures every way under every load, each proxy as processes of its
// own, and ends with one line of JSON.
func TestBenchProxy(t *testing.T) {
	got := lmwarden(t, nil, "", "bench", "proxy", "--quick", "--body", "1000")
	if got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.err)
	}
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	report := readProxyReport(t, lines[len(lines)-1])
	ways := []string{proxyload.Direct, proxyload.Bare, proxyload.Nginx, proxyload.Ours}
	if report.Nginx == "" {
		if _, err := exec.LookPath("/usr/sbin/nginx"); err == nil {
			t.Errorf("nginx is installed and was left out: %s", report.NginxMissing)
		}
		ways = []string{proxyload.Direct, proxyload.Bare, proxyload.Ours}
	}
	for i, load := range proxyload.QuickLoads() {
		checkLoad(t, load, report.Loads[i], ways)
		if !strings.Contains(got.stdout, load.String()) {
			t.Errorf("there is no table of %s:\n%s", load, got.stdout)
		}
	}
	if !strings.Contains(got.err, "round 1 of 1, lmwarden") {
		t.Errorf("the progress is %s", got.err)
	}
}

// TestBenchProxyWithoutNginx says what to install and goes on, and prints the JSON only.
func TestBenchProxyWithoutNginx(t *testing.T) {
	got := lmwarden(t, nil, "", "bench", "proxy", "--quick", "--nginx", "no-such-nginx", "-o", "json")
	if got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.err)
	}
	report := readProxyReport(t, got.stdout)
	if report.Nginx != "" || !strings.Contains(report.NginxMissing, "apt-get install") || !strings.Contains(got.err, report.NginxMissing) {
		t.Errorf("report %+v, progress %s", report, got.err)
	}
	for i, load := range proxyload.QuickLoads() {
		checkLoad(t, load, report.Loads[i], []string{proxyload.Direct, proxyload.Bare, proxyload.Ours})
	}
	for _, args := range [][]string{{"--rounds", "0"}, {"--body", "0"}, {"--quick", "--rounds", "2"}, {"--quick", "-o", "csv"}} {
		if got := lmwarden(t, nil, "", append([]string{"bench", "proxy"}, args...)...); got.code != exitUsage {
			t.Errorf("%v: exit code %d: %s", args, got.code, got.err)
		}
	}
}

func readProxyReport(t *testing.T, line string) proxyReport {
	t.Helper()
	var report proxyReport
	if err := json.Unmarshal([]byte(line), &report); err != nil {
		t.Fatalf("the last line %q: %v", line, err)
	}
	if want := len(proxyload.QuickLoads()); len(report.Loads) != want || !report.Quick {
		t.Fatalf("%d loads, want %d, and said to be quick: %+v", len(report.Loads), want, report)
	}
	return report
}

// checkLoad wants figures of every way, and ratios where there is something to compare.
func checkLoad(t *testing.T, load proxyload.Load, got proxyload.LoadReport, ways []string) {
	t.Helper()
	if got.Connections != load.Connections || got.PaceSeconds != load.Pace.Seconds() || len(got.Ways) != len(ways) {
		t.Fatalf("%s: got %+v", load, got)
	}
	for i, f := range got.Ways {
		if f.Name != ways[i] || f.Streams != load.Streams || f.P50Micros <= 0 || f.P99Micros < f.P50Micros {
			t.Errorf("%s: %+v", load, f)
		}
		if own := f.Name != proxyload.Direct; own != (f.CPUMicros != nil) || own && *f.CPUMicros <= 0 {
			t.Errorf("%s: %s: processor time %v", load, f.Name, f.CPUMicros)
		}
	}
	ratios := []proxyload.Ratios{got.TTFBRatio, got.TTFBP99Ratio, got.CPURatio}
	for _, r := range ratios {
		if withNginx := len(ways) == 4; r.Bare <= 0 || withNginx != (r.Nginx != nil) || withNginx && *r.Nginx <= 0 {
			t.Errorf("%s: ratios %+v", load, r)
		}
	}
	if ours := got.Ways[len(got.Ways)-1]; got.P50 != ours.P50Micros || got.P99 != ours.P99Micros {
		t.Errorf("%s: p50 %g and p99 %g, want those of %+v", load, got.P50, got.P99, ours)
	}
}
