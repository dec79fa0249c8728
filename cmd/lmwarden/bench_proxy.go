package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmwarden/lmwarden/bench/proxyload"
)

// bareVerb makes this binary the bare proxy that ours is measured beside.
const bareVerb = "bare"

// proxyBench are the flags of bench proxy.
type proxyBench struct {
	rounds, body int
	nginx        string
	quick        bool
}

func (a *app) benchProxyCommand() *cobra.Command {
	var f proxyBench
	c := &cobra.Command{
		Use:   "proxy",
		Short: "Measure what the proxy adds to a request, beside nginx and a bare Go reverse proxy",
		Long: "Start fake engines in this process and three proxies before them, each as processes\n" +
			"of its own: a bare reverse proxy of Go's standard library, nginx when it is\n" +
			"installed, and the daemon with its defaults. Then open streams of 64 chunks through\n" +
			"each of them and directly, taking turns: 32 at once as fast as they go, 32 at once at\n" +
			"an engine's pace, 512 at once at an engine's pace. It takes about 2.5 minutes.\n\n" +
			"Ratios are ours over the other proxy's: of the time to the first byte that a client\n" +
			"sees, and of the proxy's own processor time per stream. The last line is one JSON\n" +
			"object; -o json prints nothing else.",
		Example: "  lmwarden bench proxy -o json | jq '.loads[] | {connections, paceSeconds, ttfbRatio, cpuRatio, p50, p99}'",
		Args:    arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			if f.quick && c.Flags().Changed("rounds") {
				return usageErrorf("--quick is one round; leave --rounds out")
			}
			return a.benchProxy(c.Context(), f)
		},
	}
	c.Flags().IntVar(&f.rounds, "rounds", 4, "rounds in which the ways take turns")
	c.Flags().IntVar(&f.body, "body", 16<<10, "size of a request, in bytes")
	c.Flags().StringVar(&f.nginx, "nginx", "nginx", "name or path of nginx")
	c.Flags().BoolVar(&f.quick, "quick", false, "a few seconds in one round, which shows that everything works; the figures mean little")
	return c
}

// bareCommand is the bare proxy, in a process of its own.
func bareCommand() *cobra.Command {
	return &cobra.Command{
		Use:    bareVerb + " URL...",
		Short:  "Run a bare reverse proxy before engines until it is interrupted",
		Hidden: true,
		RunE: func(c *cobra.Command, targets []string) error {
			return proxyload.ServeBare(c.Context(), c.OutOrStdout(), targets)
		},
	}
}

// proxyReport is the last line of bench proxy.
type proxyReport struct {
	// Nginx is the version of the nginx that was measured: "nginx/1.22.1".
	Nginx string `json:"nginx,omitempty"`
	// NginxMissing is a sentence that says why there was none.
	NginxMissing string `json:"nginxMissing,omitempty"`
	// Quick says that the figures mean little.
	Quick bool                   `json:"quick,omitempty"`
	Loads []proxyload.LoadReport `json:"loads"`
}

func (a *app) benchProxy(ctx context.Context, f proxyBench) error {
	if a.output != outputTable && a.output != outputJSON {
		return usageErrorf("bench proxy has no form %q; choose table or json", a.output)
	}
	loads := proxyload.Loads()
	if f.quick {
		loads, f.rounds = proxyload.QuickLoads(), 1
	}
	if f.rounds < 1 {
		return usageErrorf("--rounds is %d; it takes at least 1", f.rounds)
	}
	if f.body < 1 {
		return usageErrorf("--body is %d; a request has at least 1 byte", f.body)
	}
	self, err := binary()
	if err != nil {
		return err
	}
	began := time.Now()
	say := func(what string) {
		fmt.Fprintf(a.err, "%3.0f s  %s\n", time.Since(began).Seconds(), what)
	}
	box, err := proxyload.Start(ctx, proxyload.Setup{Binary: self, BareArgs: []string{"bench", bareVerb}, Nginx: f.nginx, Progress: say})
	if err != nil {
		return interruptedOr(ctx, err)
	}
	defer box.Close()
	report := proxyReport{Nginx: box.NginxVersion, NginxMissing: box.NginxMissing, Quick: f.quick}
	for _, load := range loads {
		figures, err := proxyload.Compare(ctx, proxyload.Options{
			Ways: box.Ways, Load: load, Rounds: f.rounds, Body: box.Body(f.body), SetPace: box.SetPace, Progress: say,
		})
		if err != nil {
			return interruptedOr(ctx, err)
		}
		report.Loads = append(report.Loads, proxyload.NewReport(load, figures))
		if a.output != outputJSON {
			a.printLoad(load, figures)
		}
	}
	line, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return a.write(append(line, '\n'))
}

// interruptedOr tells an interrupt from a failure.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// printLoad prints the figures of one load as a table.
func (a *app) printLoad(load proxyload.Load, figures []proxyload.Figures) {
	fmt.Fprintf(a.out, "%s\n", load)
	t := a.newTable("way", ">first byte p50 µs", ">p99 µs", ">added p50 µs", ">own cpu µs/stream", ">streams/s")
	for _, f := range figures {
		cpu := ""
		if f.CPUMicros != nil {
			cpu = fmt.Sprintf("%.0f", *f.CPUMicros)
		}
		t.add(f.Name, fmt.Sprintf("%.0f", f.P50Micros), fmt.Sprintf("%.0f", f.P99Micros),
			fmt.Sprintf("%.0f", f.P50Micros-figures[0].P50Micros), cpu, fmt.Sprintf("%.0f", f.StreamsPerSecond))
	}
	t.print(a.out)
	fmt.Fprintln(a.out)
}
