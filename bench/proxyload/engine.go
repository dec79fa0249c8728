package proxyload

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Chunks is the number of pieces of text in one stream.
const Chunks = 64

// Engine is an engine that costs next to nothing: it answers every chat completion at
// once with a stream of [Chunks] pieces, each flushed on its own as an engine does.
type Engine struct {
	// Model is the name that answers carry.
	Model string

	pace atomic.Int64
}

// SetPace spreads the pieces of each stream that begins from now on evenly over d; 0
// sends them as fast as they go. The first one is always sent at once.
func (e *Engine) SetPace(d time.Duration) { e.pace.Store(int64(d)) }

// ServeHTTP answers a chat completion as a stream, and what a warden asks an engine
// before it trusts it: its health, its models, one token, its figures.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/chat/completions":
		e.stream(w, r)
	case "/health":
		w.WriteHeader(http.StatusOK)
	case "/v1/models":
		asJSON(w, `{"object":"list","data":[{"id":%q,"object":"model"}]}`, e.Model)
	case "/v1/completions":
		asJSON(w, `{"id":"cmpl-1","object":"text_completion","model":%q,"choices":[{"index":0,"text":"Hi","finish_reason":"length"}]}`, e.Model)
	case "/metrics":
		_, _ = fmt.Fprintf(w, "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"%d\"} 1\n", cacheBlocks)
	default:
		http.NotFound(w, r)
	}
}

// cacheBlocks is large enough that the cache is no reason to hold or to move anybody:
// what is measured is the proxy, and engines that are full are not its cost.
const cacheBlocks = 1 << 24

func asJSON(w http.ResponseWriter, format, model string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, format, model)
}

func (e *Engine) stream(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := http.NewResponseController(w).Flush
	frame := fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":%q,"choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}`, e.Model) + "\n\n"
	wait := newPacer(time.Duration(e.pace.Load()))
	defer wait.stop()
	for i := range Chunks {
		if wait.until(r.Context(), i) != nil {
			return
		}
		if _, err := io.WriteString(w, frame); err != nil || flush() != nil {
			return
		}
	}
	_, _ = io.WriteString(w, fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":%q,"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":960}}}`, e.Model, Chunks, 1000+Chunks)+"\n\ndata: [DONE]\n\n")
}

// pacer waits for the time of each piece. Times count from the start, so that a late
// piece makes the next ones no later.
type pacer struct {
	timer *time.Timer // nil as fast as it goes
	start time.Time
	step  time.Duration
}

func newPacer(whole time.Duration) pacer {
	if whole <= 0 {
		return pacer{}
	}
	t := time.NewTimer(whole)
	t.Stop()
	return pacer{timer: t, start: time.Now(), step: whole / Chunks}
}

// until waits for the time of piece i.
func (p pacer) until(ctx context.Context, i int) error {
	if p.timer == nil || i == 0 {
		return nil
	}
	p.timer.Reset(time.Until(p.start.Add(time.Duration(i) * p.step)))
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p pacer) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// Body is a request for a stream: a chat completion of about size bytes.
func Body(model string, size int) []byte {
	text := strings.Repeat("All work is measured. ", max(1, size/22))
	return fmt.Appendf(nil, `{"model":%q,"stream":true,"stream_options":{"include_usage":true},"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, model, Chunks, text)
}
