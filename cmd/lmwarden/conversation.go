package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func (a *app) conversationCommand() *cobra.Command {
	return parent("conversation", "List, move and forget conversations",
		a.conversationListCommand(), a.conversationMoveCommand(), a.conversationForgetCommand())
}

func (a *app) conversationListCommand() *cobra.Command {
	var replica int
	var limit uint32
	c := &cobra.Command{
		Use:   "list MODEL",
		Short: "List the conversations that the router remembers, latest active first",
		Args:  arguments("MODEL"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			req := &lmwardenv1.ListConversationsRequest{Model: args[0]}
			if c.Flags().Changed("replica") {
				n := uint32(max(0, replica))
				req.Replica = &n
			}
			all := &lmwardenv1.ListConversationsResponse{}
			err = pages(limit, func(size uint32, token string) (int, string, error) {
				req.PageSize, req.PageToken = size, token
				page, err := cs.routing.ListConversations(c.Context(), req)
				all.Conversations = append(all.Conversations, page.GetConversations()...)
				all.NextPageToken = page.GetNextPageToken()
				return len(page.GetConversations()), page.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return a.show(all, func(w io.Writer) { a.printConversations(w, all.GetConversations()) })
		},
	}
	c.Flags().IntVar(&replica, "replica", 0, "only those at home on this replica")
	limitFlag(c, &limit)
	return c
}

func (a *app) conversationMoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "move MODEL CONVERSATION REPLICA",
		Short:   "Give a conversation another home",
		Example: "  lmwarden conversation move qwen3-4b 8f1c0a9be2d47750 2",
		Args:    arguments("MODEL", "CONVERSATION", "REPLICA"),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := replicaIndex(args[2])
			if err != nil {
				return err
			}
			cs, err := a.dial()
			if err != nil {
				return err
			}
			moved, err := cs.routing.MoveConversation(c.Context(), &lmwardenv1.MoveConversationRequest{Model: args[0], Conversation: args[1], Replica: n})
			if err != nil {
				return err
			}
			return a.show(moved, func(w io.Writer) {
				a.printConversations(w, []*lmwardenv1.Conversation{moved.GetConversation()})
			})
		},
	}
}

func (a *app) conversationForgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget MODEL CONVERSATION",
		Short: "Forget a conversation; its next turn is placed anew",
		Args:  arguments("MODEL", "CONVERSATION"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			done, err := cs.routing.ForgetConversation(c.Context(), &lmwardenv1.ForgetConversationRequest{Model: args[0], Conversation: args[1]})
			if err != nil {
				return err
			}
			return a.show(done, func(w io.Writer) { fmt.Fprintf(w, "forgot %s of %s\n", args[1], args[0]) })
		},
	}
}

// limitFlag adds the flag that bounds a list.
func limitFlag(c *cobra.Command, limit *uint32) {
	c.Flags().Uint32Var(limit, "limit", 100, "most entries to print; 0 for all")
}

// maxPage is the largest page that the API gives.
const maxPage = 1000

// pages asks for page after page until the limit or the last one. Get returns how
// many entries the page had and the token of the next one.
func pages(limit uint32, get func(size uint32, token string) (int, string, error)) error {
	token := ""
	for got := uint32(0); ; {
		size := uint32(maxPage)
		if limit > 0 {
			size = min(size, limit-got)
		}
		n, next, err := get(size, token)
		if err != nil {
			return err
		}
		got += uint32(n)
		if next == "" || n == 0 || limit > 0 && got >= limit {
			return nil
		}
		token = next
	}
}

func (a *app) printConversations(w io.Writer, conversations []*lmwardenv1.Conversation) {
	headings := []string{"conversation", ">home", ">context", ">cached est.", ">turns", ">in flight", ">idle", "kind"}
	if a.wide() {
		headings = append(headings, "key from", "group", "admitted")
	}
	t := a.newTable(headings...)
	now := a.now()
	for _, v := range conversations {
		kind := "main"
		if v.GetSubagent() {
			kind = "subagent"
		}
		if v.GetWaiting() {
			kind += ", at the door"
		}
		row := []any{
			v.GetId(), index(v.Home), optional(v.ContextTokens, tokens[uint64]), tokens(v.GetResidentTokens()),
			count(v.GetTurns()), count(v.GetInFlight()), age(v.GetLastActive(), now), kind,
		}
		if a.wide() {
			row = append(row, v.GetKeySource(), v.GetGroup(), yesNo(v.GetAdmitted()))
		}
		t.add(row...)
	}
	t.print(w)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
