package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmwarden/lmwarden/bench"
)

// outputCSV is a form that only the tables of bench have.
const outputCSV = "csv"

func (a *app) benchCommand() *cobra.Command {
	return parent("bench", "Measure: sessions with affinity off and on, or the proxy itself",
		a.benchSessionsCommand(), a.benchProxyCommand())
}

// benchFlags are the flags of bench sessions.
type benchFlags struct {
	arms     []string
	steps    []int
	duration time.Duration
	rounds   int
	url      string
	model    string
	key      string
	api      string
	seed     uint64
	same     bool
}

func (a *app) benchSessionsCommand() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "sessions",
		Short: "Run coding-agent conversations in steps and print a table",
		Long: "Run synthetic coding-agent conversations (a shared system prompt, a long first\n" +
			"message, five more turns, closed loop) at each number of sessions, once per arm,\n" +
			"and print what the client measured. Arms switch the model's routing: off, on, and\n" +
			"the placement policies hash, random and \"round robin\". Afterwards the routing is as\n" +
			"before. With --url any OpenAI or Anthropic endpoint is measured, as one arm.\n" +
			"An interrupt keeps what was measured.",
		Example: "  lmwarden bench sessions --arms off,on --steps 4,8,16 --duration 3m\n" +
			"  lmwarden bench sessions --url http://10.0.0.5:8000 --model qwen3-4b --api chat",
		Args: arguments(),
		RunE: func(c *cobra.Command, _ []string) error { return a.benchSessions(c.Context(), f) },
	}
	c.Flags().StringSliceVar(&f.arms, "arms", []string{"off", "on"}, "arms in the order of the first round")
	c.Flags().IntSliceVar(&f.steps, "steps", []int{4, 8}, "numbers of sessions at the same time")
	c.Flags().DurationVar(&f.duration, "duration", time.Minute, "length of a step")
	c.Flags().IntVar(&f.rounds, "rounds", 1, "how often each step is run; the order of the arms turns around each time")
	c.Flags().StringVar(&f.url, "url", "", "endpoint to measure instead of the daemon's own")
	c.Flags().StringVar(&f.model, "model", "", "model to ask for; not needed when the daemon has only one")
	c.Flags().StringVar(&f.key, "key", "", "API key of the endpoint; better set LMWARDEN_KEY")
	c.Flags().StringVar(&f.api, "api", string(bench.Messages), "API to use: messages or chat")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the conversations' texts")
	c.Flags().BoolVar(&f.same, "same-prompts", false, "let all arms send the same texts; later ones may find them cached")
	return c
}

// benchTarget is what is measured, and how its arms are switched.
type benchTarget struct {
	url, model string
	arms       []string
	change     func(context.Context, string) error // nil when there is one arm only
	restore    func() error
	busy       func(context.Context) (int, bool)
}

func (a *app) benchSessions(ctx context.Context, f benchFlags) error {
	api := bench.API(f.api)
	if api != bench.Messages && api != bench.Chat {
		return usageErrorf("--api %q does not exist; choose messages or chat", f.api)
	}
	if a.output == outputWide || a.output == outputYAML {
		return usageErrorf("bench has no form %q; choose table, json or csv", a.output)
	}
	ramp := bench.RampOptions{
		Arms: f.arms, Steps: f.steps, Rounds: f.rounds, Duration: f.duration, SamePrompts: f.same,
		Step: bench.StepOptions{Load: bench.AgentLoad(), Seed: f.seed},
	}
	if err := ramp.Validate(); err != nil {
		return usageErrorf("%w", err)
	}
	target, err := a.benchTarget(ctx, f)
	if err != nil {
		return err
	}
	ramp.Arms, ramp.Switch, ramp.Step.Busy = target.arms, target.change, target.busy
	ramp.Step.Client = &bench.Client{
		BaseURL: target.url, Model: target.model, Key: or(f.key, a.getenv("LMWARDEN_KEY")), API: api,
		HTTP: bench.NewHTTPClient(slices.Max(f.steps)),
	}
	ratio, err := ramp.Step.Client.Calibrate(ctx, f.seed)
	if err != nil {
		return benchFailure(ctx, target.url, err)
	}
	ramp.Step.Load.BytesPerToken = ratio
	fmt.Fprintf(a.err, "%s at %s: %.2f bytes a token; %s of %s\n", target.model, target.url, ratio,
		plural(len(target.arms)*len(f.steps)*max(1, f.rounds), "step", "steps"), f.duration)
	ramp.OnStep = func(arm string, sessions, round int) {
		fmt.Fprintf(a.err, "round %d, arm %s, %s ...\n", round, arm, plural(sessions, "session", "sessions"))
	}
	ramp.OnResult = func(s bench.Step) {
		fmt.Fprintf(a.err, "  %s, %s, %.0f output tokens a minute\n", plural(s.Requests, "request", "requests"), plural(s.Errors, "error", "errors"), s.OutputTokensPerMinute)
	}

	steps, err := bench.Ramp(ctx, ramp)
	if err != nil && ctx.Err() == nil {
		err = benchFailure(ctx, target.url, err)
	}
	if ctx.Err() != nil {
		err = errInterrupted
	}
	if target.restore != nil {
		err = errors.Join(err, target.restore())
	}
	if len(steps) == 0 {
		return err
	}
	return errors.Join(a.printBench(target, f, ramp.Step.Load, steps), err)
}

// benchFailure says which endpoint did not do what a load needs.
func benchFailure(ctx context.Context, url string, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return fmt.Errorf("%s cannot be measured: %w", url, err)
}

// benchReport is what bench prints as JSON.
type benchReport struct {
	URL      string       `json:"url"`
	Model    string       `json:"model"`
	API      string       `json:"api"`
	Seed     uint64       `json:"seed"`
	Seconds  float64      `json:"stepSeconds"`
	Load     bench.Load   `json:"load"`
	SameText bool         `json:"samePrompts"`
	Steps    []bench.Step `json:"steps"`
}

func (a *app) printBench(target benchTarget, f benchFlags, load bench.Load, steps []bench.Step) error {
	switch a.output {
	case outputJSON:
		return a.writeJSON(benchReport{target.url, target.model, f.api, f.seed, f.duration.Seconds(), load, f.same, steps})
	case outputCSV:
		return bench.WriteCSV(a.out, steps)
	}
	var b bytes.Buffer
	a.printSteps(&b, steps)
	return a.write(b.Bytes())
}

func (a *app) printSteps(w io.Writer, steps []bench.Step) {
	headings := bench.Headings()
	for i := 1; i < len(headings); i++ {
		headings[i] = ">" + headings[i]
	}
	t := a.newTable(headings...)
	for _, s := range steps {
		row := make([]any, 0, len(headings))
		for _, text := range bench.Row(s) {
			row = append(row, text)
		}
		t.add(row...)
	}
	t.print(w)
	for _, s := range steps {
		if s.FirstError != "" {
			_, _ = fmt.Fprintf(w, "%s, %d sessions: %s\n", s.Arm, s.Sessions, strings.TrimSpace(s.FirstError))
		}
	}
}

// writeJSON prints a report of ours.
func (a *app) writeJSON(report any) error {
	data, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return a.write(append(data, '\n'))
}
