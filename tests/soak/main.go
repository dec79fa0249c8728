package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	requests := flag.Int("requests", 1_000_000, "how many requests to send, at least 100")
	clients := flag.Int("clients", 64, "how many are open at the same time")
	seed := flag.Uint64("seed", 1, "what the mix is drawn from")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, options{requests: *requests, clients: *clients, seed: *seed}); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// options of a run.
type options struct {
	requests, clients int
	seed              uint64
}

// growth is how much more the heap may hold at the end than after the first tenth, in
// bytes: what is bounded by a number of requests or of seconds, and is not full yet
// after a tenth of a short run, fits in.
const growth = 16 << 20

// run sends the requests and judges what they left.
func run(ctx context.Context, out io.Writer, o options) error {
	if o.requests < 100 || o.clients < 1 {
		return fmt.Errorf("%d requests of %d clients show nothing: it takes at least 100 of 1", o.requests, o.clients)
	}
	b, err := newBox(o)
	if err != nil {
		return err
	}
	defer b.close()
	tenth := o.requests / 10
	if err := b.send(ctx, out, 0, tenth); err != nil {
		return err
	}
	early := b.rest(ctx)
	fmt.Fprintf(out, "after a tenth: %s\n", early)
	if err := b.send(ctx, out, tenth, o.requests); err != nil {
		return err
	}
	late := b.rest(ctx)
	fmt.Fprintf(out, "at the end:    %s\n%s", late, b.tally())
	if err := errors.Join(b.judge(early, late)...); err != nil {
		return fmt.Errorf("something is left, or was not answered as it should be:\n%w", err)
	}
	fmt.Fprintln(out, "nothing is left: none in flight, no goroutine, no memory")
	return nil
}

// judge returns what is wrong.
func (b *box) judge(early, late leftovers) []error {
	var wrong []error
	for _, l := range []leftovers{early, late} {
		if l.inFlight != 0 || l.held != 0 {
			wrong = append(wrong, fmt.Errorf("%d requests count as in flight and %d as waiting, and there is none", l.inFlight, l.held))
		}
		if l.goroutines > b.goroutines {
			wrong = append(wrong, fmt.Errorf("%d goroutines are there, and were %d at the start", l.goroutines, b.goroutines))
		}
	}
	if grown := late.heap - early.heap; grown > growth {
		wrong = append(wrong, fmt.Errorf("the heap grew by %d bytes after the first tenth; it may by %d", grown, growth))
	}
	if n := b.odd.Load(); n > 0 {
		wrong = append(wrong, fmt.Errorf("%d answers were none that may come; the first: %s", n, b.firstOdd))
	}
	for _, s := range shapes {
		if b.sent[s.name].Load() == 0 {
			wrong = append(wrong, fmt.Errorf("there were no %s among the requests", s.name))
		}
	}
	if b.gone.Load() == 0 || b.spilled.Load() == 0 {
		wrong = append(wrong, fmt.Errorf("%d clients left and %d turns spilled: the mix does not show what it should", b.gone.Load(), b.spilled.Load()))
	}
	return wrong
}
