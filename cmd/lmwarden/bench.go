package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmwarden/lmwarden/bench"
	"github.com/lmwarden/lmwarden/bench/report"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

// outputCSV is a form that only measurements have.
const outputCSV = "csv"

func (a *app) benchCommand() *cobra.Command {
	return parent("bench", "Measure: sessions with affinity off and on, or the proxy itself",
		a.benchSessionsCommand(), a.benchRecordCommand(), a.benchProxyCommand(), bareCommand())
}

// benchFlags are the flags of bench sessions.
type benchFlags struct {
	arms     []string
	steps    []int
	duration time.Duration
	warmup   time.Duration
	rounds   int
	load     string
	think    string
	trace    string
	resume   string
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
			"and print what the client measured. Arms switch the model's routing: off, on, or a\n" +
			"policy by its name (" + strings.Join(armNames(), ", ") + ").\n" +
			"Afterwards the routing is as before. With --url any OpenAI or Anthropic endpoint is\n" +
			"measured, as one arm: so is a model that the daemon's configuration file declares,\n" +
			"since its routing cannot be switched. What runs when a step ends is cut and never\n" +
			"counted, and of a warm-up only failures are. A trace is played once, to its end or that\n" +
			"of --duration. An interrupt prints what was measured; --resume FILE goes on from there\n" +
			"and measures again what failed as a whole.",
		Example: "  lmwarden bench sessions --arms off,on --steps 4,8,16,24,32 --duration 3m\n" +
			"  lmwarden bench sessions --arms off,hash,on --steps 8 --rounds 4 -o html > report.html\n" +
			"  lmwarden bench sessions --url http://10.0.0.5:8000 --model qwen3-4b --api chat",
		Args: arguments(),
		RunE: func(c *cobra.Command, _ []string) error { return a.benchSessions(c.Context(), f, c.Flags().Changed) },
	}
	fl := c.Flags()
	fl.StringSliceVar(&f.arms, "arms", []string{"off", "on"}, "arms in the order of the first step; each following step and round turns it around")
	fl.IntSliceVar(&f.steps, "steps", []int{4, 8}, "numbers of sessions at the same time")
	fl.DurationVar(&f.duration, "duration", time.Minute, "length of a step")
	fl.DurationVar(&f.warmup, "warmup", 0, "time before each step of which only failures are counted")
	fl.IntVar(&f.rounds, "rounds", 1, "how often each step is run, for confidence intervals")
	fl.StringVar(&f.load, "load", "seed", "what the clients do; \"lmwarden simulate --list\" describes the loads")
	fl.StringVar(&f.think, "think", "", "pause between turns in seconds: fixed:0.4, exp:5, uniform:1-20 or mix")
	fl.StringVar(&f.trace, "trace", "", "file with a recorded trace to play instead, JSON lines")
	fl.StringVar(&f.resume, "resume", "", "file that keeps what is measured, and from which the series goes on")
	fl.StringVar(&f.url, "url", "", "endpoint to measure instead of the daemon's own")
	fl.StringVar(&f.model, "model", "", "model to ask for; not needed when the daemon has only one")
	fl.StringVar(&f.key, "key", "", "API key of the endpoint; better set LMWARDEN_KEY")
	fl.StringVar(&f.api, "api", string(bench.Messages), "API to use: messages or chat")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the conversations' sizes and pauses; round n uses seed + n - 1")
	fl.BoolVar(&f.same, "same-prompts", false, "let all arms send the same texts; later ones may find them cached")
	return c
}

// benchTarget is what is measured, and how its arms are switched.
type benchTarget struct {
	url, model string
	arms       []string
	replicas   int                                 // 0 when not known
	change     func(context.Context, string) error // nil when there is one arm only
	restore    func() error
	busy       func(context.Context) (int, bool)
}

// benchSettings is what makes two series the same, but for how many arms, sessions and
// rounds they have.
type benchSettings struct {
	URL         string     `json:"url"`
	Model       string     `json:"model"`
	API         string     `json:"api"`
	Seed        uint64     `json:"seed"`
	StepSeconds float64    `json:"stepSeconds"`
	WarmSeconds float64    `json:"warmSeconds,omitempty"`
	Load        bench.Load `json:"load"`
	Trace       string     `json:"trace,omitempty"`
	TraceSHA256 string     `json:"traceSHA256,omitempty"`
	SamePrompts bool       `json:"samePrompts"`
	Version     string     `json:"version"`
}

// conflicts returns an error that names a flag which another one leaves without effect.
func (f benchFlags) conflicts(changed func(string) bool) error {
	switch {
	case f.url != "" && changed("arms"):
		return usageErrorf("what --url names is measured as it is, as one arm; leave --arms out")
	case changed("rounds") && f.rounds < 1:
		return usageErrorf("%d rounds are not possible; choose 1 to 1000", f.rounds)
	case f.trace != "":
		return traceConflict(changed, "steps", "load", "think")
	}
	return nil
}

