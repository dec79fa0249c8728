package server

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
)

// learned returns what the router has learned of a model as shown; admission says
// whether the figures of the door apply.
func learned(l *route.Learned, admission bool, now time.Time) *lmwardenv1.Learned {
	out := &lmwardenv1.Learned{
		TokensPerByte: measure(l.TokensPerByte, now),
		PrefillRate:   measure(l.PrefillRate, now),
		Growth:        measure(l.Growth, now),
		Output:        measure(l.Output, now),
		Service:       measure(l.Service, now),
		Gap:           measure(l.Gap, now),
		Ends:          count(l.Ends),
		Linger:        durationpb.New(l.Linger),
	}
	if l.Gap.Samples > 0 {
		out.GapP95 = durationpb.New(l.GapP95)
	}
	if admission {
		out.Keep, out.Spell = durationpb.New(l.Keep), durationpb.New(l.Spell)
	}
	for _, s := range l.Shared {
		out.Shared = append(out.Shared, &lmwardenv1.SharedPrompt{
			Tokens: uint64(max(s.Tokens, 0)), Samples: count(s.Samples), References: count(s.References),
		})
	}
	return out
}

// measure returns a learned figure as shown; nil when there is neither a sample nor a
// guess.
func measure(m route.Measure, now time.Time) *lmwardenv1.Measure {
	if m.Samples == 0 && m.Value == 0 {
		return nil
	}
	out := &lmwardenv1.Measure{Value: m.Value, Samples: count(m.Samples)}
	if !m.At.IsZero() {
		out.Age = durationpb.New(max(0, now.Sub(m.At)))
	}
	return out
}
