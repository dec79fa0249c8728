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
	"time"
)

// Figures of one way under one load.
type Figures struct {
	// Name of the way.
	Name string `json:"name"`
	// Streams that came to their end.
	Streams int `json:"streams"`
	// Time to the first byte of the answer's body, in microseconds.
	P50Micros float64 `json:"p50Micros"`
	P99Micros float64 `json:"p99Micros"`
	// CPUMicros is the way's own processor time per stream, in microseconds; absent when
	// it has no process of its own.
	CPUMicros *float64 `json:"cpuMicros,omitempty"`
	// StreamsPerSecond at the given number of connections; a pace bounds it.
	StreamsPerSecond float64 `json:"streamsPerSecond"`
}

// Compare measures all ways and returns their figures in the given order. The first
// failed stream ends it, since a way that fails is faster than one that works.
func Compare(ctx context.Context, opts Options) ([]Figures, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: opts.Load.Connections, DisableCompression: true}
	defer transport.CloseIdleConnections()
	ways := make([]*measured, len(opts.Ways))
	for i, way := range opts.Ways {
		ways[i] = &measured{way: way, opts: opts, http: &http.Client{Transport: transport}}
	}
	for round := range opts.Rounds {
		share := opts.Load.Streams*(round+1)/opts.Rounds - opts.Load.Streams*round/opts.Rounds
		for _, place := range order(len(ways), round) {
			if opts.Progress != nil {
				opts.Progress(fmt.Sprintf("%s: round %d of %d, %s", opts.Load, round+1, opts.Rounds, ways[place].way.Name))
			}
			if err := ways[place].turn(ctx, share); err != nil {
				return nil, err
			}
		}
	}
	out := make([]Figures, len(ways))
	for i, m := range ways {
		out[i] = m.figures()
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

// warmPace is the longest pace of the streams that do not count.
const warmPace = 300 * time.Millisecond

// turn gives the way n streams that count. One on each connection goes before them:
// the ways are idle while others have their turn, and close connections meanwhile.
func (m *measured) turn(ctx context.Context, n int) error {
	load := m.opts.Load
	m.pace(min(load.Pace, warmPace))
	if _, err := m.streams(ctx, load.Connections, 0); err != nil {
		return err
	}
	m.pace(load.Pace)
	before, err := m.used()
	if err != nil {
		return err
	}
	start := time.Now()
	first, err := m.streams(ctx, n, load.Pace)
	if err != nil {
		return err
	}
	m.wall += time.Since(start)
	after, err := m.used()
	m.cpu += after - before
	m.first = append(m.first, first...)
	return err
}

func (m *measured) pace(d time.Duration) {
	if m.opts.SetPace != nil {
		m.opts.SetPace(d)
	}
}

// used is the processor time of the way so far.
func (m *measured) used() (time.Duration, error) {
	if m.way.CPU == nil {
		return 0, nil
	}
	used, err := m.way.CPU()
	if err != nil {
		return 0, fmt.Errorf("the processor time of %s cannot be read: %w", m.way.Name, err)
	}
	return used, nil
}

// streams reads n streams, shared out evenly among the connections, and returns the
// times to their first bytes. The connections begin spread evenly over the time lead,
// so that paced streams do not all begin in the same moment, now and in the next ones.
func (m *measured) streams(ctx context.Context, n int, lead time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all []time.Duration
	var open sync.WaitGroup
	connections := min(n, m.opts.Load.Connections)
	for c := range connections {
		open.Go(func() {
			timer := time.NewTimer(lead * time.Duration(c) / time.Duration(connections))
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			for range n*(c+1)/connections - n*c/connections {
				if ctx.Err() != nil {
					return
				}
				first, err := m.stream(ctx, c)
				if err != nil {
					cancel(fmt.Errorf("a stream through %s failed: %w", m.way.Name, err))
					return
				}
				m.mu.Lock()
				all = append(all, first)
				m.mu.Unlock()
			}
		})
	}
	open.Wait()
	return all, context.Cause(ctx)
}

// doneFrame ends a whole stream.
var doneFrame = []byte("data: [DONE]")

// stream reads one answer to its end and returns the time to its first byte.
func (m *measured) stream(ctx context.Context, connection int) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.way.url(connection), bytes.NewReader(m.opts.Body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	conversation(req.Header, connection)
	// Not sent: it lets the client open another connection when the way has just closed
	// the one it would have used, as a real client does.
	req.Header["Idempotency-Key"] = nil
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
		tail = append(tail[:0], tail[max(0, len(tail)-2*len(doneFrame)):]...)
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
	out := Figures{
		Name:             m.way.Name,
		Streams:          n,
		P50Micros:        at(0.5),
		P99Micros:        at(0.99),
		StreamsPerSecond: math.Round(float64(n)/m.wall.Seconds()*10) / 10,
	}
	if m.way.CPU != nil {
		each := micros(m.cpu / time.Duration(n))
		out.CPUMicros = &each
	}
	return out
}

func micros(d time.Duration) float64 { return math.Round(float64(d)/100) / 10 }
