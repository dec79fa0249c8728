package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func (a *app) eventsCommand() *cobra.Command {
	var model string
	var limit uint32
	var follow bool
	c := &cobra.Command{
		Use:   "events",
		Short: "Print what happened on the box, oldest first",
		Args:  arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			all := &lmwardenv1.ListEventsResponse{}
			err = pages(limit, func(size uint32, token string) (int, string, error) {
				page, err := cs.system.ListEvents(c.Context(), &lmwardenv1.ListEventsRequest{Model: model, PageSize: size, PageToken: token})
				all.Events = append(all.Events, page.GetEvents()...)
				all.NextPageToken = page.GetNextPageToken()
				return len(page.GetEvents()), page.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			slices.Reverse(all.Events) // the API gives the newest first
			if !follow {
				return a.show(all, func(w io.Writer) { a.printEvents(w, all.GetEvents()) })
			}
			return a.followEvents(c, cs, model, all.GetEvents())
		},
	}
	c.Flags().StringVar(&model, "model", "", "only this model")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new events until interrupted")
	limitFlag(c, &limit)
	return c
}

// followEvents prints each event on a line of its own, first those known already.
func (a *app) followEvents(c *cobra.Command, cs *clients, model string, known []*lmwardenv1.Event) error {
	stream, err := cs.system.WatchEvents(c.Context(), &lmwardenv1.WatchEventsRequest{Model: model})
	if err != nil {
		return err
	}
	last := uint64(0)
	print := func(e *lmwardenv1.Event) error {
		if e.GetId() <= last {
			return nil // it was in the list already
		}
		last = e.GetId()
		return a.showLine(e, func(w io.Writer) { _, _ = fmt.Fprintln(w, a.eventLine(e)) })
	}
	for _, e := range known {
		if err := print(e); err != nil {
			return err
		}
	}
	return receive(c.Context(), stream, func(m *lmwardenv1.WatchEventsResponse) error { return print(m.GetEvent()) })
}

func (a *app) printEvents(w io.Writer, events []*lmwardenv1.Event) {
	if len(events) == 0 {
		_, _ = io.WriteString(w, "Nothing happened yet.\n")
	}
	for _, e := range events {
		_, _ = fmt.Fprintln(w, a.eventLine(e))
	}
}

// eventLine is one event on one line.
func (a *app) eventLine(e *lmwardenv1.Event) string {
	severity := cell{fmt.Sprintf("%-7s", enumWord(e.GetSeverity())), faint}
	switch e.GetSeverity() {
	case lmwardenv1.Severity_SEVERITY_WARNING:
		severity.style = yellow
	case lmwardenv1.Severity_SEVERITY_ERROR:
		severity.style = red
	}
	subject := e.GetModel()
	if e.Replica != nil {
		subject += "/" + index(e.Replica)
	}
	if subject != "" {
		subject += ": "
	}
	return fmt.Sprintf("%s  %s  %s%s", e.GetTime().AsTime().Local().Format("2006-01-02 15:04:05"), paint(severity, a.colour()), subject, e.GetMessage())
}
