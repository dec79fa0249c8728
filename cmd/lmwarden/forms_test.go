package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lmwarden/lmwarden/bench"
	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// TestVersionForms gives a script the version alone.
func TestVersionForms(t *testing.T) {
	var answer struct{ Version string }
	got := lmwarden(t, nil, "", "version", "-o", "json")
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil || answer.Version != versionText() {
		t.Errorf("%v, version %q, want %q", err, answer.Version, versionText())
	}
	if got := lmwarden(t, nil, "", "version", "-o", "yaml"); got.stdout != "version: "+versionText()+"\n" {
		t.Errorf("YAML %q", got.stdout)
	}
}

// TestConfigCheckJSON names the problems in the answer, and still fails.
func TestConfigCheckJSON(t *testing.T) {
	tests := []struct {
		name, text string
		code       int
		problems   int
		notes      int
	}{
		{"valid", "admin_listen: 127.0.0.1:8001\n", 0, 0, 0},
		{"a note", "default_model: nobody\n", 0, 0, 1},
		{"an unknown field", "nothing: 1\n", exitUsage, 1, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lmwarden.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := lmwarden(t, nil, "", "config", "check", path, "-o", "json")
			var answer struct {
				File            string
				Valid           bool
				Notes, Problems []string
			}
			if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
				t.Fatalf("%v in %q", err, got.stdout)
			}
			if got.code != test.code || answer.File != path || answer.Valid != (test.code == 0) ||
				len(answer.Problems) != test.problems || len(answer.Notes) != test.notes {
				t.Errorf("exit code %d: %+v", got.code, answer)
			}
			for _, problem := range answer.Problems {
				if !strings.Contains(got.err, problem) {
					t.Errorf("standard error lacks %q:\n%s", problem, got.err)
				}
			}
		})
	}
}

// TestDemoRowCountsEveryDecision keeps the columns of a row a sum that gives its
// requests, also with affinity off.
func TestDemoRowCountsEveryDecision(t *testing.T) {
	row := demoRow(&lmwardenv1.RoutingReplica{Counts: &lmwardenv1.DecisionCounts{
		Sticky: 1, Placed: 2, Spilled: 4, Rehomed: 8, Unkeyed: 16, Side: 32, Off: 64,
	}}, bench.ReplicaRow{})
	if row.Balanced != 16+32+64 || row.Requests != 127 {
		t.Errorf("balanced %d of %d requests, want 112 of 127", row.Balanced, row.Requests)
	}
	if sum := row.Sticky + row.Placed + row.Spilled + row.Rehomed + row.Balanced; sum != row.Requests {
		t.Errorf("the columns add up to %d of %d", sum, row.Requests)
	}
}
