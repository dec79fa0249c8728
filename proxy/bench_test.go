package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// BenchmarkDecision is what the router adds to a request: the key, the placement, the
// reservation and its release, with 64 replicas, 100,000 conversations, and 16
// goroutines that contend for one model.
func BenchmarkDecision(b *testing.B) {
	const replicas, conversations, goroutines = 64, 100_000, 16
	p := New(Options{Seed: 1})
	defer p.Close()
	settings := route.DefaultSettings()
	settings.MaxConversations = conversations + 1
	spec := Model{Name: "m", Routing: settings}
	for i := range replicas {
		spec.Replicas = append(spec.Replicas, Replica{
			ID: ReplicaID(fmt.Sprintf("m/%d", i)), Rank: -1,
			Route: route.Replica{Incarnation: 1, Ready: true, MaxNumSeqs: 256, Capacity: 1 << 20},
		})
	}
	p.Apply(&Snapshot{Models: []Model{spec}})
	m := p.table.Load().named["m"]
	ids := make([]string, conversations)
	served := route.Outcome{Served: true, Prompt: 9000, Cached: 8000, Completion: 300}
	turn := func(v *reservation, id string) {
		now := time.Now()
		q := route.Request{Key: wire.Hash("tenant", "m", id), Rank: -1, PromptBytes: 36_000}
		q.HashKey = binary.LittleEndian.Uint64(q.Key[:8])
		if m.reserve(now, &q, v) == route.Forward {
			m.firstByte(now, v)
		}
		m.release(now, v, served)
	}
	v := &reservation{}
	for i := range ids {
		ids[i] = fmt.Sprintf("id:%08x-0000-7000-8000-000000000001", i)
		turn(v, ids[i])
	}
	var next atomic.Uint64
	b.SetParallelism(max(goroutines/runtime.GOMAXPROCS(0), 1)) // per core
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		v := &reservation{}
		for pb.Next() {
			turn(v, ids[next.Add(7919)%conversations])
		}
	})
}

// sse64 is an answer of 64 chunks of about 160 bytes, each flushed.
func sse64(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	chunk := []byte(`data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}],"pad":"0123456789"}` + "\n\n")
	for range 64 {
		_, _ = w.Write(chunk)
		_ = flush()
	}
	_, _ = io.WriteString(w, doneFrame)
}

// BenchmarkStream passes streams of 64 chunks over loopback: through this proxy, and
// through a bare httputil.ReverseProxy beside it. Compare the two of one run.
func BenchmarkStream(b *testing.B) {
	engine := httptest.NewServer(http.HandlerFunc(sse64))
	defer engine.Close()
	target, err := url.Parse(engine.URL)
	if err != nil {
		b.Fatal(err)
	}
	p := New(Options{})
	defer p.Close()
	p.Apply(&Snapshot{Models: []Model{{Name: "m", Routing: route.DefaultSettings(), Replicas: []Replica{{
		ID: "m/0", URL: engine.URL, Rank: -1, Route: route.Replica{Incarnation: 1, Ready: true},
	}}}}})
	bare := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1024},
	}
	b.Run("lmwarden", func(b *testing.B) { streamThrough(b, p) })
	b.Run("ReverseProxy", func(b *testing.B) { streamThrough(b, bare) })
}

// streamThrough measures whole streams through a handler, and the time to the first
// byte of each.
func streamThrough(b *testing.B, h http.Handler) {
	front := httptest.NewServer(h)
	defer front.Close()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1024}}
	defer client.CloseIdleConnections()
	body := []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"` + string(bytes.Repeat([]byte("x"), 4000)) + `"}]}`)
	var first atomic.Int64
	b.SetParallelism(16)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		buf := make([]byte, 32<<10)
		for pb.Next() {
			start := time.Now()
			req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, front.URL+"/v1/chat/completions", bytes.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("X-Session-Id", "conversation-number-one")
			resp, err := client.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			if n, err := resp.Body.Read(buf); n == 0 {
				b.Error(err)
			}
			first.Add(int64(time.Since(start)))
			if _, err := io.CopyBuffer(io.Discard, resp.Body, buf); err != nil {
				b.Error(err)
			}
			_ = resp.Body.Close()
		}
	})
	b.ReportMetric(float64(first.Load())/float64(b.N)/1e3, "ttfb-µs/op")
}

// BenchmarkIdleMemory reports the memory that an open stream costs in the proxy: what
// 500 streams take through it, less what they take without it.
func BenchmarkIdleMemory(b *testing.B) {
	const streams = 500
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sendFrames(w, chatChunks(1), 0)
		<-r.Context().Done()
	}))
	defer engine.Close()
	p := New(Options{})
	defer p.Close()
	p.Apply(&Snapshot{Models: []Model{{Name: "m", Routing: route.DefaultSettings(), Replicas: []Replica{{
		ID: "m/0", URL: engine.URL, Rank: -1, Route: route.Replica{Incarnation: 1, Ready: true},
	}}}}})
	front := httptest.NewServer(p)
	defer front.Close()
	for b.Loop() {
		directHeap, directStacks := memoryOf(b, engine.URL, streams)
		heap, stacks := memoryOf(b, front.URL, streams)
		heap, stacks = heap-directHeap, stacks-directStacks
		b.ReportMetric(float64(heap+stacks)/streams/1024, "KB/stream")
		b.ReportMetric(float64(stacks)/streams/1024, "stack-KB/stream")
	}
}

// memoryOf returns the bytes of heap and of stacks that n open streams take.
func memoryOf(b *testing.B, address string, n int) (heap, stacks int64) {
	b.Helper()
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	settle(b)
	heapBefore, stacksBefore := memory()
	bodies := make([]io.ReadCloser, 0, n)
	for range n {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/v1/chat/completions", bytes.NewReader([]byte(chat("m", true))))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadAtLeast(resp.Body, make([]byte, 16), 16); err != nil {
			b.Fatal(err)
		}
		bodies = append(bodies, resp.Body)
	}
	heap, stacks = memory()
	cancel()
	for _, body := range bodies {
		_ = body.Close()
	}
	return heap - heapBefore, stacks - stacksBefore
}

// settle waits until the goroutines of an earlier measurement have ended.
func settle(b *testing.B) {
	b.Helper()
	const own = 50 // more than the benchmark has without streams
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > own; runtime.Gosched() {
		if time.Now().After(end) {
			b.Fatalf("%d goroutines are left of the streams before", runtime.NumGoroutine())
		}
	}
}

// memory returns the bytes of live heap and of stacks. A collection halves stacks that
// are too large, so it takes a few to see what stays.
func memory() (heap, stacks int64) {
	for range 4 {
		runtime.GC()
	}
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc), int64(s.StackInuse)
}
