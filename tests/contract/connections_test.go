package contract

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/tests/harness"
)

func keepAlive(t *testing.T, e *engine) {
	conn, err := net.Dial("tcp", e.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if _, err := io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: engine\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, nil)
	if err != nil || response.StatusCode != http.StatusOK || response.Close {
		t.Fatalf("/health is %v, %v", response, err)
	}
	rest, err := io.ReadAll(r)
	if err != nil || len(rest) > 0 {
		t.Fatalf("the idle connection ended with %v after %q", err, rest)
	}
	if took := time.Since(begun); took < 4500*time.Millisecond || took > time.Minute {
		t.Errorf("the idle connection was closed after %s, want 5 s", took)
	}
}

// stream is a long answer that is being read.
type stream struct {
	body   *bufio.Reader
	cancel context.CancelFunc // the client goes away
}

const chatPath = "/v1/chat/completions"

// longBody asks for more tokens than any test waits for.
const longBody = `{"model":"tiny","messages":[{"role":"user","content":"count"}],"max_tokens":3800,"ignore_eos":true,"stream":%t}`

// openStream starts a long chat or messages stream and returns once its first event came.
func (e *engine) openStream(t *testing.T, path string) *stream {
	t.Helper()
	s := e.beginStream(t, path, fmt.Sprintf(longBody, true))
	for range 3 { // of two or three lines
		if line, err := s.body.ReadString('\n'); err != nil {
			t.Fatalf("the stream began with %q, %v", line, err)
		}
	}
	return s
}

// beginStream starts a stream and returns once its headers came.
func (e *engine) beginStream(t *testing.T, path, body string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", jsonContent)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != streamContent {
		t.Fatalf("the stream began with %s %v", response.Status, response.Header)
	}
	return &stream{bufio.NewReader(response.Body), cancel}
}

// rest reads a stream to its end in the background.
func (s *stream) rest() (end <-chan string) {
	ended := make(chan string, 1)
	go func() {
		rest, err := io.ReadAll(s.body)
		ended <- fmt.Sprintf("%q, %v", rest[max(0, len(rest)-1500):], err)
	}()
	return ended
}

// waitRunning waits until the engine computes n requests.
func (e *engine) waitRunning(t *testing.T, n float64, patience time.Duration) {
	t.Helper()
	harness.Within(t, patience, func() error {
		found := e.scrape(t)
		if got := sum(found, "vllm:num_requests_running"); got != n {
			return fmt.Errorf("%v requests run, want %v", got, n)
		}
		return nil
	})
}

// aborted checks that the engine stops when a request is given up, and does not come to
// its end, and that no counter says so.
func (e *engine) aborted(t *testing.T, giveUp func()) {
	t.Helper()
	e.waitRunning(t, 1, soon)
	before := e.scrape(t)
	giveUp()
	begun := time.Now()
	e.waitRunning(t, 0, soon)
	t.Logf("stopped within %s", time.Since(begun).Round(time.Millisecond))
	first := e.scrape(t)
	if a, b := sum(before, "vllm:request_success_total"), sum(first, "vllm:request_success_total"); a != b {
		t.Errorf("%v requests came to their end, want none", b-a)
	}
	if n := sum(first, "vllm:request_success_total", "finished_reason", "abort"); n != 0 {
		t.Errorf("%v aborted requests are counted, want none", n)
	}
	if used := sum(first, "vllm:kv_cache_usage_perc"); used != 0 {
		t.Errorf("%v of the cache is still held", used)
	}
	time.Sleep(300 * time.Millisecond)
	second := e.scrape(t)
	if a, b := sum(first, "vllm:generation_tokens_total"), sum(second, "vllm:generation_tokens_total"); a != b {
		t.Errorf("generated tokens went on from %v to %v", a, b)
	}
}

func abortStream(t *testing.T, e *engine) {
	s := e.openStream(t, chatPath)
	e.aborted(t, s.cancel)
}

func abortWhole(t *testing.T, e *engine) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := exchange{path: chatPath, body: fmt.Sprintf(longBody, false)}.send(ctx, e.url)
		ended <- err
	}()
	e.aborted(t, cancel)
	if err := <-ended; err == nil {
		t.Error("the request had its answer before it was given up")
	}
}

// fullEngine: a stream that has to wait has its headers at once, but no data before the
// engine takes it up; only the responses API tells of itself before.
func fullEngine(t *testing.T, e *engine) {
	var running []*stream
	for range maxNumSeqs {
		running = append(running, e.openStream(t, chatPath))
	}
	chat := e.beginStream(t, chatPath, fmt.Sprintf(longBody, true))
	responses := e.beginStream(t, "/v1/responses", `{"model":"tiny","input":"count","max_output_tokens":8,"stream":true}`)
	for _, want := range []string{"response.created", "response.in_progress"} {
		name, _ := responses.body.ReadString('\n')
		_, _ = responses.body.ReadString('\n')
		if end, err := responses.body.ReadString('\n'); name != "event: "+want+"\n" || end != "\n" || err != nil {
			t.Errorf("the event of the responses API is %q %q, %v; want %s", name, end, err, want)
		}
	}
	harness.Within(t, soon, func() error {
		found := e.scrape(t)
		want := [4]float64{maxNumSeqs, 2, 2, 0}
		got := [4]float64{
			sum(found, "vllm:num_requests_running"), sum(found, "vllm:num_requests_waiting"),
			sum(found, "vllm:num_requests_waiting_by_reason", "reason", "capacity"),
			sum(found, "vllm:num_requests_waiting_by_reason", "reason", "deferred"),
		}
		if got != want {
			return fmt.Errorf("running, waiting, for capacity, deferred are %v, want %v", got, want)
		}
		return nil
	})
	first := make(chan error, 2)
	for _, s := range []*stream{chat, responses} {
		go func() {
			_, err := s.body.ReadByte()
			first <- err
		}()
	}
	select {
	case <-first:
		t.Error("a waiting stream had data before its turn")
	case <-time.After(500 * time.Millisecond):
	}
	for _, s := range running {
		s.cancel()
	}
	for range 2 {
		if err := <-first; err != nil {
			t.Errorf("a stream whose turn came gave %v", err)
		}
	}
	chat.cancel()
	responses.cancel()
	e.waitRunning(t, 0, soon)
}
