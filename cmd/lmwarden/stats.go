package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func (a *app) statsCommand() *cobra.Command {
	var model string
	var window time.Duration
	var buckets uint32
	c := &cobra.Command{
		Use:   "stats",
		Short: "Show tokens a second, cached and computed, and times to the first token",
		Args:  arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			throughput, err := cs.stats.QueryThroughput(c.Context(), &lmwardenv1.QueryThroughputRequest{Model: model, Span: durationpb.New(window), MaxBuckets: buckets})
			if err != nil {
				return err
			}
			if a.output == outputJSON || a.output == outputYAML {
				return a.show(throughput.GetThroughput(), nil)
			}
			latency, err := cs.stats.QueryLatency(c.Context(), &lmwardenv1.QueryLatencyRequest{Model: model, Span: durationpb.New(window)})
			if err != nil {
				return err
			}
			return a.show(latency, func(w io.Writer) {
				a.printThroughput(w, throughput.GetThroughput())
				_, _ = io.WriteString(w, "\n")
				a.printLatency(w, latency)
			})
		},
	}
	c.Flags().StringVar(&model, "model", "", "only this model")
	c.Flags().DurationVar(&window, "span", time.Hour, "how far back, 10s to 24h")
	c.Flags().Uint32Var(&buckets, "buckets", 12, "most rows, 1 to 1000")
	return c
}

func (a *app) printThroughput(w io.Writer, throughput *lmwardenv1.Throughput) {
	t := a.newTable("from", ">cached tok/s", ">computed tok/s", ">completion tok/s", ">hits", ">requests")
	began, idle := false, 0
	for _, b := range throughput.GetBuckets() {
		if began = began || worked(b); !began {
			idle++ // the time before the first request says nothing
			continue
		}
		hits := ""
		if prompt := b.GetCachedPerSecond() + b.GetComputedPerSecond(); prompt > 0 {
			hits = share(b.GetCachedPerSecond() / prompt)
		}
		t.add(clock(b.GetStart()), fmt.Sprintf("%.0f", b.GetCachedPerSecond()), fmt.Sprintf("%.0f", b.GetComputedPerSecond()),
			fmt.Sprintf("%.1f", b.GetCompletionPerSecond()), hits, count(b.GetRequests()))
	}
	switch {
	case !began:
		_, _ = io.WriteString(w, "No request ended in this time.\n")
	default:
		t.print(w)
	}
	if began && idle > 0 {
		_, _ = fmt.Fprintf(w, "Before that: nothing for %s.\n", span(time.Duration(idle)*throughput.GetStep().AsDuration()))
	}
	_, _ = fmt.Fprintf(w, "cache hit of the last hour: %s\n", optional(throughput.HitRateHour, share))
}

// worked says whether anything happened in a span of time.
func worked(b *lmwardenv1.ThroughputBucket) bool {
	return b.GetRequests() > 0 || b.GetCachedPerSecond() > 0 || b.GetComputedPerSecond() > 0 || b.GetCompletionPerSecond() > 0
}

func (a *app) printLatency(w io.Writer, latency *lmwardenv1.QueryLatencyResponse) {
	t := a.newTable("seconds", ">requests", ">mean", ">p50", ">p95", ">p99")
	for _, row := range []struct {
		name string
		q    *lmwardenv1.Quantiles
	}{
		{"first token, first turns", latency.GetFirstTurns()},
		{"first token, later turns", latency.GetLaterTurns()},
		{"first token, all", latency.GetFirstToken()},
		{"whole request", latency.GetDuration()},
		{"held at the door", latency.GetHeld()},
	} {
		q := row.q
		if q == nil {
			q = &lmwardenv1.Quantiles{}
		}
		t.add(row.name, count(q.GetCount()), decimals(q.Mean), decimals(q.P50), decimals(q.P95), decimals(q.P99))
	}
	t.print(w)
}

// decimals prints a figure that is only there with samples.
func decimals(v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", *v)
}
