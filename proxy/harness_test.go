package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/lmwarden/lmwarden/proxy/route"
)

func TestMain(m *testing.M) {
	spoil = rubbish
	goleak.VerifyTestMain(m)
}

// engine is a scripted engine.
type engine struct {
	host string
	net  *memNet

	mu     sync.Mutex
	script http.HandlerFunc
	seen   []seenRequest
	server *http.Server
	cuts   int // requests whose context ended before their answer
}

// seenRequest is a request as an engine got it.
type seenRequest struct {
	method, uri, host string
	header            http.Header
	body              string
}

// start makes the engine reachable, as a new process would.
func (e *engine) start() {
	e.server = &http.Server{Handler: e, IdleTimeout: 5 * time.Second, ErrorLog: nil}
	l := e.net.listen(e.host)
	go func(s *http.Server) { _ = s.Serve(l) }(e.server)
}

// kill ends the engine as kill -9 does: every connection breaks.
func (e *engine) kill() { _ = e.server.Close() }

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	e.seen = append(e.seen, seenRequest{r.Method, r.URL.RequestURI(), r.Host, r.Header.Clone(), string(body)})
	script := e.script
	e.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	defer func() {
		if r.Context().Err() != nil {
			e.mu.Lock()
			e.cuts++
			e.mu.Unlock()
		}
	}()
	script(w, r)
}

// does replaces what the engine answers.
func (e *engine) does(script http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.script = script
}

// requests returns what the engine has got.
func (e *engine) requests() []seenRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]seenRequest(nil), e.seen...)
}

// aborted returns how many requests were cut before they were answered.
func (e *engine) aborted() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cuts
}

// memRecorder keeps records.
type memRecorder struct {
	mu      sync.Mutex
	records []Record
}

func (m *memRecorder) Record(r Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = append(m.records, r)
}

// all returns the records so far.
func (m *memRecorder) all() []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Record(nil), m.records...)
}

// box is a proxy in front of scripted engines, and a client.
type box struct {
	t        *testing.T
	net      *memNet
	proxy    *Proxy
	registry *prometheus.Registry
	records  *memRecorder
	engines  []*engine
	client   *http.Client
	snapshot *Snapshot
}

// boxOption changes a box before it starts.
type boxOption func(*Options, *Snapshot)

// newBox starts a proxy with one model "m" of n replicas, whose engines answer with
// script. Everything ends with the test.
func newBox(t *testing.T, n int, script http.HandlerFunc, options ...boxOption) *box {
	t.Helper()
	b := &box{t: t, net: newMemNet(), registry: prometheus.NewRegistry(), records: &memRecorder{}}
	settings := route.DefaultSettings()
	b.snapshot = &Snapshot{Models: []Model{{
		Name: "m", Aliases: []string{"alias", "claude-*"}, MaxModelLen: 4096,
		Created: time.Unix(1700000000, 0), Routing: settings, State: "starting: loading weights",
	}}}
	for i := range n {
		e := &engine{host: fmt.Sprintf("engine%d", i), net: b.net, script: script}
		e.start()
		b.engines = append(b.engines, e)
		b.snapshot.Models[0].Replicas = append(b.snapshot.Models[0].Replicas, Replica{
			ID: ReplicaID(fmt.Sprintf("m/%d", i)), URL: "http://" + e.host + ":8000", APIKey: "engine-key", Rank: -1,
			Route: route.Replica{Incarnation: 1, Ready: true, MaxNumSeqs: 64, Capacity: 100_000},
		})
	}
	o := Options{Registerer: b.registry, Recorder: b.records, DialContext: b.net.dial, Seed: 1}
	for _, f := range options {
		f(&o, b.snapshot)
	}
	b.proxy = New(o)
	b.proxy.Apply(b.snapshot)
	front := &http.Server{Handler: b.proxy}
	l := b.net.listen("proxy")
	go func() { _ = front.Serve(l) }()
	transport := &http.Transport{DialContext: b.net.dial, DisableCompression: true, MaxIdleConnsPerHost: 1024}
	b.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = front.Close()
		b.proxy.Close()
		for _, e := range b.engines {
			e.kill()
		}
	})
	return b
}

