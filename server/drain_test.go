package server

import (
	"context"
	"strings"
	"testing"

	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/supervisor"
)

// TestCutRequestsAreTold reads the event about requests that were cut: it must not ask
// for a longer drain when the engine has ended by itself.
func TestCutRequestsAreTold(t *testing.T) {
	died, end := context.WithCancelCause(context.Background())
	end(supervisor.ErrEngineEnded)
	for name, test := range map[string]struct {
		ctx        context.Context
		want, none string
	}{
		"stopped": {context.Background(), "was stopped before 3 of its requests", "by itself"},
		"died":    {died, "ended by itself with requests in flight: 3", "stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.create(t, "m", 1)
			r.plane.cuts = map[proxy.ReplicaID]int{r.plane.model(t, "m").Replicas[0].ID: 3}
			drain(test.ctx, r.control, supervisor.ReplicaID{Model: "m", Index: 0})
			told := ""
			page, _ := r.events.Page("m", 0, 100)
			for _, e := range page {
				if e.Kind == "requests_cut" {
					told += e.Message
				}
			}
			if !strings.Contains(told, test.want) || strings.Contains(told, test.none) {
				t.Errorf("told %q; want %q", told, test.want)
			}
		})
	}
}
