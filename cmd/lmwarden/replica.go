package main

import (
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func (a *app) replicaCommand() *cobra.Command {
	return parent("replica", "List, restart, drain and resume single replicas",
		a.replicaListCommand(),
		a.replicaVerb("restart", "Drain a replica, end its processes and start it again", func(c *cobra.Command, cs *clients, model string, index uint32) (*lmwardenv1.Replica, error) {
			r, err := cs.replicas.RestartReplica(c.Context(), &lmwardenv1.RestartReplicaRequest{Model: model, Index: index})
			return r.GetReplica(), err
		}),
		a.replicaVerb("drain", "Take a replica out of rotation; it finishes what it has", func(c *cobra.Command, cs *clients, model string, index uint32) (*lmwardenv1.Replica, error) {
			r, err := cs.replicas.DrainReplica(c.Context(), &lmwardenv1.DrainReplicaRequest{Model: model, Index: index})
			return r.GetReplica(), err
		}),
		a.replicaVerb("resume", "Put a drained replica back into rotation", func(c *cobra.Command, cs *clients, model string, index uint32) (*lmwardenv1.Replica, error) {
			r, err := cs.replicas.ResumeReplica(c.Context(), &lmwardenv1.ResumeReplicaRequest{Model: model, Index: index})
			return r.GetReplica(), err
		}))
}

func (a *app) replicaListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list [MODEL]",
		Short: "List replicas with their state, port and process",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			req := &lmwardenv1.ListReplicasRequest{Model: strings.Join(args, "")}
			list, err := cs.replicas.ListReplicas(c.Context(), req)
			if err != nil {
				return err
			}
			return a.show(list, func(w io.Writer) { a.printReplicas(w, list.GetReplicas()) })
		},
	}
}

// replicaVerb makes a verb that acts on one replica and prints it.
func (a *app) replicaVerb(name, short string, call func(*cobra.Command, *clients, string, uint32) (*lmwardenv1.Replica, error)) *cobra.Command {
	return &cobra.Command{
		Use:     name + " MODEL INDEX",
		Short:   short,
		Example: "  lmwarden replica " + name + " qwen3-4b 2",
		Args:    arguments("MODEL", "INDEX"),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := replicaIndex(args[1])
			if err != nil {
				return err
			}
			cs, err := a.dial()
			if err != nil {
				return err
			}
			replica, err := call(c, cs, args[0], n)
			if err != nil {
				return err
			}
			return a.show(replica, func(w io.Writer) { a.printReplicas(w, []*lmwardenv1.Replica{replica}) })
		},
	}
}

// replicaIndex reads the index of a replica.
func replicaIndex(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, usageErrorf("%q is not the index of a replica; write a number from 0", text)
	}
	return uint32(n), nil
}

// printReplicas prints one line per replica, and below it what a person should know.
func (a *app) printReplicas(w io.Writer, replicas []*lmwardenv1.Replica) {
	headings := []string{"model", ">replica", "state", "for", ">pid", ">port", ">life", ">restarts", ">capacity"}
	if a.wide() {
		headings = append(headings, "version", "gpus", "url")
	}
	t := a.newTable(headings...)
	now := a.now()
	for _, r := range replicas {
		row := []any{
			r.GetModel(), count(r.GetIndex()), stateCell(r.GetState()), age(r.GetSince(), now),
			positive(uint64(r.GetPid())), positive(uint64(r.GetPort())), positive(r.GetIncarnation()),
			count(r.GetRestarts()), optional(r.CapacityTokens, tokens[uint64]),
		}
		if a.wide() {
			row = append(row, or(r.GetEngineVersion(), notReported), strings.Join(r.GetGpus(), ","), r.GetUrl())
		}
		t.add(row...)
	}
	t.print(w)
	for _, r := range replicas {
		for _, line := range []string{r.GetPhase(), r.GetMessage()} {
			if line != "" {
				_, _ = io.WriteString(w, r.GetModel()+"/"+count(r.GetIndex())+": "+line+"\n")
			}
		}
	}
}

// positive prints a number that is only there above 0.
func positive(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
