package server

import (
	"testing"

	"github.com/lmwarden/lmwarden/supervisor"
)

// A client learns what is the case, and is told to try again only when that can help.
func TestStateText(t *testing.T) {
	replica := func(index int, state supervisor.State, phase, message string) supervisor.Status {
		return supervisor.Status{ID: supervisor.ReplicaID{Model: "m", Index: index}, State: state, Phase: phase, Message: message}
	}
	tests := map[string]struct {
		stopped  bool
		problem  string
		statuses []supervisor.Status
		want     string
		halted   bool
	}{
		"stopped":    {true, "", nil, `it is stopped; start it on the page or with "lmwarden model start m"`, true},
		"not placed": {false, "model m needs cards and the box has none", nil, "it has no cards: model m needs cards and the box has none", true},
		"failed": {
			false, "",
			[]supervisor.Status{replica(0, supervisor.Failed, "", "There is no such model."), replica(1, supervisor.Failed, "", "There is no such model.")},
			`replica 0 failed: There is no such model; "lmwarden model logs m" shows its log`, true,
		},
		"half failed": {
			false, "",
			[]supervisor.Status{replica(0, supervisor.Failed, "", "Too little memory."), replica(1, supervisor.Starting, "loading weights", "")},
			"replica 0 failed: Too little memory, replica 1 starting: loading weights", false,
		},
		"new": {false, "", nil, "starting", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, halted := stateText("m", !test.stopped, test.problem, test.statuses)
			if got != test.want || halted != test.halted {
				t.Errorf("got %q, %t; want %q, %t", got, halted, test.want, test.halted)
			}
		})
	}
}
