package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		{"one of each kind", "insecure: perhaps\nnothing: 1\nmax_body_bytes: 5\nlog_level: loud\n", exitUsage, 4, 0},
		{"two addresses", "inference_listen: here\nadmin_listen: there\n", exitUsage, 3, 0}, // and one of them is open to the network
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

// TestProblemsAreListed keeps what is said before several errors with each of them.
func TestProblemsAreListed(t *testing.T) {
	model := fmt.Errorf("model a: %w", errors.Join(errors.New("no source"), errors.New("no cards")))
	got := problemsOf(fmt.Errorf("not valid: %w", errors.Join(model, errors.New("line 3\n  3 | x\n    ^"))))
	if diff := cmp.Diff([]string{"model a: no source", "model a: no cards", "line 3"}, got); diff != "" {
		t.Error(diff)
	}
	if got := problemsOf(fmt.Errorf("cannot be read: %w", errors.New("gone"))); len(got) != 1 || got[0] != "cannot be read: gone" {
		t.Errorf("one problem: %q", got)
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
