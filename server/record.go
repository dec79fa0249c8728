package server

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
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
	why := explainClass(&r.Decision)
	if w := r.Decision.Wait; w > 0 {
		why += fmt.Sprintf(" It waited %s at the door.", w.Round(time.Millisecond))
	}
	return why
}

func explainClass(d *route.Decision) string {
	switch d.Class {
	case route.ClassPlaced:
		return fmt.Sprintf("First turn of a conversation: replica %d had the lowest score and is its home now.", d.Replica)
	case route.ClassSticky:
		return fmt.Sprintf("Replica %d is the home of the conversation and holds its cache.", d.Replica)
	case route.ClassSpilled:
		return fmt.Sprintf("Its home, replica %d, had %d requests in flight, which is past the spill threshold; replica %d took this one turn.", d.Home, d.HomeInFlight, d.Replica)
	case route.ClassRehomed:
		return fmt.Sprintf("The former home is gone, draining or restarted; replica %d is the new one.", d.Replica)
	case route.ClassClientPinned:
		return fmt.Sprintf("The client named replica %d.", d.Replica)
	case route.ClassUnkeyed:
		return fmt.Sprintf("No conversation could be told from the request; replica %d had the fewest requests in flight.", d.Replica)
	case route.ClassSide:
		return fmt.Sprintf("A side call of a known session; it went to replica %d and moves no home.", d.Replica)
	case route.ClassOff:
		return fmt.Sprintf("Affinity is off; replica %d had the fewest requests in flight.", d.Replica)
	}
	return ""
}
