package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func (a *app) routingCommand() *cobra.Command {
	return parent("routing", "Show and change how requests find their replica",
		a.routingShowCommand(), a.routingSetCommand(), a.routingWatchCommand())
}

func (a *app) routingShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show MODEL",
		Short: "Show the routing card; -o wide shows all settings and counters",
		Args:  arguments("MODEL"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			r, err := cs.routing.GetRouting(c.Context(), &lmwardenv1.GetRoutingRequest{Model: args[0]})
			if err != nil {
				return err
			}
			return a.show(r.GetCard(), func(w io.Writer) { a.printCard(w, r.GetCard()) })
		},
	}
}

func (a *app) routingSetCommand() *cobra.Command {
	var revision uint64
	c := &cobra.Command{
		Use:     "set MODEL --SETTING VALUE...",
		Short:   "Change routing settings live",
		Long:    "Change routing settings live; engines are not touched. \"auto\" or an empty value\ntakes a setting back to its default.",
		Example: "  lmwarden routing set qwen3-4b --affinity off\n  lmwarden routing set qwen3-4b --spill-threshold auto --admission \"working set\"",
		Args:    arguments("MODEL"),
	}
	flags := addSettings(c.Flags(), (&lmwardenv1.RoutingSettings{}).ProtoReflect().Descriptor(), "")
	c.Flags().Uint64Var(&revision, "revision", 0, "refuse when the settings have another revision by now; 0 does not ask")
	c.RunE = func(c *cobra.Command, args []string) error {
		req := &lmwardenv1.UpdateRoutingRequest{Model: args[0], Settings: &lmwardenv1.RoutingSettings{}, Revision: revision}
		var err error
		if req.UpdateMask, err = flags.change(req.Settings, "lmwarden routing set "+args[0]+" --affinity off"); err != nil {
			return err
		}
		cs, err := a.dial()
		if err != nil {
			return err
		}
		r, err := cs.routing.UpdateRouting(c.Context(), req)
		if err != nil {
			return err
		}
		return a.show(r.GetCard(), func(w io.Writer) { a.printCard(w, r.GetCard()) })
	}
	return c
}

func (a *app) routingWatchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch MODEL",
		Short: "Print the routing card whenever it changed, until interrupted",
		Args:  arguments("MODEL"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			stream, err := cs.routing.WatchRouting(c.Context(), &lmwardenv1.WatchRoutingRequest{Model: args[0]})
			if err != nil {
				return err
			}
			return receive(c.Context(), stream, func(m *lmwardenv1.WatchRoutingResponse) error {
				return a.redraw(m.GetCard(), func(w io.Writer) { a.printCard(w, m.GetCard()) })
			})
		},
	}
}

// keepsPlaces says whether admission decides where turns go, so that none leaves its home
// by the spill threshold.
func keepsPlaces(card *lmwardenv1.RoutingCard) bool {
	return card.GetAdmission() == lmwardenv1.Admission_ADMISSION_WORKING_SET && card.GetAffinity() && card.GetAdmissionMessage() == ""
}

// printCard prints the data-parallel routing card: the pills in one line, a row per
// replica, and since when the counters run.
func (a *app) printCard(w io.Writer, card *lmwardenv1.RoutingCard) {
	affinity := cell{"off", yellow}
	if card.GetAffinity() {
		affinity = cell{"on", green}
	}
	threshold := count(card.GetSpillThreshold())
	if card.GetSpillThresholdAuto() {
		threshold += " (auto)"
	}
	if keepsPlaces(card) {
		threshold += ", not while admission works"
	}
	sticky := "no turns yet"
	if card.StickyPercent != nil {
		sticky = fmt.Sprintf("%.1f%%", card.GetStickyPercent())
	}
	pills := []string{
		card.GetModel(),
		"Affinity " + paint(affinity, a.colour()),
		"Spill threshold " + threshold,
		"Sticky " + sticky,
		"In flight " + count(card.GetInFlight()),
	}
	if card.GetHeld() > 0 {
		pills = append(pills, fmt.Sprintf("Held %d (oldest %s)", card.GetHeld(), took(card.GetOldestHeld())))
	}
	_, _ = fmt.Fprintf(w, "%s\n\n", strings.Join(pills, "   "))
	a.printCardRows(w, card)

	fit := paint(fitCell(card.GetFit()), a.colour())
	if card.RoomFor != nil {
		fit += ", room for " + plural(int(card.GetRoomFor()), "more conversation", "more conversations")
	}
	_, _ = fmt.Fprintf(w, "\n%s; cache: %s\n", plural(int(card.GetActiveConversations()), "conversation at work", "conversations at work"), fit)
	if why := card.GetAdmissionMessage(); why != "" {
		_, _ = fmt.Fprintln(w, why)
	}
	if lacks := card.GetDoor().GetMessage(); lacks != "" {
		_, _ = fmt.Fprintln(w, lacks)
	}
	if since := card.GetCountersSince(); since != nil {
		_, _ = fmt.Fprintf(w, "Counters run since %s.\n", since.AsTime().Local().Format("2006-01-02 15:04:05"))
	}
	if a.wide() {
		a.printQueue(w, card)
		a.printLearned(w, card.GetLearned())
		a.printSettings(w, card.GetSettings())
	}
}

// printCardRows prints the rows of the card. What is in use is the working set, as on the
// page; what else the cache still holds is to be had only in the wide form.
func (a *app) printCardRows(w io.Writer, card *lmwardenv1.RoutingCard) {
	headings := []string{
		">replica", "state", ">in flight", ">sticky", ">placed", ">spilled in", ">rehomed", ">client-pinned",
		">running / waiting", ">kv used", ">hits", ">working set / capacity", "cache",
	}
	if a.wide() {
		headings = append(headings, ">unkeyed", ">side", ">off", ">held", ">at work", ">places", ">resident", ">figures' age")
	}
	t := a.newTable(headings...)
	for _, r := range card.GetReplicas() {
		n := r.GetCounts()
		row := []any{
			count(r.GetIndex()), stateCell(r.GetState()), count(r.GetInFlight()),
			count(n.GetSticky()), count(n.GetPlaced()), count(n.GetSpilled()), count(n.GetRehomed()), count(n.GetClientPinned()),
			runningAndWaiting(r),
			optional(r.KvUsed, share), optional(r.PrefixHitRate, share),
			tokens(r.GetActiveTokens()) + " / " + optional(r.CapacityTokens, tokens[uint64]),
			fitCell(r.GetFit()),
		}
		if a.wide() {
			figures := notReported
			if r.GetMetricsAge() != nil {
				figures = span(r.GetMetricsAge().AsDuration())
			}
			row = append(row, count(n.GetUnkeyed()), count(n.GetSide()), count(n.GetOff()), count(r.GetHeld()), count(r.GetActiveConversations()), count(r.GetAdmittedConversations()), tokens(r.GetResidentTokens()), figures)
		}
		t.add(row...)
	}
	t.print(w)
}

// runningAndWaiting are the engine's own figures, which are reported together.
func runningAndWaiting(r *lmwardenv1.RoutingReplica) string {
	if r.Running == nil && r.Waiting == nil {
		return notReported
	}
	return optional(r.Running, count[uint32]) + " / " + optional(r.Waiting, count[uint32])
}