// traceConflict refuses flags that say what a trace says.
func traceConflict(changed func(string) bool, names ...string) error {
	for _, name := range names {
		if changed(name) {
			return usageErrorf("a trace says itself who sends what and when; leave --%s out", name)
		}
	}
	return nil
}

// ramp checks the flags and says what is to be run.
func (a *app) ramp(f benchFlags, changed func(string) bool) (bench.RampOptions, error) {
	if err := f.conflicts(changed); err != nil {
		return bench.RampOptions{}, err
	}
	if api := bench.API(f.api); api != bench.Messages && api != bench.Chat {
		return bench.RampOptions{}, usageErrorf("--api %q does not exist; choose messages or chat", f.api)
	}
	if a.output == outputWide || a.output == outputYAML {
		return bench.RampOptions{}, usageErrorf("bench has no form %q; choose table, json, csv, html or svg", a.output)
	}
	l, err := load.Find(f.load)
	if err != nil {
		return bench.RampOptions{}, usageErrorf("%w", err)
	}
	if f.think != "" {
		if l.Think, err = load.ParseThink(f.think); err != nil {
			return bench.RampOptions{}, usageErrorf("%w", err)
		}
	}
	ramp := bench.RampOptions{
		Arms: f.arms, Steps: f.steps, Rounds: f.rounds, Duration: f.duration, SamePrompts: f.same,
		Step: bench.StepOptions{Load: bench.Load{Load: l, BytesPerToken: 4}, Seed: f.seed, Warmup: f.warmup},
	}
	if f.trace != "" {
		data, err := os.ReadFile(f.trace)
		if err != nil {
			return ramp, usageErrorf("the trace cannot be read: %w", err)
		}
		if ramp.Step.Trace, err = load.ReadTrace(bytes.NewReader(data)); err != nil {
			return ramp, usageErrorf("%w", err)
		}
		ramp.Steps = []int{ramp.Step.Trace.Conversations()}
	}
	if err := ramp.Validate(); err != nil {
		return ramp, usageErrorf("%w", err)
	}
	return ramp, nil
}

func (a *app) benchSessions(ctx context.Context, f benchFlags, changed func(string) bool) error {
	for i, arm := range f.arms {
		f.arms[i] = armName(arm)
	}
	f.url = engineURL(f.url)
	ramp, err := a.ramp(f, changed)
	if err != nil {
		return err
	}
	target, err := a.benchTarget(ctx, f)
	if err != nil {
		return err
	}
	ramp.Arms, ramp.Step.Busy = target.arms, target.busy
	ramp.Step.Client = &bench.Client{
		BaseURL: target.url, Model: target.model, Key: or(f.key, a.getenv("LMWARDEN_KEY")), API: bench.API(f.api),
		HTTP: bench.NewHTTPClient(slices.Max(ramp.Steps)),
	}
	if target.change != nil {
		ramp.Switch = func(ctx context.Context, arm string) error {
			ramp.Step.Client.Rank = blindRanks(arm, f.seed, target.replicas)
			return target.change(ctx, arm)
		}
	}
	fmt.Fprintf(a.err, "asking %s at %s how long its tokens are ...\n", target.model, target.url)
	ratio, err := ramp.Step.Client.Calibrate(ctx, f.seed)
	if err != nil {
		return benchFailure(ctx, target.url, err)
	}
	ramp.Step.Load.BytesPerToken = ratio
	if !f.same {
		// The sizes are those of the seed, but no text is one that an earlier series sent.
		ramp.Step.Salt = strconv.FormatInt(a.now().UnixNano(), 36)
	}
	settings := benchSettings{
		URL: target.url, Model: target.model, API: f.api, Seed: f.seed, StepSeconds: f.duration.Seconds(), WarmSeconds: f.warmup.Seconds(),
		Load: ramp.Step.Load, Trace: f.trace, SamePrompts: f.same, Version: versionText(),
	}
	if settings.TraceSHA256, err = traceSHA256(f.trace); err != nil {
		return usageErrorf("%w", err)
	}
	ledger, err := report.OpenLedger(f.resume, settings)
	if err != nil {
		return usageErrorf("%w", err)
	}
	runs, err := a.runRamp(ctx, ramp, ledger, target)
	if len(runs) == 0 {
		return err
	}
	return errors.Join(a.printBench(runs, target, settings, err != nil), err)
}