// change applies a changed copy of the snapshot.
func (b *box) change(f func(*Model)) {
	s := *b.snapshot
	s.Models = append([]Model(nil), s.Models...)
	s.Models[0].Replicas = append([]Replica(nil), s.Models[0].Replicas...)
	f(&s.Models[0])
	b.snapshot = &s
	b.proxy.Apply(b.snapshot)
}

// request returns a request to the proxy; headers come in pairs.
func (b *box) request(ctx context.Context, path, body string, headers ...string) *http.Request {
	b.t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://proxy:80"+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// reply is an answer as the client got it.
type gotReply struct {
	status int
	header http.Header
	body   string
	err    error // of the transfer
	trail  http.Header
}

// post sends a request and reads the whole answer.
func (b *box) post(path, body string, headers ...string) gotReply {
	b.t.Helper()
	return b.do(b.request(context.Background(), path, body, headers...))
}

func (b *box) do(r *http.Request) gotReply {
	resp, err := b.client.Do(r)
	if err != nil {
		return gotReply{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return gotReply{resp.StatusCode, resp.Header, string(body), err, resp.Trailer}
}

// inFlight returns the requests in flight on all replicas.
func (b *box) inFlight() int {
	n := 0
	for _, r := range b.snapshot.Models[0].Replicas {
		n += b.proxy.InFlight(r.ID)
	}
	return n
}

// wantIdle fails when any counter says that something is in flight.
func (b *box) wantIdle() {
	b.t.Helper()
	synctest.Wait()
	if n := b.inFlight(); n != 0 {
		b.t.Errorf("in flight: got %d, want 0", n)
	}
	if v, _ := b.proxy.View("m"); v.InFlight != 0 || v.Held != 0 {
		b.t.Errorf("the router has %d in flight and %d held, want 0 and 0", v.InFlight, v.Held)
	}
}

// body returns a chat request of a model.
func chat(model string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hello"}]}`, model, stream)
}

// session returns the header that names a conversation.
func session(id string) []string { return []string{"X-Session-Id", id} }

// chatChunks are the frames of a short chat answer, without usage and end.
func chatChunks(n int) []string {
	frames := []string{`data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"}
	for i := range n {
		frames = append(frames, fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":" t%d"},"finish_reason":null}]}`+"\n\n", i))
	}
	return append(frames, `data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n")
}

const (
	usageFrame = `data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":20,"total_tokens":25,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":16}}}` + "\n\n"
	doneFrame  = "data: [DONE]\n\n"
	chatWhole  = `{"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"total_tokens":25,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":16}}}`
)

// answers is an engine that streams n tokens, or answers whole, as it is asked.
func answers(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !bytes.Contains(body, []byte(`"stream":true`)) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, chatWhole)
			return
		}
		frames := chatChunks(n)
		if bytes.Contains(body, []byte(`"include_usage":true`)) {
			frames = append(frames, usageFrame)
		}
		sendFrames(w, append(frames, doneFrame), 0)
	}
}

// sendFrames streams frames with a pause before each.
func sendFrames(w http.ResponseWriter, frames []string, pause time.Duration) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	_ = flush()
	for _, f := range frames {
		if pause > 0 {
			<-time.After(pause)
		}
		if _, err := io.WriteString(w, f); err != nil {
			return
		}
		_ = flush()
	}
}

// tokensUntilGone streams a token every pause until the client is gone.
func tokensUntilGone(pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		flush := http.NewResponseController(w).Flush
		for i := 0; ; i++ {
			if _, err := io.WriteString(w, chatChunks(1)[1]); err != nil {
				return
			}
			_ = flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(pause):
			}
		}
	}
}

// silentUntilGone says nothing, not even headers, until the client is gone.
func silentUntilGone(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// breaks cuts the connection without an answer.
func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// openStream begins a stream and reads its first frame. The caller closes it.
func (b *box) openStream(ctx context.Context, headers ...string) (*http.Response, *bufio.Reader) {
	b.t.Helper()
	resp, err := b.client.Do(b.request(ctx, "/v1/chat/completions", chat("m", true), headers...))
	if err != nil {
		b.t.Fatalf("cannot open a stream: %v", err)
	}
	br := bufio.NewReader(resp.Body)
	if _, err := br.ReadString('\n'); err != nil {
		b.t.Fatalf("cannot read the first frame: %v", err)
	}
	return resp, br
}
