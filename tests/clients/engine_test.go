package clients

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// answerHeader numbers what the engines answer, so that what a client got can be laid
// beside what was sent to it.
const answerHeader = "X-Scripted-Answer"

// script decides what the engines answer to a request that generates.
type script func(q *question) reply

// question is a request as an engine sees it.
type question struct {
	path   string
	header http.Header
	body   struct {
		Model         string            `json:"model"`
		Stream        bool              `json:"stream"`
		StreamOptions map[string]bool   `json:"stream_options"`
		Tools         []json.RawMessage `json:"tools"`
		Messages      []json.RawMessage `json:"messages"`
		Input         json.RawMessage   `json:"input"`
	}
	raw []byte
}

// tools returns the names of the tools that the request offers.
func (q *question) tools() []string {
	var names []string
	for _, raw := range q.body.Tools {
		var tool struct {
			Name     string `json:"name"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if json.Unmarshal(raw, &tool) == nil {
			names = append(names, tool.Name+tool.Function.Name)
		}
	}
	return names
}

// stall is a point at which an engine falls silent until its client leaves, or cuts the
// connection.
type stall int

const (
	noStall stall = iota
	stallAtOnce
	stallInStream
	cutInStream
)

// reply is what an engine says. Its exported part stands in the recordings.
type reply struct {
	Text string `json:"text,omitempty"`
	Tool string `json:"tool,omitempty"` // name of a tool to call after the text
	Args any    `json:"args,omitempty"` // its arguments
	// Namespace groups the tool with others; Codex has such.
	Namespace string `json:"namespace,omitempty"`
	Status    int    `json:"status,omitempty"` // of an error; 0 for a good answer
	Fault     string `json:"fault,omitempty"`  // the error's body

	wait  string // the error's Retry-After, or empty
	stall stall
}

// traffic is one request to an engine and what it sent back.
type traffic struct {
	replica int
	method  string
	uri     string
	header  http.Header
	body    []byte
	tools   []string
	said    reply

	status     int
	sentHeader http.Header
	sent       []byte
	aborted    chan struct{} // closed when the client of the engine left
}

// engines are the scripted replicas of one model.
type engines struct {
	t    testing.TB
	urls []string

	mu      sync.Mutex
	script  script
	traffic map[string]*traffic // by the value of answerHeader
	order   []string
	last    atomic.Int64
	stalled chan *traffic // answers that stopped in the middle
}

// What the daemon asks an engine for itself.
const (
	engineMetrics = `vllm:cache_config_info{block_size="16",num_gpu_blocks="65536",kv_cache_size_tokens="1048576"} 1` + "\n" +
		"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0\n"
	engineModels = `{"object":"list","data":[{"id":"` + model + `","object":"model","created":1,"owned_by":"vllm","max_model_len":262144}]}`
	firstToken   = `{"id":"cmpl-1","object":"text_completion","choices":[{"index":0,"text":"Hi","finish_reason":"length"}]}`
)

// newEngines starts n scripted replicas.
func newEngines(t testing.TB, n int) *engines {
	e := &engines{t: t, traffic: map[string]*traffic{}, stalled: make(chan *traffic, 100)}
	for i := range n {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.serve(i, w, r) }))
		t.Cleanup(func() {
			server.CloseClientConnections() // a client that hangs must not hold the end of the test
			server.Close()
		})
		e.urls = append(e.urls, server.URL)
	}
	return e
}

// play sets what the engines answer from now on.
func (e *engines) play(s script) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.script = s
}

// ask returns the answer of the script.
func (e *engines) ask(q *question) reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.script == nil {
		return reply{Text: "Hello."}
	}
	return e.script(q)
}

// find returns what was kept of a numbered answer.
func (e *engines) find(number string) *traffic {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.traffic[number]
}

// serve answers as a vLLM does.
func (e *engines) serve(replica int, w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health":
		return
	case "/version":
		io.WriteString(w, `{"version":"0.32.0"}`)
		return
	case "/metrics":
		io.WriteString(w, engineMetrics)
		return
	case "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, engineModels)
		return
	case "/v1/completions": // asked by the daemon alone, for its first token
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, firstToken)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"detail":"Not Found"}`)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left while it sent
	}
	q := &question{path: r.URL.Path, header: r.Header, raw: body}
	if err := json.Unmarshal(body, &q.body); err != nil {
		e.t.Errorf("an engine got a body for %s that is no JSON: %v", r.URL.Path, err)
	}
	number := strconv.FormatInt(e.last.Add(1), 10)
	kept := &traffic{
		replica: replica, method: r.Method, uri: r.RequestURI, header: r.Header.Clone(), body: body,
		tools: q.tools(), aborted: make(chan struct{}),
	}
	e.mu.Lock()
	e.traffic[number] = kept
	e.order = append(e.order, number)
	e.mu.Unlock()
	e.send(w, r, q, kept, number)
}

// send writes the script's answer, in pieces that respect neither frames nor runes.
func (e *engines) send(w http.ResponseWriter, r *http.Request, q *question, kept *traffic, number string) {
	said := e.ask(q)
	wait := func() {
		<-r.Context().Done()
		close(kept.aborted)
	}
	if said.stall == stallAtOnce {
		wait()
		return
	}
	contentType, text := render(q, said, number)
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Server", "uvicorn")
	h.Set("Vary", "Origin")
	h.Set(answerHeader, number)
	status := http.StatusOK
	if said.Status != 0 {
		status = said.Status
		if said.wait != "" {
			h.Set("Retry-After", said.wait)
		}
	}
	e.mu.Lock()
	kept.said, kept.status, kept.sentHeader, kept.sent = said, status, h.Clone(), text
	e.mu.Unlock()
	w.WriteHeader(status)
	if !strings.HasPrefix(contentType, "text/event-stream") {
		_, _ = w.Write(text) // whether the client left is asked where it matters
		return
	}
	out := http.NewResponseController(w)
	for i, sizes := 0, []int{1, 7, 61, 13, 300, 2}; len(text) > 0; i++ {
		n := min(sizes[i%len(sizes)], len(text))
		_, _ = w.Write(text[:n]) // as above
		_ = out.Flush()          // as above
		text = text[n:]
	}
	switch said.stall {
	case stallInStream:
		e.stalled <- kept
		wait()
	case cutInStream:
		panic(http.ErrAbortHandler)
	}
}
