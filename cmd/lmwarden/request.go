package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func (a *app) requestCommand() *cobra.Command {
	explain := &cobra.Command{
		Use:   "explain ID",
		Short: "Show why a request went where it went; the id is in its header x-lmwarden-request",
		Args:  arguments("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			r, err := cs.routing.ExplainRequest(c.Context(), &lmwardenv1.ExplainRequestRequest{Id: args[0]})
			if err != nil {
				return err
			}
			return a.show(r.GetRecord(), func(w io.Writer) { a.printRecord(w, r.GetRecord()) })
		},
	}
	return parent("request", "List and explain requests", a.requestListCommand(), explain)
}

func (a *app) requestListCommand() *cobra.Command {
	req := &lmwardenv1.ListRequestsRequest{}
	var decision string
	var limit uint32
	c := &cobra.Command{
		Use:   "list",
		Short: "List the latest requests, newest first",
		Args:  arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			if decision != "" {
				number, err := enumNumber(req.Decision.Descriptor(), decision)
				if err != nil {
					return err
				}
				req.Decision = lmwardenv1.DecisionClass(number)
			}
			cs, err := a.dial()
			if err != nil {
				return err
			}
			all := &lmwardenv1.ListRequestsResponse{}
			err = pages(limit, func(size uint32, token string) (int, string, error) {
				req.PageSize, req.PageToken = size, token
				page, err := cs.stats.ListRequests(c.Context(), req)
				all.Requests = append(all.Requests, page.GetRequests()...)
				all.NextPageToken = page.GetNextPageToken()
				return len(page.GetRequests()), page.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return a.show(all, func(w io.Writer) { a.printRequests(w, all.GetRequests()) })
		},
	}
	c.Flags().StringVar(&req.Model, "model", "", "only this model")
	c.Flags().StringVar(&req.Conversation, "conversation", "", "only this conversation")
	c.Flags().StringVar(&decision, "decision", "", "only this class: placed, sticky, spilled, rehomed, ...")
	c.Flags().BoolVar(&req.Failed, "failed", false, "only those that failed")
	limitFlag(c, &limit)
	return c
}

// enumNumber reads the word of an enum value as enumWord writes it.
func enumNumber(ed protoreflect.EnumDescriptor, word string) (protoreflect.EnumNumber, error) {
	var words []string
	for i := range ed.Values().Len() {
		v := ed.Values().Get(i)
		if v.Number() == 0 {
			continue
		}
		name := valueWord(v)
		if name == word {
			return v.Number(), nil
		}
		words = append(words, name)
	}
	return 0, usageErrorf("%q does not exist; choose from %s", word, strings.Join(words, ", "))
}

func (a *app) printRequests(w io.Writer, requests []*lmwardenv1.RequestRecord) {
	headings := []string{"arrived", "id", "model", ">replica", "decision", ">turn", ">status", ">first token", ">duration", ">prompt", ">cached", ">answer", "miss"}
	if a.wide() {
		headings = append(headings, "conversation", "key from", "path", "client", ">held", ">attempts")
	}
	t := a.newTable(headings...)
	for _, r := range requests {
		status := cell{text: count(r.GetStatus())}
		if r.GetStatus() >= 400 {
			status.style = red
		}
		row := []any{
			clock(r.GetArrived()), r.GetId(), r.GetModel(), index(r.Replica), known(r.GetDecision()), positive(r.GetTurn()), status,
			took(r.GetFirstToken()), took(r.GetDuration()),
			optional(r.PromptTokens, tokens[uint64]), optional(r.CachedTokens, tokens[uint64]), optional(r.CompletionTokens, tokens[uint64]),
			known(r.GetMiss()),
		}
		if a.wide() {
			row = append(row, r.GetConversation(), r.GetKeySource(), r.GetPath(), r.GetClient(), took(r.GetHeld()), count(r.GetAttempts()))
		}
		t.add(row...)
	}
	t.print(w)
}

// known is the word of an enum value, or nothing for the unspecified one.
func known(e protoreflect.Enum) string {
	if e.Number() == 0 {
		return ""
	}
	return enumWord(e)
}

// printRecord prints a whole decision record.
func (a *app) printRecord(w io.Writer, r *lmwardenv1.RequestRecord) {
	values := []string{
		"request", r.GetId(),
		"arrived", r.GetArrived().AsTime().Local().Format("2006-01-02 15:04:05.000"),
		"model", modelNames(r),
		"path", r.GetPath(),
		"client", r.GetClient(),
		"decision", known(r.GetDecision()),
		"why", r.GetReason(),
		"replica", index(r.Replica),
		"home", index(r.Home),
		"conversation", r.GetConversation(),
		"key from", r.GetKeySource(),
		"turn", positive(r.GetTurn()),
		"status", count(r.GetStatus()),
		"error", r.GetError(),
		"held", took(r.GetHeld()),
		"first token", took(r.GetFirstToken()),
		"duration", took(r.GetDuration()),
		"prompt", optional(r.PromptTokens, tokens[uint64]),
		"cached", optional(r.CachedTokens, tokens[uint64]),
		"answer", optional(r.CompletionTokens, tokens[uint64]),
		"miss", known(r.GetMiss()),
		"attempts", count(r.GetAttempts()),
	}
	var there []string
	for i := 0; i < len(values); i += 2 {
		if values[i+1] != "" {
			there = append(there, values[i], values[i+1])
		}
	}
	a.pairs(w, there...)
	if len(r.GetTerms()) == 0 {
		return
	}
	_, _ = io.WriteString(w, "\n")
	t := a.newTable(">replica", ">in flight", ">fill", ">conversations", ">score", ">price", "eligible")
	for _, term := range r.GetTerms() {
		t.add(count(term.GetReplica()), count(term.GetInFlight()), optional(term.Fill, share), count(term.GetLiveConversations()),
			fmt.Sprintf("%.2f", term.GetScore()), decimals(term.PriceSeconds), yesNo(term.GetEligible()))
	}
	t.print(w)
}

// modelNames is the model that served, and the name that was asked for if another.
func modelNames(r *lmwardenv1.RequestRecord) string {
	if r.GetRequestedModel() == "" || r.GetRequestedModel() == r.GetModel() {
		return r.GetModel()
	}
	return fmt.Sprintf("%s (asked for %s)", r.GetModel(), r.GetRequestedModel())
}
