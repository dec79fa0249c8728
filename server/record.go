package server

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
)

// requestRecord returns one request of the history as shown.
func requestRecord(r *proxy.Record) *lmwardenv1.RequestRecord {
	out := &lmwardenv1.RequestRecord{
		Id:               r.ID,
		Arrived:          stamp(r.Arrived),
		Model:            r.Model,
		RequestedModel:   r.RequestedModel,
		Path:             r.Path,
		KeySource:        r.KeySource,
		Status:           count(r.Status),
		Error:            r.Error,
		Duration:         durationpb.New(r.Duration),
		PromptTokens:     known[uint64](r.Prompt),
		CachedTokens:     known[uint64](r.Cached),
		CompletionTokens: known[uint64](r.Completion),
		Miss:             missCause(r.Miss),
		Attempts:         count(r.Attempts),
		Streamed:         r.Streamed,
		Client:           r.Client,
		Reason:           explain(r),
	}
	if r.FirstToken > 0 {
		out.FirstToken = durationpb.New(r.FirstToken)
	}
	if !r.Decided {
		return out
	}
	d := &r.Decision
	out.Replica = known[uint32](d.Replica)
	out.Decision = decisionClass(d.Class)
	out.Conversation = keyID(d.Conversation)
	out.Turn = d.Turn
	out.Home = known[uint32](d.Home)
	out.Held = durationpb.New(d.Wait)
	out.ByAdmission = d.ByAdmission()
	for _, t := range d.Terms {
		out.Terms = append(out.Terms, &lmwardenv1.ScoreTerms{
			Replica:           uint32(max(t.Replica, 0)),
			InFlight:          uint32(max(t.InFlight, 0)),
			Fill:              known[float64](t.Fill),
			LiveConversations: uint32(max(t.Live, 0)),
			Score:             t.Score,
			Eligible:          t.Eligible,
			PriceSeconds:      known[float64](t.Price),
		})
	}
	return out
}

// explain says in one sentence why a request went where it went.
func explain(r *proxy.Record) string {
	if !r.Decided {
		return "No replica was chosen: " + or(r.Error, "the request was answered before.")
	}
	_, why, _ := strings.Cut(r.Decision.Reason(), ": ")
	if why == "" {
		return ""
	}
	why = strings.ToUpper(why[:1]) + why[1:] + "."
	if w := r.Decision.Wait; w > 0 && !r.Decision.ByAdmission() { // else the reason says it
		why += fmt.Sprintf(" It waited %.1f s at the door.", w.Seconds())
	}
	return why
}
