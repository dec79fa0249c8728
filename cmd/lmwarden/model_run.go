package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func (a *app) modelStartCommand() *cobra.Command {
	var wait bool
	c := &cobra.Command{
		Use:   "start MODEL",
		Short: "Start a stopped model",
		Args:  arguments("MODEL"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			started, err := cs.models.StartModel(c.Context(), &lmwardenv1.StartModelRequest{Name: args[0]})
			if err != nil {
				return err
			}
			m := started.GetModel()
			if wait {
				if m, err = a.waitReady(c.Context(), cs, args[0]); err != nil {
					return err
				}
			}
			return a.showModel(m)
		},
	}
	c.Flags().BoolVar(&wait, "wait", false, "return only when every replica is ready, or none can be started")
	return c
}

// waitReady follows a model until it is ready. Progress goes to standard error.
func (a *app) waitReady(ctx context.Context, cs *clients, name string) (*lmwardenv1.Model, error) {
	stream, err := cs.models.WatchModels(ctx, &lmwardenv1.WatchModelsRequest{})
	if err != nil {
		return nil, err
	}
	defer stream.Close() //nolint:errcheck // nothing is sent any more
	said := make(map[uint32]string)
	for {
		m, err := stream.Receive()
		if err != nil {
			return nil, err
		}
		model := find(m.GetModels(), name)
		if model == nil {
			return nil, &codeError{exitNotFound, fmt.Errorf("model %q was deleted meanwhile", name)}
		}
		switch model.GetStatus().GetState() {
		case lmwardenv1.ModelState_MODEL_STATE_READY:
			return model, nil
		case lmwardenv1.ModelState_MODEL_STATE_FAILED, lmwardenv1.ModelState_MODEL_STATE_BROKEN, lmwardenv1.ModelState_MODEL_STATE_STOPPED:
			return nil, fmt.Errorf("model %q is %s: %s", name, enumWord(model.GetStatus().GetState()), or(model.GetStatus().GetMessage(), "somebody stopped it"))
		}
		for _, r := range model.GetStatus().GetReplicas() {
			if now := or(r.GetPhase(), enumWord(r.GetState())); said[r.GetIndex()] != now {
				said[r.GetIndex()] = now
				fmt.Fprintf(a.err, "replica %d: %s\n", r.GetIndex(), now)
			}
		}
	}
}

func find(models []*lmwardenv1.Model, name string) *lmwardenv1.Model {
	for _, m := range models {
		if m.GetName() == name {
			return m
		}
	}
	return nil
}

func (a *app) modelStopCommand() *cobra.Command {
	var wait bool
	c := &cobra.Command{
		Use:   "stop MODEL",
		Short: "Drain a model's replicas and end their processes",
		Args:  arguments("MODEL"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			stopped, err := cs.models.StopModel(c.Context(), &lmwardenv1.StopModelRequest{Name: args[0], Wait: wait})
			if err != nil {
				return err
			}
			return a.showModel(stopped.GetModel())
		},
	}
	c.Flags().BoolVar(&wait, "wait", true, "return only when no process of it is left")
	return c
}

func (a *app) modelRemoveCommand() *cobra.Command {
	var revision uint64
	c := &cobra.Command{
		Use:     "rm MODEL",
		Aliases: []string{"remove"},
		Short:   "Stop a model and forget it",
		Args:    arguments("MODEL"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			gone, err := cs.models.DeleteModel(c.Context(), &lmwardenv1.DeleteModelRequest{Name: args[0], Revision: revision})
			if err != nil {
				return err
			}
			return a.show(gone, func(w io.Writer) { fmt.Fprintf(w, "removed %s\n", args[0]) })
		},
	}
	c.Flags().Uint64Var(&revision, "revision", 0, "refuse when the model has another revision by now; 0 does not ask")
	return c
}

// explainEmptyLog says why a log has no line: an engine that could not be run wrote none.
func (a *app) explainEmptyLog(ctx context.Context, cs *clients, req *lmwardenv1.StreamLogsRequest) {
	why := "it has not said anything"
	list, err := cs.replicas.ListReplicas(ctx, &lmwardenv1.ListReplicasRequest{Model: req.GetModel()})
	if err == nil {
		for _, r := range list.GetReplicas() {
			if r.GetIndex() == req.GetIndex() && r.GetMessage() != "" {
				why = r.GetMessage()
			}
		}
	}
	fmt.Fprintf(a.err, "The engine of replica %d wrote no line: %s\n", req.GetIndex(), why)
}

func (a *app) modelLogsCommand() *cobra.Command {
	req := &lmwardenv1.StreamLogsRequest{}
	c := &cobra.Command{
		Use:     "logs MODEL",
		Short:   "Print the log of a replica's engine",
		Example: "  lmwarden model logs qwen3-4b --replica 2 --follow",
		Args:    arguments("MODEL"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			req.Model = args[0]
			stream, err := cs.replicas.StreamLogs(c.Context(), req)
			if err != nil {
				return err
			}
			lines := 0
			err = receive(c.Context(), stream, func(m *lmwardenv1.StreamLogsResponse) error {
				lines += len(m.GetLines())
				return a.showLine(m, func(w io.Writer) {
					for _, line := range m.GetLines() {
						fmt.Fprintln(w, line)
					}
				})
			})
			if err == nil && lines == 0 {
				a.explainEmptyLog(c.Context(), cs, req)
			}
			return err
		},
	}
	c.Flags().Uint32Var(&req.Index, "replica", 0, "index of the replica")
	c.Flags().Uint32Var(&req.Tail, "tail", 200, "lines before the present end")
	c.Flags().BoolVarP(&req.Follow, "follow", "f", false, "go on with new lines until interrupted")
	c.Flags().Uint64Var(&req.Incarnation, "life", 0, "which start of the replica; 0 for the present or last one")
	return c
}
