package proxyload

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Chunks is the number of pieces of text in one stream.
const Chunks = 64

// Engine is an engine that costs nothing: it answers every chat completion at once
// with a stream of [Chunks] pieces, each flushed on its own as an engine does.
type Engine struct {
	// Model is the name that answers carry.
	Model string
}

// ServeHTTP answers a chat completion, the health probe and the list of models.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/chat/completions":
		e.stream(w, r)
	case "/health":
		w.WriteHeader(http.StatusOK)
	case "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model"}]}`, e.Model)
	default:
		http.NotFound(w, r)
	}
}

func (e *Engine) stream(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := http.NewResponseController(w).Flush
	frame := fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":%q,"choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}`, e.Model) + "\n\n"
	for range Chunks {
		if _, err := io.WriteString(w, frame); err != nil || flush() != nil {
			return
		}
	}
	_, _ = io.WriteString(w, fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":%q,"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":960}}}`, e.Model, Chunks, 1000+Chunks)+"\n\ndata: [DONE]\n\n")
}

// Body is a request for a stream: a chat completion of about size bytes.
func Body(model string, size int) []byte {
	text := strings.Repeat("All work is measured. ", max(1, size/22))
	return fmt.Appendf(nil, `{"model":%q,"stream":true,"stream_options":{"include_usage":true},"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, model, Chunks, text)
}
