package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
)

const replicas = 4

// box is the proxy with its recorder as the daemon has it, engines and clients.
type box struct {
	options    options
	proxy      *proxy.Proxy
	collector  *stats.Collector
	servers    []*http.Server
	client     *http.Client
	url        string
	goroutines int // before the first request
	responses  atomic.Int64

	sent          map[string]*atomic.Int64 // by shape
	gone, spilled atomic.Int64
	odd           atomic.Int64
	once          sync.Once
	firstOdd      string
}

// Record counts what the mix must contain, and keeps the request as the daemon does.
func (b *box) Record(r proxy.Record) {
	if r.Status == 499 {
		b.gone.Add(1)
	}
	if r.Decided && r.Decision.Class == route.ClassSpilled {
		b.spilled.Add(1)
	}
	b.collector.Record(r)
}

func newBox(o options) (b *box, err error) {
	b = &box{options: o, collector: stats.NewCollector(), sent: map[string]*atomic.Int64{}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	for _, s := range shapes {
		b.sent[s.name] = new(atomic.Int64)
	}
	settings := route.DefaultSettings()
	settings.SpillThreshold = 1 // a busy conversation spills
	// The table is full after the first tenth, so that the rest shows that it is bounded.
	settings.MaxConversations = min(settings.MaxConversations, max(o.requests/40, 4))
	spec := proxy.Model{Name: "soak", Aliases: []string{"claude-*"}, Created: time.Now(), Routing: settings}
	for i := range replicas {
		url, err := b.serve(engine{&b.responses})
		if err != nil {
			return nil, err
		}
		spec.Replicas = append(spec.Replicas, proxy.Replica{
			ID: proxy.ReplicaID(fmt.Sprintf("soak/%d", i)), URL: url, Rank: -1,
			Route: route.Replica{Incarnation: 1, Ready: true, MaxNumSeqs: 256, Capacity: 1 << 20},
		})
	}
	b.proxy = proxy.New(proxy.Options{Logger: zerolog.Nop(), Recorder: b, Seed: o.seed})
	b.proxy.Apply(&proxy.Snapshot{Models: []proxy.Model{spec}})
	if b.url, err = b.serve(b.proxy); err != nil {
		return nil, err
	}
	b.client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: o.clients}}
	b.goroutines = runtime.NumGoroutine()
	return b, nil
}

// serve answers with h on a loopback port.
func (b *box) serve(h http.Handler) (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("no loopback port can be opened: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Hour, IdleTimeout: 5 * time.Second, ErrorLog: nil}
	b.servers = append(b.servers, srv)
	go srv.Serve(l) //nolint:errcheck // ends with close
	return "http://" + l.Addr().String(), nil
}

func (b *box) close() {
	if b.client != nil {
		b.client.CloseIdleConnections()
	}
	for _, srv := range b.servers {
		_ = srv.Close()
	}
	if b.proxy != nil {
		b.proxy.Close()
	}
	b.collector.Close()
}

// progress is how often a run says how far it is.
const progress = 10 * time.Second

// send sends the requests from one number to another and waits for all of them.
func (b *box) send(ctx context.Context, out io.Writer, from, to int) error {
	var next atomic.Int64
	next.Store(int64(from))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var open, telling sync.WaitGroup
	for range b.options.clients {
		open.Go(func() {
			for n := int(next.Add(1)) - 1; n < to && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				b.one(ctx, n)
			}
		})
	}
	began := time.Now()
	telling.Go(func() {
		for tick := time.NewTicker(progress); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				n := min(int(next.Load()), to)
				fmt.Fprintf(out, "%d of %d requests, %.0f a second, %d odd\n", n, b.options.requests, float64(n-from)/time.Since(began).Seconds(), b.odd.Load())
			}
		}
	})
	open.Wait()
	err := ctx.Err()
	cancel()
	telling.Wait()
	if err != nil {
		return fmt.Errorf("it was interrupted after %d requests", min(int(next.Load()), to))
	}
	return nil
}

// one sends request n and looks at its answer.
func (b *box) one(ctx context.Context, n int) {
	c := choose(rand.New(rand.NewPCG(b.options.seed, uint64(n))), n)
	b.sent[c.shape].Add(1)
	if c.leaves > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.leaves)
		defer cancel()
	}
	status, body, err := b.ask(ctx, c)
	if wrong := c.odd(status, body, err); wrong != "" && (ctx.Err() == nil || c.leaves > 0) {
		b.odd.Add(1)
		b.once.Do(func() { b.firstOdd = wrong })
	}
}

func (b *box) ask(ctx context.Context, c call) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+c.path, strings.NewReader(c.body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.session != "" {
		req.Header.Set("X-Session-Id", c.session)
	}
	// Not sent: it lets the client try another connection when an idle one just closed.
	req.Header["Idempotency-Key"] = nil
	resp, err := b.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), errors.Join(err, resp.Body.Close())
}

// leftovers is what is there when nothing is asked.
type leftovers struct {
	inFlight, held, goroutines int
	heap                       int64 // bytes after a collection
}

func (l leftovers) String() string {
	return fmt.Sprintf("%d in flight, %d waiting, %d goroutines, heap %.1f MiB", l.inFlight, l.held, l.goroutines, float64(l.heap)/(1<<20))
}

// rest lets everything end that ends by itself, connections that are idle among them,
// and looks at what is left then.
func (b *box) rest(ctx context.Context) leftovers {
	b.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		l := leftovers{goroutines: runtime.NumGoroutine()}
		for i := range replicas {
			l.inFlight += b.proxy.InFlight(proxy.ReplicaID(fmt.Sprintf("soak/%d", i)))
		}
		view, _ := b.proxy.View("soak")
		l.inFlight, l.held = max(l.inFlight, view.InFlight), view.Held
		if ctx.Err() != nil || l.inFlight == 0 && l.held == 0 && l.goroutines <= b.goroutines {
			l.heap = heap()
			return l
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // pools let go with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// tally says what was sent.
func (b *box) tally() string {
	var text strings.Builder
	for _, s := range shapes {
		fmt.Fprintf(&text, "  %-14s %d\n", s.name, b.sent[s.name].Load())
	}
	view, _ := b.proxy.View("soak")
	fmt.Fprintf(&text, "  %d clients left, %d turns spilled, %d conversations are kept\n", b.gone.Load(), b.spilled.Load(), view.Conversations)
	return text.String()
}
