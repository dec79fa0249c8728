package main

import (
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// printLearned prints what the router has learned, each figure with its samples and its
// age.
func (a *app) printLearned(w io.Writer, l *lmwardenv1.Learned) {
	if l == nil {
		return
	}
	_, _ = fmt.Fprintln(w)
	t := a.newTable("learned", ">figure", ">samples", ">latest")
	add := func(name, unit string, m *lmwardenv1.Measure, digits int) {
		figure, age := notReported, "-"
		if m != nil {
			figure = fmt.Sprintf("%.*f %s", digits, m.GetValue(), unit)
		}
		if m.GetAge() != nil {
			age = span(m.GetAge().AsDuration()) + " ago"
		}
		t.add(name, figure, count(m.GetSamples()), age)
	}
	add("prefill", "tokens/s", l.GetPrefillRate(), 0)
	add("tokens per byte", "", l.GetTokensPerByte(), 3)
	add("growth of a prompt", "tokens/turn", l.GetGrowth(), 0)
	add("answer", "tokens", l.GetOutput(), 0)
	add("time of a turn", "s", l.GetService(), 1)
	add("gap between turns, median", "s", l.GetGap(), 2)
	for _, s := range l.GetShared() {
		t.add("shared prompt", tokens(s.GetTokens())+" tokens", count(s.GetSamples()), "-")
	}
	t.print(w)
	wait := func(d *durationpb.Duration) string {
		if d == nil {
			return notReported
		}
		return d.AsDuration().Round(10 * time.Millisecond).String()
	}
	_, _ = fmt.Fprintf(w, "Of the gaps 95 %% are within %s; %s did not come back. A conversation counts as at work for %s after a turn; its place is kept for %s while others wait, and may be taken after %s.\n",
		wait(l.GetGapP95()), plural(int(l.GetEnds()), "conversation", "conversations"), wait(l.GetLinger()), wait(l.GetKeep()), wait(l.GetSpell()))
}
