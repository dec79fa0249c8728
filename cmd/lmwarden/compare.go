package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/face"
)

func (a *app) compareCommand() *cobra.Command {
	return parent("compare", "Compare two routing settings on live traffic",
		a.compareStartCommand(), a.compareShowCommand(), a.compareStopCommand())
}

func (a *app) compareStartCommand() *cobra.Command {
	var arms [2]string
	var length time.Duration
	var seed uint64
	c := &cobra.Command{
		Use:   "start MODEL --a SETTING=VALUE --b SETTING=VALUE",
		Short: "Assign new conversations at random to two settings and compare what comes of it",
		Long: "Assign each conversation that begins at random to one of two settings, which it\n" +
			"keeps for all its turns. The comparison ends by itself, and every conversation then\n" +
			"goes on with the model's settings. Affinity, spill-threshold, spill and policy can be\n" +
			"compared, also several at once, with commas between; admission must be none meanwhile.",
		Example: "  lmwarden compare start qwen3-4b --a affinity=on --b affinity=off --for 20m\n  lmwarden compare start qwen3-4b --a spill=count --b spill=priced,policy=hash",
		Args:    arguments("MODEL"),
		RunE: func(c *cobra.Command, args []string) error {
			req := &lmwardenv1.StartComparisonRequest{Model: args[0], Duration: durationpb.New(length), Seed: seed}
			for i, text := range arms {
				one, err := comparisonSetting("ab"[i:i+1], text)
				if err != nil {
					return err
				}
				req.Settings = append(req.Settings, one)
			}
			cs, err := a.dial()
			if err != nil {
				return err
			}
			r, err := cs.routing.StartComparison(c.Context(), req)
			if err != nil {
				return err
			}
			return a.showComparison(r.GetComparison())
		},
	}
	c.Flags().StringVar(&arms[0], "a", "", "the first settings: affinity=on")
	c.Flags().StringVar(&arms[1], "b", "", "the second settings: affinity=off")
	c.Flags().DurationVar(&length, "for", 20*time.Minute, "how long it runs, 10s to 7 days")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of the assignment and of the intervals")
	return c
}

// comparisonSetting reads one side: settings with commas between. The text is its name.
func comparisonSetting(flag, text string) (*lmwardenv1.ComparisonSetting, error) {
	if text == "" {
		return nil, usageErrorf("--%s is missing; name what to compare, as in --a affinity=on --b affinity=off", flag)
	}
	out := &lmwardenv1.ComparisonSetting{Name: text, Settings: &lmwardenv1.RoutingSettings{}}
	const longestName = 32
	if len(out.GetName()) > longestName {
		out.Name = "--" + flag
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found {
			return nil, usageErrorf("--%s: %q is no setting; write it as affinity=on", flag, part)
		}
		if err := face.Set(out.GetSettings(), strings.ReplaceAll(name, "-", "_"), value); err != nil {
			return nil, usageErrorf("--%s: %w", flag, err)
		}
	}
	return out, nil
}

func (a *app) compareShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show MODEL",
		Short: "Show the comparison that runs, or the last one",
		Args:  arguments("MODEL"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			r, err := cs.routing.GetComparison(c.Context(), &lmwardenv1.GetComparisonRequest{Model: args[0]})
			if err != nil {
				return err
			}
			return a.showComparison(r.GetComparison())
		},
	}
}

func (a *app) compareStopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop MODEL",
		Short: "End the comparison now and show its figures",
		Args:  arguments("MODEL"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			r, err := cs.routing.StopComparison(c.Context(), &lmwardenv1.StopComparisonRequest{Model: args[0]})
			if err != nil {
				return err
			}
			return a.showComparison(r.GetComparison())
		},
	}
}

func (a *app) showComparison(c *lmwardenv1.Comparison) error {
	return a.show(c, func(w io.Writer) { a.printComparison(w, c) })
}

// printComparison prints the verdict, the arms and a row per figure.
func (a *app) printComparison(w io.Writer, c *lmwardenv1.Comparison) {
	ends := moment(c.GetEnds(), a.now())
	state := "runs until " + ends
	if !c.GetRunning() {
		state = "ended at " + ends
		if c.GetMessage() != "" {
			state += ", because " + c.GetMessage()
		}
	}
	_, _ = fmt.Fprintf(w, "%s\n\n%s: the comparison %s.\n", c.GetVerdict(), c.GetModel(), state)
	names := []string{"A", "B"}
	for i, arm := range c.GetArms() {
		names[i] = arm.GetName()
		_, _ = fmt.Fprintf(w, "%s: %s, %d ended, %s, %d without an answer\n", arm.GetName(), plural(int(arm.GetConversations()), "conversation", "conversations"), arm.GetEnded(), plural(int(arm.GetTurns()), "turn", "turns"), arm.GetFailed())
	}
	_, _ = fmt.Fprintln(w)
	t := a.newTable("figure", ">"+names[0], ">"+names[1], ">difference", ">95 % interval", ">noise")
	for _, f := range c.GetFigures() {
		show := func(v *float64) string {
			return optional(v, func(x float64) string { return figureText(x, f.GetUnit()) })
		}
		interval, noise := notReported, notReported
		if f.Difference != nil {
			interval, noise = "too few", "-" // conversations, for an interval
		}
		if f.Low != nil && f.High != nil {
			interval = fmt.Sprintf("%s to %s", figureText(f.GetLow(), f.GetUnit()), figureText(f.GetHigh(), f.GetUnit()))
		}
		if f.Noise != nil {
			noise = share(f.GetNoise())
		}
		t.add(f.GetName(), show(f.A), show(f.B), show(f.Difference), interval, noise)
	}
	t.print(w)
	_, _ = fmt.Fprintf(w, "\n%s\n", c.GetMethod())
}

// figureText prints a figure in its unit; without one it is a share.
func figureText(x float64, unit string) string {
	switch unit {
	case "":
		return share(x)
	case "s":
		return secondsText(x)
	}
	return fmt.Sprintf("%.0f %s", x, unit)
}
