package proxy

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// abortable is one API, with what an engine answers there.
type abortable struct {
	path, body string   // the body takes %t, whether to stream
	first      string   // frames of a stream, with a first token, before which nobody gets any
	last       []string // its end
	whole      string   // an answer that is no stream
}

var abortables = []abortable{
	{
		"/v1/chat/completions", `{"model":"alias","stream":%t,"messages":[{"role":"user","content":"hello"}]}`,
		chatChunks(1)[0] + chatChunks(1)[1],
		[]string{usageFrame, doneFrame},
		chatWhole,
	},
	{
		"/v1/completions", `{"model":"alias","stream":%t,"prompt":"hello"}`,
		`data: {"id":"c1","object":"text_completion","model":"m","choices":[{"index":0,"text":"t","finish_reason":null}]}` + "\n\n",
		[]string{usageFrame, doneFrame},
		`{"id":"c1","object":"text_completion","model":"m","choices":[{"index":0,"text":"t"}]}`,
	},
	{
		"/v1/responses", `{"model":"alias","stream":%t,"input":"hello"}`,
		"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"model\":\"m\"}}\n\n",
		[]string{responseCompleted},
		`{"id":"resp_1","object":"response","status":"completed","model":"m"}`,
	},
	{
		"/v1/messages", `{"model":"alias","stream":%t,"max_tokens":5,"messages":[{"role":"user","content":"hello"}]}`,
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"model\":\"m\",\"usage\":{\"input_tokens\":20}}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"t\"}}\n\n",
		[]string{"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
		`{"id":"m1","type":"message","model":"m","content":[]}`,
	},
	{"/v1/embeddings", `{"model":"alias","input":"hello","truncate":%t}`, "", nil, `{"object":"list","model":"m","data":[]}`},
}

// answersUntilGone is an engine that begins every answer, or brings it to its last
// frame, and then is silent until the client has left.
func answersUntilGone(end bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, a := range abortables {
			switch {
			case a.path != r.URL.Path:
			case strings.Contains(string(body), `"stream":true`):
				frames := []string{a.first}
				if end {
					frames = append(frames, a.last...)
				}
				sendFrames(w, frames, 0)
			default:
				w.Header().Set("Content-Type", "application/json")
				n := len(a.whole)
				if !end {
					n /= 2
				}
				_, _ = io.WriteString(w, a.whole[:n])
				_ = http.NewResponseController(w).Flush()
			}
		}
		<-r.Context().Done()
	}
}

// firstOf is the beginning of any frame.
func firstOf(a abortable) string { return a.first[:min(6, len(a.first))] }

// lastOf is the last frame of a stream.
func lastOf(a abortable) string { return strings.Join(a.last[max(0, len(a.last)-1):], "") }

// abortPhase is a moment in the life of a request at which clients leave.
type abortPhase struct {
	requests int
	script   http.HandlerFunc
	box      func(*Options, *Snapshot) // what is special about the box
	fill     bool                      // of its replicas before, so that nobody gets in
	body     string                    // instead of the API's, with %t
	sends    func(n int) int           // of n bytes of a request how many; nil is all
	arrives  bool                      // whether an engine gets the requests
	sees     func(abortable) string    // what the client of a stream gets to see
}

// TestTenThousandAborts gives up requests of every API, streams and not, at each phase
// of their life, each at a random time. Fake time passes only when nothing else can
// happen, so all of them have come to the phase and no further. Nothing may be left of
// them: what is in flight, what waits, what is buffered, and no goroutine, which the
// bubble's end makes sure of.
func TestTenThousandAborts(t *testing.T) {
	everybodyWaits := func(_ *Options, s *Snapshot) {
		s.Models[0].Routing.Admission = route.AdmissionWorkingSet
		s.Models[0].Routing.MaxHold = 2 * time.Minute
		for i := range s.Models[0].Replicas {
			s.Models[0].Replicas[i].Route.Capacity = 12_000
		}
	}
	large := strings.Replace(largeChat(true, "next"), `"stream":true`, `"stream":%t`, 1)
	for name, phase := range map[string]abortPhase{
		"before the body":      {requests: 1000, script: answers(1), sends: func(int) int { return 0 }},
		"inside the body":      {requests: 1500, script: answers(1), sends: func(n int) int { return 1 + rand.IntN(n-1) }},
		"at the door":          {requests: 1500, script: silentUntilGone, box: everybodyWaits, fill: true, body: large},
		"before the headers":   {requests: 2000, script: silentUntilGone, arrives: true},
		"inside the answer":    {requests: 2000, script: answersUntilGone(false), arrives: true, sees: firstOf},
		"after the last frame": {requests: 2000, script: answersUntilGone(true), arrives: true, sees: lastOf},
	} {
		t.Run(name, func(t *testing.T) { bubble(t, phase.test) })
	}
}