// runRamp measures what the ledger does not hold yet and puts the routing back. What
// was measured comes with the error.
func (a *app) runRamp(ctx context.Context, ramp bench.RampOptions, ledger *report.Ledger, target benchTarget) ([]report.Run, error) {
	fmt.Fprintf(a.err, "%s at %s: %.2f bytes a token; %s of %s\n", target.model, target.url, ramp.Step.Load.BytesPerToken,
		plural(len(ramp.Arms)*len(ramp.Steps)*max(1, ramp.Rounds), "step", "steps"), ramp.Duration)
	ramp.Done = func(arm string, sessions, round int) bool {
		_, ok := ledger.Find(arm, sessions, round)
		return ok
	}
	ramp.OnStep = func(arm string, sessions, round int) {
		fmt.Fprintf(a.err, "round %d, arm %s, %s ...\n", round, arm, plural(sessions, "session", "sessions"))
	}
	var partial []report.Run
	var lost error
	ramp.OnResult = func(s bench.Step) {
		fmt.Fprintf(a.err, "  %s, %s, %.0f output tokens a minute\n", plural(s.Requests, "request", "requests"), plural(s.Errors, "error", "errors"), s.OutputTokensPerMinute)
		if s.Requests == 0 && s.Errors == 0 && !s.Partial {
			fmt.Fprintf(a.err, "  no turn ended within %s; a longer --duration would measure something\n", ramp.Duration)
		}
		r := report.Of(s, ramp.Step.Seed+uint64(max(1, s.Round)-1))
		if s.Partial {
			partial = append(partial, r)
		}
		lost = errors.Join(lost, ledger.Add(r))
	}
	_, err := bench.Ramp(ctx, ramp)
	switch {
	case ctx.Err() != nil:
		err = errInterrupted
	case err != nil:
		err = benchFailure(ctx, target.url, err)
	}
	if target.restore != nil {
		err = errors.Join(err, target.restore())
	}
	return append(slices.Clone(ledger.Runs()), partial...), errors.Join(err, lost)
}

// engineURL is the address of an endpoint without the path that clients of OpenAI's API
// count to it.
func engineURL(url string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1"), "/")
}

// benchFailure says which endpoint did not do what a load needs.
func benchFailure(ctx context.Context, url string, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	var status *bench.StatusError
	if errors.As(err, &status) && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden) {
		err = fmt.Errorf("%w; give its key in LMWARDEN_KEY", err)
	}
	return fmt.Errorf("%s cannot be measured: %w", url, err)
}

// printBench prints a series in the form that is asked for. A table names the first
// problem of each step that had one.
func (a *app) printBench(runs []report.Run, target benchTarget, set benchSettings, interrupted bool) error {
	cache := "cold but for the shared prompt: each step sends texts of its own"
	if set.SamePrompts {
		cache = "warm: all arms send the same texts, so later ones may find them cached"
	}
	what := set.Load.Name + ": " + set.Load.About + "; pauses " + set.Load.Think.String()
	if set.Trace != "" {
		what = "trace " + set.Trace
	}
	page := report.Page{
		Title:    "Measured: " + set.Model,
		About:    "Measured at the client, to the first streamed token. What ran when a step ended was cut and is not counted.",
		Replicas: target.replicas, Version: set.Version, Interrupted: interrupted,
		Settings: []report.Setting{
			{Name: "endpoint", Value: set.URL + ", " + set.API},
			{Name: "load", Value: what},
			{Name: "cache", Value: cache},
			{Name: "step", Value: stepText(set)},
			{Name: "seed", Value: fmt.Sprint(set.Seed)},
			{Name: "text", Value: fmt.Sprintf("%.2f bytes a token", set.Load.BytesPerToken)},
		},
	}
	if err := a.printRuns(runs, page, set); err != nil || a.output != outputTable {
		return err
	}
	var b bytes.Buffer
	for _, r := range runs {
		if r.Problem != "" {
			fmt.Fprintf(&b, "%s, %s: %s\n", r.Arm, plural(r.Sessions, "session", "sessions"), strings.TrimSpace(r.Problem))
		}
		if r.Partial {
			fmt.Fprintf(&b, "%s, %s: stopped after %.0f s with %.0f requests and %s output tokens a minute; not in the table\n",
				r.Arm, plural(r.Sessions, "session", "sessions"), r.Seconds, *r.Requests, report.Number(*r.OutputTokensPerMinute, 0))
		}
	}
	return a.write(b.Bytes())
}

// stepText says how long a step is.
func stepText(set benchSettings) string {
	text := fmt.Sprintf("%g s", set.StepSeconds)
	if set.WarmSeconds > 0 {
		text += fmt.Sprintf(" after %g s of which only failures are counted", set.WarmSeconds)
	}
	return text + ", arms in turned order from step to step"
}

// writeJSON prints a report of ours.
func (a *app) writeJSON(report any) error {
	data, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return a.write(append(data, '\n'))
}
