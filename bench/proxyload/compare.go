package proxyload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Way is one way to the engines.
type Way struct {
	// Name of the way: "direct".
	Name string
	// URL of its chat completions.
	URL string
}

// Options of a comparison.
type Options struct {
	// Ways to compare; the first one is the direct one.
	Ways []Way
	// Streams per way, over all rounds.
	Streams int
	// Concurrency is the number of streams open at the same time.
	Concurrency int
	// Rounds in which the ways take turns; 0 means 4.
	Rounds int
	// Body of each request.
	Body []byte
	// Header is sent with each request, beside the content type.
	Header http.Header
	// CPU returns the processor time that was used so far, or nil to leave it out.
	CPU func() time.Duration
}

// Figures of one way.
type Figures struct {
	// Name of the way.
	Name string `json:"name"`
	// Streams that came to their end.
	Streams int `json:"streams"`
	// Time to the first byte of the answer's body, in microseconds.
	P50Micros float64 `json:"p50Micros"`
	P99Micros float64 `json:"p99Micros"`
	// CPUMicros is the processor time per stream, in microseconds; 0 without a meter.
	CPUMicros float64 `json:"cpuMicros"`
	// StreamsPerSecond at the given concurrency.
	StreamsPerSecond float64 `json:"streamsPerSecond"`
}

// Validate returns an error that names every option out of range, or nil.
func (o Options) Validate() error {
	var errs []error
	if len(o.Ways) == 0 {
		errs = append(errs, errors.New("there is no way to measure"))
	}
	if o.Streams < 1 {
		errs = append(errs, fmt.Errorf("a comparison needs at least 1 stream, not %d", o.Streams))
	}
	if o.Concurrency < 1 {
		errs = append(errs, fmt.Errorf("at least 1 stream must be open at a time, not %d", o.Concurrency))
	}
	return errors.Join(errs...)
}

// Compare measures all ways and returns their figures in the given order. The first
// failed stream ends it, since a way that fails is faster than one that works.
func Compare(ctx context.Context, opts Options) ([]Figures, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConns: 0, MaxIdleConnsPerHost: opts.Concurrency, DisableCompression: true}
	defer transport.CloseIdleConnections()
	ways := make([]*measured, len(opts.Ways))
	for i, way := range opts.Ways {
		ways[i] = &measured{way: way, opts: opts, http: &http.Client{Transport: transport}}
	}
	// The first streams of each way open its connections and are not counted.
	for _, m := range ways {
		if err := m.round(ctx, opts.Concurrency); err != nil {
			return nil, err
		}
		m.reset()
	}
	rounds := opts.Rounds
	if rounds <= 0 {
		rounds = 4
	}
	for round := range rounds {
		share := opts.Streams*(round+1)/rounds - opts.Streams*round/rounds
		for _, m := range ways {
			if err := m.round(ctx, share); err != nil {
				return nil, err
			}
		}
		slices.Reverse(ways)
	}
	out := make([]Figures, 0, len(ways))
	for _, way := range opts.Ways {
		i := slices.IndexFunc(ways, func(m *measured) bool { return m.way == way })
		out = append(out, ways[i].figures())
	}
	return out, nil
}

// measured is one way and what was seen of it.
type measured struct {
	way  Way
	opts Options
	http *http.Client

	mu    sync.Mutex // guards first
	first []time.Duration
	cpu   time.Duration
	wall  time.Duration
}

func (m *measured) reset() { m.first, m.cpu, m.wall = nil, 0, 0 }

// round opens n streams, Concurrency at a time.
func (m *measured) round(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(n))
	var cpu time.Duration
	if m.opts.CPU != nil {
		cpu = m.opts.CPU()
	}
	start := time.Now()
	var streams sync.WaitGroup
	for range min(n, m.opts.Concurrency) {
		streams.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				first, err := m.stream(ctx)
				if err != nil {
					cancel(fmt.Errorf("a stream through %s failed: %w", m.way.Name, err))
					return
				}
				m.mu.Lock()
				m.first = append(m.first, first)
				m.mu.Unlock()
			}
		})
	}
	streams.Wait()
	m.wall += time.Since(start)
	if m.opts.CPU != nil {
		m.cpu += m.opts.CPU() - cpu
	}
	return context.Cause(ctx)
}

// doneFrame ends a whole stream.
var doneFrame = []byte("data: [DONE]")

// stream reads one answer to its end and returns the time to its first byte.
func (m *measured) stream(ctx context.Context) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.way.URL, bytes.NewReader(m.opts.Body))
	if err != nil {
		return 0, err
	}
	if m.opts.Header != nil {
		req.Header = m.opts.Header.Clone()
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := m.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	buf := make([]byte, 4<<10)
	n, err := resp.Body.Read(buf)
	first := time.Since(start)
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %d: %s", resp.StatusCode, bytes.TrimSpace(buf[:n]))
	}
	tail := bytes.Clone(buf[:n])
	for err == nil {
		n, err = resp.Body.Read(buf)
		tail = append(tail, buf[:n]...)
		tail = tail[max(0, len(tail)-2*len(doneFrame)):]
	}
	if !errors.Is(err, io.EOF) {
		return 0, err
	}
	if !bytes.Contains(tail, doneFrame) {
		return 0, errors.New("it ended before its last frame")
	}
	return first, nil
}

func (m *measured) figures() Figures {
	slices.Sort(m.first)
	at := func(p float64) float64 {
		d := m.first[max(0, int(math.Ceil(p*float64(len(m.first))))-1)]
		return micros(d)
	}
	n := len(m.first)
	return Figures{
		Name:             m.way.Name,
		Streams:          n,
		P50Micros:        at(0.5),
		P99Micros:        at(0.99),
		CPUMicros:        micros(m.cpu / time.Duration(n)),
		StreamsPerSecond: math.Round(float64(n)/m.wall.Seconds()*10) / 10,
	}
}

func micros(d time.Duration) float64 { return math.Round(float64(d)/100) / 10 }