func (p abortPhase) test(t *testing.T) {
	var options []boxOption
	if p.box != nil {
		options = append(options, p.box)
	}
	b := newBox(t, 4, p.script, options...)
	leave := func() {}
	if p.fill {
		leave = b.fill()
	}
	before := b.arrived()
	var clients sync.WaitGroup
	for i := range p.requests {
		clients.Go(func() {
			<-time.After(time.Duration(rand.IntN(5000)) * time.Millisecond)
			b.giveUp(p, i, time.Second+time.Duration(rand.IntN(1000))*time.Millisecond)
		})
	}
	if p.fill {
		<-time.After(3 * time.Second)
		if n := b.held(); n == 0 {
			t.Error("nobody waits at the door")
		}
	}
	clients.Wait()
	synctest.Wait()
	want := 0
	if p.arrives {
		want = p.requests
	}
	if got := b.arrived() - before; got != want {
		t.Errorf("the engines got %d of %d requests, want %d", got, p.requests, want)
	}
	leave()
	b.wantIdle()
	if n := metric(t, b.registry, "lmwarden_requests_in_flight", nil); n != 0 {
		t.Errorf("the metric says that %v are in flight", n)
	}
	if n := b.proxy.bodies.used.Load(); n != 0 {
		t.Errorf("%d bytes of bodies are kept", n)
	}
	// The old conversations have to be over for the spread to be exact.
	<-time.After(6 * time.Minute)
	b.spread(8, 2)
}

// fill gives each replica a stream that leaves no room for another conversation. Call
// what it returns to end them.
func (b *box) fill() (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var streams sync.WaitGroup
	for i := range b.engines {
		streams.Go(func() {
			b.do(b.request(ctx, "/v1/chat/completions", largeChat(true, "first"), session(fmt.Sprintf("a-first-conversation-%d", i))...))
		})
		synctest.Wait()
	}
	return func() { cancel(); streams.Wait() }
}

// arrived returns how many requests the engines have got.
func (b *box) arrived() int {
	n := 0
	for _, e := range b.engines {
		n += len(e.requests())
	}
	return n
}

// giveUp sends request i of a phase and leaves after a time. It writes to the
// connection itself, because an http.Client sends a request whole.
func (b *box) giveUp(p abortPhase, i int, after time.Duration) {
	api := abortables[i%len(abortables)]
	if p.body != "" {
		api.path, api.body = "/v1/chat/completions", p.body
	}
	stream := i/len(abortables)%2 == 0
	body := fmt.Sprintf(api.body, stream)
	sent := len(body)
	if p.sends != nil {
		sent = p.sends(len(body))
	}
	conn, err := b.net.dial(context.Background(), "tcp", "proxy:80")
	if err != nil {
		b.t.Errorf("cannot connect: %v", err)
		return
	}
	var read sync.WaitGroup
	var got strings.Builder
	read.Go(func() { _, _ = io.Copy(&got, conn) })
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: proxy\r\nContent-Type: application/json\r\nX-Session-Id: conversation-number-%d\r\nContent-Length: %d\r\n\r\n%s",
		api.path, i, len(body), body[:sent])
	if err != nil {
		b.t.Errorf("cannot send: %v", err)
	}
	<-time.After(after)
	_ = conn.Close()
	read.Wait()
	if stream && p.sees != nil && !strings.Contains(got.String(), p.sees(api)) {
		b.t.Errorf("%s: the client got %q, and not as far as %q", api.path, got.String(), p.sees(api))
	}
}
