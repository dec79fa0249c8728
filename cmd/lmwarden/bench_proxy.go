package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/lmwarden/lmwarden/bench/proxyload"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
)

func (a *app) benchProxyCommand() *cobra.Command {
	var streams, concurrency, size, rounds int
	c := &cobra.Command{
		Use:   "proxy",
		Short: "Measure what the proxy adds to a request, beside a bare Go reverse proxy",
		Long: "Start fake engines in this process and open streams to them directly, through a\n" +
			"bare reverse proxy of Go's standard library and through ours, taking turns. Ratios\n" +
			"are ours over the bare proxy: of the median time to the first byte, and of the\n" +
			"processor time that each adds to a direct stream. The last line is one JSON object.",
		Args: arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			box, err := newProxyBox(c.Context())
			if err != nil {
				return err
			}
			defer box.close()
			opts := proxyload.Options{
				Ways: box.ways, Streams: streams, Concurrency: concurrency, Rounds: rounds,
				Body: proxyload.Body(proxyModel, size), CPU: cpuTime,
				Header: http.Header{"X-Session-Id": {"bench"}},
			}
			if err := opts.Validate(); err != nil {
				return usageErrorf("%w", err)
			}
			figures, err := proxyload.Compare(c.Context(), opts)
			if err != nil {
				return interruptedOr(c.Context(), err)
			}
			return a.printProxy(figures, concurrency)
		},
	}
	c.Flags().IntVar(&streams, "streams", 4000, "streams per way")
	c.Flags().IntVar(&concurrency, "concurrency", 32, "streams open at the same time")
	c.Flags().IntVar(&size, "body", 16<<10, "size of a request, in bytes")
	c.Flags().IntVar(&rounds, "rounds", 8, "rounds in which the ways take turns")
	return c
}

// interruptedOr tells an interrupt from a failure.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

const (
	proxyModel   = "bench"
	proxyEngines = 4
	streamPath   = "/v1/chat/completions"
)

// proxyBox is fake engines and the ways to them, on loopback ports of this process.
type proxyBox struct {
	servers []*http.Server
	ours    *proxy.Proxy
	ways    []proxyload.Way
}

func newProxyBox(ctx context.Context) (box *proxyBox, err error) {
	box = &proxyBox{}
	defer func() {
		if err != nil {
			box.close()
		}
	}()
	snapshot := &proxy.Snapshot{Models: []proxy.Model{{Name: proxyModel, Created: time.Now(), Routing: route.DefaultSettings()}}}
	// Streams of one conversation stay on one replica, so the other ways use the first.
	var first string
	for i := range proxyEngines {
		base, err := box.serve(ctx, &proxyload.Engine{Model: proxyModel})
		if err != nil {
			return box, err
		}
		if i == 0 {
			first = base
		}
		snapshot.Models[0].Replicas = append(snapshot.Models[0].Replicas, proxy.Replica{
			ID: proxy.ReplicaID(fmt.Sprintf("%s/%d", proxyModel, i)), URL: base, Rank: -1,
			Route: route.Replica{Incarnation: 1, Ready: true, MaxNumSeqs: 4096, Capacity: 1 << 30},
		})
	}
	target, err := url.Parse(first)
	if err != nil {
		return box, err
	}
	bare, err := box.serve(ctx, &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
	})
	if err != nil {
		return box, err
	}
	box.ours = proxy.New(proxy.Options{Logger: zerolog.Nop(), Seed: 1})
	box.ours.Apply(snapshot)
	ours, err := box.serve(ctx, box.ours)
	if err != nil {
		return box, err
	}
	box.ways = []proxyload.Way{
		{Name: "direct", URL: first + streamPath},
		{Name: "reverse proxy", URL: bare + streamPath},
		{Name: "lmwarden", URL: ours + streamPath},
	}
	return box, nil
}

// serve answers with h on a loopback port and returns its base URL.
func (b *proxyBox) serve(ctx context.Context, h http.Handler) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("no loopback port can be opened: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	b.servers = append(b.servers, srv)
	go srv.Serve(l) //nolint:errcheck // ends with close
	return "http://" + l.Addr().String(), nil
}

func (b *proxyBox) close() {
	for _, srv := range b.servers {
		_ = srv.Close()
	}
	if b.ours != nil {
		b.ours.Close()
	}
}

// cpuTime returns the processor time of this process so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// proxyReport is the last line of bench proxy.
type proxyReport struct {
	// TTFBRatio is our median time to the first byte over the bare proxy's.
	TTFBRatio float64 `json:"ttfbRatio"`
	// CPURatio is the processor time that we add to a stream over what the bare proxy adds.
	CPURatio float64 `json:"cpuRatio"`
	// P50 and P99 of our time to the first byte, in microseconds.
	P50         float64             `json:"p50"`
	P99         float64             `json:"p99"`
	Concurrency int                 `json:"concurrency"`
	Ways        []proxyload.Figures `json:"ways"`
}

func (a *app) printProxy(figures []proxyload.Figures, concurrency int) error {
	direct, bare, ours := figures[0], figures[1], figures[2]
	if a.output != outputJSON {
		t := a.newTable("way", ">first byte p50 µs", ">p99 µs", ">added p50 µs", ">cpu µs/stream", ">streams/s")
		for _, f := range figures {
			t.add(f.Name, fmt.Sprintf("%.0f", f.P50Micros), fmt.Sprintf("%.0f", f.P99Micros),
				fmt.Sprintf("%.0f", f.P50Micros-direct.P50Micros), fmt.Sprintf("%.0f", f.CPUMicros), fmt.Sprintf("%.0f", f.StreamsPerSecond))
		}
		t.print(a.out)
		_, _ = io.WriteString(a.out, "\n")
	}
	line, err := json.Marshal(proxyReport{
		TTFBRatio: ratio(ours.P50Micros, bare.P50Micros),
		CPURatio:  ratio(ours.CPUMicros-direct.CPUMicros, bare.CPUMicros-direct.CPUMicros),
		P50:       ours.P50Micros, P99: ours.P99Micros,
		Concurrency: concurrency, Ways: figures,
	})
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return a.write(append(line, '\n'))
}

// ratio rounds to three decimals; JSON has no infinity, so nothing over nothing is 0.
func ratio(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return math.Round(1000*x/y) / 1000
}
