package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmwarden/lmwarden/bench"
	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

func (a *app) benchRecordCommand() *cobra.Command {
	var model string
	var length time.Duration
	c := &cobra.Command{
		Use:   "record",
		Short: "Record the daemon's traffic as a trace: times, sizes and keys, never content",
		Long: "Write what the daemon served as a trace that \"bench sessions --trace\" and\n" +
			"\"simulate --trace\" play: for each request its times, the tokens of prompt and answer,\n" +
			"and the hash that names its conversation. No content is in it. Without --for it is what\n" +
			"the daemon remembers, its latest 4,096 requests; with it, what ends from now on. An\n" +
			"interrupt writes what was recorded until then. To play it:\n\n" +
			"  lmwarden simulate --trace trace.jsonl --policy seed,working-set",
		Example: "  lmwarden bench record > trace.jsonl\n  lmwarden bench record --for 1h > trace.jsonl",
		Args:    arguments(),
		RunE:    func(c *cobra.Command, _ []string) error { return a.benchRecord(c.Context(), model, length) },
	}
	c.Flags().StringVar(&model, "model", "", "model whose traffic is recorded; not needed when the daemon has only one")
	c.Flags().DurationVar(&length, "for", 0, "how long to record; 0 writes what the daemon remembers")
	return c
}

// recordEvery is how often the history is read: it holds thousands of requests, so that
// none is missed.
const recordEvery = 2 * time.Second

func (a *app) benchRecord(ctx context.Context, model string, length time.Duration) error {
	if length < 0 {
		return usageErrorf("--for %s cannot be; it is a time to come, or 0 for what the daemon remembers", length)
	}
	if a.output != outputTable {
		return usageErrorf("a trace has a form of its own; leave --output %s out", a.output)
	}
	cs, err := a.dial()
	if err != nil {
		return err
	}
	if model, err = a.chooseModel(ctx, cs, model); err != nil {
		return err
	}
	t := &tape{model: model, cs: cs, known: make(map[string]bool)}
	if err := t.read(ctx); err != nil {
		return err
	}
	if length > 0 {
		t.requests = nil // those of before
		fmt.Fprintf(a.err, "recording %s for %s ...\n", model, length)
		err = t.follow(ctx, length)
	}
	lines, left := bench.TraceOf(t.requests)
	if left > 0 {
		fmt.Fprintf(a.err, "%s left out: the engine reported no tokens for them\n", plural(left, "request is", "requests are"))
	}
	if len(lines) == 0 {
		return errors.Join(err, fmt.Errorf("nothing was recorded: no request of %s with its tokens ended meanwhile", model))
	}
	var b bytes.Buffer
	if failed := bench.WriteTrace(&b, lines); failed != nil {
		return failed
	}
	fmt.Fprintf(a.err, "%s recorded\n", plural(len(lines), "request", "requests"))
	return errors.Join(a.write(b.Bytes()), err)
}

// tape collects requests of a model's history.
type tape struct {
	model    string
	cs       *clients
	known    map[string]bool // ids
	requests []bench.Recorded
}

// follow reads the history until the time is over. Also what ended right before an
// interrupt is read.
func (t *tape) follow(ctx context.Context, length time.Duration) error {
	end := time.NewTimer(length)
	defer end.Stop()
	again := time.NewTicker(recordEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if err := t.read(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		case <-end.C:
			return t.read(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return errors.Join(errInterrupted, t.read(last))
		}
	}
}

// read takes what is new in the history, which comes newest first.
func (t *tape) read(ctx context.Context) error {
	return pages(0, func(size uint32, token string) (int, string, error) {
		page, err := t.cs.stats.ListRequests(ctx, &lmwardenv1.ListRequestsRequest{Model: t.model, PageSize: size, PageToken: token})
		fresh := 0
		for _, r := range page.GetRequests() {
			if !t.known[r.GetId()] {
				t.known[r.GetId()] = true
				t.requests = append(t.requests, recorded(r))
				fresh++
			}
		}
		if fresh == 0 {
			return 0, "", err
		}
		return fresh, page.GetNextPageToken(), err
	})
}

// recorded takes from a record what a trace needs.
func recorded(r *lmwardenv1.RequestRecord) bench.Recorded {
	kind := load.Kind("") // the history does not tell agents from others
	if r.GetDecision() == lmwardenv1.DecisionClass_DECISION_CLASS_SIDE {
		kind = load.Side
	}
	return bench.Recorded{
		Conversation: r.GetConversation(), Kind: kind, Client: r.GetClient(), First: r.GetTurn() == 1,
		Arrived: r.GetArrived().AsTime(), Took: r.GetDuration().AsDuration(),
		Prompt: int(r.GetPromptTokens()), Cached: int(r.GetCachedTokens()), Output: int(r.GetCompletionTokens()),
	}
}
