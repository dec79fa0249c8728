package main

import (
	"strings"
	"testing"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// The card says when the spill threshold sends nobody away.
func TestCardSaysWhenTheThresholdCounts(t *testing.T) {
	a := &app{streams: streams{getenv: func(string) string { return "" }}, output: outputTable}
	for name, test := range map[string]struct {
		change func(c *lmwardenv1.RoutingCard)
		want   bool
	}{
		"none":        {func(c *lmwardenv1.RoutingCard) { c.Admission = lmwardenv1.Admission_ADMISSION_NONE }, true},
		"working set": {func(c *lmwardenv1.RoutingCard) {}, false},
		"cannot work": {func(c *lmwardenv1.RoutingCard) { c.AdmissionMessage = "Nobody is held." }, true},
		"no affinity": {func(c *lmwardenv1.RoutingCard) { c.Affinity = false }, true},
	} {
		card := fakeCard()
		card.Admission = lmwardenv1.Admission_ADMISSION_WORKING_SET
		test.change(card)
		var out strings.Builder
		a.printCard(&out, card)
		if got := !strings.Contains(out.String(), "Spill threshold 8 (auto), not while admission works"); got != test.want {
			t.Errorf("%s: the threshold counts: %t, want %t\n%s", name, got, test.want, out.String())
		}
	}
}
