package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func (a *app) replicaCommand() *cobra.Command {
	return parent("replica", "List, restart, drain and resume single replicas",
		a.replicaListCommand(),
		a.replicaRestartCommand(),
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

func (a *app) replicaRestartCommand() *cobra.Command {
	noWait := false
	c := a.replicaVerb("restart", "Let a replica finish what it has, end its processes and start it again", func(c *cobra.Command, cs *clients, model string, index uint32) (*lmwardenv1.Replica, error) {
		r, err := cs.replicas.RestartReplica(c.Context(), &lmwardenv1.RestartReplicaRequest{Model: model, Index: index})
		if err != nil || noWait {
			return r.GetReplica(), err
		}
		return a.waitRestarted(c.Context(), cs, r.GetReplica())
	})
	c.Flags().BoolVar(&noWait, "no-wait", false, "return at once, before the replica is ready again")
	return c
}

// waitRestarted follows a replica until a later life than the one it had is ready.
// Progress goes to standard error. The restart goes on when the caller leaves.
func (a *app) waitRestarted(ctx context.Context, cs *clients, old *lmwardenv1.Replica) (*lmwardenv1.Replica, error) {
	stream, err := cs.replicas.WatchReplicas(ctx, &lmwardenv1.WatchReplicasRequest{Model: old.GetModel()})
	if err != nil {
		return nil, err
	}
	defer stream.Close() //nolint:errcheck // nothing is sent any more
	said := ""
	for {
		m, err := stream.Receive()
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(m.GetReplicas(), func(r *lmwardenv1.Replica) bool { return r.GetIndex() == old.GetIndex() })
		if at < 0 {
			return nil, &codeError{exitNotFound, fmt.Errorf("replica %d of %s is gone: its model was stopped or changed meanwhile", old.GetIndex(), old.GetModel())}
		}
		r := m.GetReplicas()[at]
		later := r.GetIncarnation() > old.GetIncarnation()
		switch r.GetState() {
		case lmwardenv1.ReplicaState_REPLICA_STATE_READY:
			if later {
				return r, nil
			}
		case lmwardenv1.ReplicaState_REPLICA_STATE_FAILED, lmwardenv1.ReplicaState_REPLICA_STATE_BACKOFF:
			if later {
				return nil, fmt.Errorf("replica %d of %s did not start again: %s", r.GetIndex(), r.GetModel(), or(r.GetMessage(), enumWord(r.GetState())))
			}
		}
		now := or(r.GetPhase(), enumWord(r.GetState()))
		if !later && r.GetState() == lmwardenv1.ReplicaState_REPLICA_STATE_READY {
			now = "" // the restart has not begun
		}
		if now != "" && now != said {
			fmt.Fprintf(a.err, "replica %d: %s\n", r.GetIndex(), now)
		}
		said = or(now, said)
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
		lines := []string{r.GetPhase(), r.GetMessage()}
		if a.wide() && len(r.GetCommand()) > 0 {
			lines = append(lines, "runs "+shellLine(r.GetCommand()))
		}
		for _, line := range lines {
			if line != "" {
				_, _ = io.WriteString(w, r.GetModel()+"/"+count(r.GetIndex())+": "+line+"\n")
			}
		}
	}
}

// shellLine writes a command as it could be typed.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if word == "" || strings.ContainsFunc(word, func(r rune) bool {
			return !strings.ContainsRune("-_./:=,@%+", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted[i] = word
	}
	return strings.Join(quoted, " ")
}

// positive prints a number that is only there above 0.
func positive(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
