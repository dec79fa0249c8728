package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/face"
)

func (a *app) modelCommand() *cobra.Command {
	return parent("model", "List, add, change, start and stop models",
		a.modelListCommand(), a.modelShowCommand(), a.modelAddCommand(), a.modelSetCommand(),
		a.modelStartCommand(), a.modelStopCommand(), a.modelRemoveCommand(), a.modelLogsCommand())
}

func (a *app) modelListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all models",
		Args:  arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			list, err := cs.models.ListModels(c.Context(), &lmwardenv1.ListModelsRequest{})
			if err != nil {
				return err
			}
			return a.show(list, func(w io.Writer) { a.printModels(w, list.GetModels()) })
		},
	}
}

func (a *app) modelShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show MODEL",
		Short: "Show a model: its state, settings and replicas; -o wide shows unset settings too",
		Args:  arguments("MODEL"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			m, err := cs.models.GetModel(c.Context(), &lmwardenv1.GetModelRequest{Name: args[0]})
			if err != nil {
				return err
			}
			return a.showModel(m.GetModel())
		},
	}
}

func (a *app) modelAddCommand() *cobra.Command {
	var stopped bool
	c := &cobra.Command{
		Use:     "add MODEL --source SOURCE",
		Short:   "Make a model and start it",
		Example: "  lmwarden model add qwen3-4b --source Qwen/Qwen3-4B-Instruct-2507 --replicas 4 --tool-call-parser hermes",
		Args:    arguments("MODEL"),
	}
	spec := addSettings(c.Flags(), (&lmwardenv1.ModelSpec{}).ProtoReflect().Descriptor(), "")
	routing := addSettings(c.Flags(), (&lmwardenv1.RoutingSettings{}).ProtoReflect().Descriptor(), "routing-")
	c.Flags().BoolVar(&stopped, "stopped", false, "make the model without starting it")
	c.RunE = func(c *cobra.Command, args []string) error {
		req := &lmwardenv1.CreateModelRequest{Name: args[0], Spec: &lmwardenv1.ModelSpec{}, Stopped: stopped}
		if _, err := spec.apply(req.Spec); err != nil {
			return err
		}
		settings := &lmwardenv1.RoutingSettings{}
		if names, err := routing.apply(settings); err != nil {
			return err
		} else if len(names) > 0 {
			req.Routing = settings
		}
		cs, err := a.dial()
		if err != nil {
			return err
		}
		m, err := cs.models.CreateModel(c.Context(), req)
		if err != nil {
			return err
		}
		return a.showModel(m.GetModel())
	}
	return c
}

func (a *app) modelSetCommand() *cobra.Command {
	var revision uint64
	c := &cobra.Command{
		Use:     "set MODEL --SETTING VALUE...",
		Short:   "Change a model; some settings restart its replicas one by one",
		Long:    "Change a model. An empty value leaves the setting to its default. Settings that\nengines read at their start restart the replicas one by one.",
		Example: "  lmwarden model set qwen3-4b --max-num-seqs 16",
		Args:    arguments("MODEL"),
	}
	spec := addSettings(c.Flags(), (&lmwardenv1.ModelSpec{}).ProtoReflect().Descriptor(), "")
	c.Flags().Uint64Var(&revision, "revision", 0, "refuse when the model has another revision by now; 0 does not ask")
	c.RunE = func(c *cobra.Command, args []string) error {
		req := &lmwardenv1.UpdateModelRequest{Name: args[0], Spec: &lmwardenv1.ModelSpec{}, Revision: revision}
		var err error
		if req.UpdateMask, err = spec.change(req.Spec, c.Example); err != nil {
			return err
		}
		cs, err := a.dial()
		if err != nil {
			return err
		}
		m, err := cs.models.UpdateModel(c.Context(), req)
		if err != nil {
			return err
		}
		return a.showModel(m.GetModel())
	}
	return c
}

// showModel prints one model.
func (a *app) showModel(m *lmwardenv1.Model) error {
	return a.show(m, func(w io.Writer) {
		s := m.GetStatus()
		state := stateCell(s.GetState())
		text := paint(state, a.colour())
		if s.GetMessage() != "" {
			text += ": " + s.GetMessage()
		}
		values := []string{"model", m.GetName(), "state", text, "revision", fmt.Sprint(m.GetRevision())}
		if m.GetDeclaredIn() != "" {
			values = append(values, "declared in", m.GetDeclaredIn()+" (change it there)")
		}
		values = append(values,
			"engine", or(s.GetEngineVersion(), notReported),
			"longest context", optional(s.MaxModelLen, tokens[uint32]))
		a.pairs(w, values...)
		a.printSettings(w, m.GetSpec())
		if len(s.GetReplicas()) > 0 {
			_, _ = io.WriteString(w, "\n")
			a.printReplicas(w, s.GetReplicas())
		}
	})
}

// printModels prints one line per model. The wide form adds a column for each setting
// that any of them has.
func (a *app) printModels(w io.Writer, models []*lmwardenv1.Model) {
	if len(models) == 0 {
		_, _ = io.WriteString(w, "There is no model yet; make one with \"lmwarden model add\".\n")
		return
	}
	headings := []string{"model", "state", ">ready", ">in flight", ">conversations", "cache", ">hits 1 h", ">first token", ">tokens/s"}
	var extra []face.Field
	if a.wide() {
		extra = usedFields(models)
		for _, f := range extra {
			headings = append(headings, f.Name)
		}
	}
	t := a.newTable(headings...)
	for _, m := range models {
		s := m.GetStatus()
		ready := 0
		for _, r := range s.GetReplicas() {
			if r.GetState() == lmwardenv1.ReplicaState_REPLICA_STATE_READY {
				ready++
			}
		}
		row := []any{
			m.GetName(), stateCell(s.GetState()), fmt.Sprintf("%d/%d", ready, len(s.GetReplicas())),
			count(s.GetInFlight()), count(s.GetActiveConversations()), fitCell(s.GetFit()),
			optional(s.HitRateHour, share), optional(s.FirstTokenP50Seconds, secondsText),
			fmt.Sprintf("%.0f", s.GetCompletionTokensPerSecond()),
		}
		for _, f := range extra {
			text, err := face.Get(m.GetSpec(), f.Name)
			if err != nil {
				text = err.Error()
			}
			row = append(row, or(text, f.Face.GetAbsent()))
		}
		t.add(row...)
	}
	t.print(w)
	for _, m := range models {
		if message := m.GetStatus().GetMessage(); message != "" {
			_, _ = fmt.Fprintf(w, "%s: %s\n", m.GetName(), message)
		}
	}
}

// usedFields returns the settings that at least one of the models has.
func usedFields(models []*lmwardenv1.Model) []face.Field {
	var used []face.Field
	for _, f := range face.Fields((&lmwardenv1.ModelSpec{}).ProtoReflect().Descriptor()) {
		for _, m := range models {
			if text, err := face.Get(m.GetSpec(), f.Name); err == nil && text != "" {
				used = append(used, f)
				break
			}
		}
	}
	return used
}
