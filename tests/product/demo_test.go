package product

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/tests/harness"
)

// demoReport is the object that a headless demo prints.
type demoReport struct {
	Requests       *int     `json:"requests"`
	Errors         *int     `json:"errors"`
	StickyPercent  *float64 `json:"stickyPercent"`
	HitPercent     *float64 `json:"hitPercent"`
	TTFBP50Seconds *float64 `json:"ttfbP50Seconds"`
	Affinity       *bool    `json:"affinity"`
	Replicas       []struct {
		Index      int      `json:"index"`
		Requests   int      `json:"requests"`
		HitPercent *float64 `json:"hitPercent"`
	} `json:"replicas"`
}

// demo runs a headless demo and returns its report. Nothing may be left of it.
func demo(t *testing.T, args ...string) demoReport {
	t.Helper()
	// Engines inherit TMPDIR, so a folder of the test's own tells its processes.
	mark := t.TempDir()
	cmd := exec.CommandContext(t.Context(), harness.Binary(t), append([]string{"demo", "-o", "json"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+mark)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("demo: %v\n%s", err, stderr.String())
	}
	decoder := json.NewDecoder(&stdout)
	var report demoReport
	if err := decoder.Decode(&report); err != nil {
		t.Fatalf("demo printed no JSON object: %v", err)
	}
	if decoder.More() {
		t.Error("demo printed more than one object")
	}
	if left := harness.Processes("TMPDIR", mark); len(left) > 0 {
		t.Errorf("the demo left processes: %v", left)
	}
	if report.Requests == nil || report.Errors == nil || report.HitPercent == nil || report.TTFBP50Seconds == nil || report.Affinity == nil || len(report.Replicas) != 4 {
		t.Fatalf("the report lacks a field: %+v", report)
	}
	return report
}

// demoTurns are the fewest turns of which hits say something: eight conversations begin
// with a prompt that is in no cache.
const demoTurns = 80

// longDemo runs a demo for 20 s, and for longer until it had its turns: how many a time has
// is a matter of what else the machine does.
func longDemo(t *testing.T, args ...string) demoReport {
	t.Helper()
	for length := 20 * time.Second; ; length *= 3 {
		r := demo(t, append(args, "--for", length.String())...)
		if *r.Requests >= demoTurns || *r.Errors != 0 || length > 2*time.Minute {
			return r
		}
		t.Logf("in %s there were %d turns", length, *r.Requests)
	}
}

// The seed's claim, in the small: with conversations pinned, most of a prompt comes
// from the cache; balanced by least in flight, much less does.
func TestDemoShowsWhatAffinityIsWorth(t *testing.T) {
	on := longDemo(t, "--sessions", "8", "--speed", "8", "--affinity", "on")
	off := longDemo(t, "--sessions", "8", "--speed", "8", "--affinity", "off")
	for name, r := range map[string]demoReport{"on": on, "off": off} {
		if *r.Errors != 0 || *r.Requests < demoTurns {
			t.Errorf("affinity %s: %d requests, %d errors", name, *r.Requests, *r.Errors)
		}
		t.Logf("affinity %s: %d requests, hits %.1f %%, first token p50 %.2f s", name, *r.Requests, *r.HitPercent, *r.TTFBP50Seconds)
	}
	if !*on.Affinity || *off.Affinity {
		t.Errorf("affinity is reported as %v and %v", *on.Affinity, *off.Affinity)
	}
	if on.StickyPercent == nil || *on.StickyPercent < 99 {
		t.Errorf("sticky %% with affinity: %v, want 99 or more below capacity", on.StickyPercent)
	}
	if off.StickyPercent != nil {
		t.Errorf("sticky %% without affinity: %v, want none", *off.StickyPercent)
	}
	// Least in flight often sends a turn back to the replica that just became free, so
	// the other arm is far from hitting nothing.
	if *on.HitPercent < 75 || *on.HitPercent < *off.HitPercent+6 {
		t.Errorf("hits: %.1f %% with affinity, %.1f %% without; want at least 75 and 6 points more", *on.HitPercent, *off.HitPercent)
	}
}
