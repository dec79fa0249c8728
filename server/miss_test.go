package server

import (
	"strings"
	"testing"

	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
)

// ExplainRequest tells each cause of a miss by its own name.
func TestEveryCauseOfAMissIsTold(t *testing.T) {
	for m := route.MissNone; m <= route.MissReplicaRestarted; m++ {
		want := "MISS_CAUSE_" + strings.ToUpper(m.String())
		if m == route.MissNone {
			want = "MISS_CAUSE_UNSPECIFIED"
		}
		r := &proxy.Record{Decided: true, Miss: m, Decision: route.Decision{Class: route.ClassSticky}}
		if got := requestRecord(r).GetMiss().String(); got != want {
			t.Errorf("%v is told as %s, want %s", m, got, want)
		}
	}
}
