package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// A request says in its text what the engine is to do.
const (
	faultRefuse = "please-refuse" // 400
	faultFail   = "please-fail"   // 500
	faultCut    = "please-cut"    // ends the connection after two frames
	faultEarly  = "please-vanish" // ends it before the answer
)

// engine answers at once.
type engine struct{ responses *atomic.Int64 }

const (
	usage = `"usage":{"prompt_tokens":20,"completion_tokens":3,"total_tokens":23,"input_tokens":20,"output_tokens":3}`
	frame = `data: {"id":"c1","object":"chat.completion.chunk","model":"soak","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}` + "\n\n"
	done  = "data: [DONE]\n\n"
)

func (e engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	has := func(text string) bool { return bytes.Contains(body, []byte(text)) }
	switch {
	case err != nil || has(faultEarly):
		panic(http.ErrAbortHandler)
	case has(faultRefuse):
		refuse(w, http.StatusBadRequest)
	case has(faultFail):
		refuse(w, http.StatusInternalServerError)
	case r.URL.Path == "/v1/messages":
		e.messages(w, has(`"stream":true`))
	case r.URL.Path == "/v1/responses":
		whole(w, fmt.Sprintf(`{"id":"resp_%d","object":"response","status":"completed","model":"soak","output":[],%s}`, e.responses.Add(1), usage))
	case has(`"stream":true`):
		e.stream(w, has(faultCut))
	default:
		whole(w, `{"id":"c1","object":"chat.completion","model":"soak","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],`+usage+`}`)
	}
}

func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"error":{"message":"as you asked","type":"BadRequestError","code":400}}`)
}

func whole(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

// stream writes a few frames, each on its own.
func (e engine) stream(w http.ResponseWriter, cut bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	for i := range 3 {
		if cut && i == 2 {
			panic(http.ErrAbortHandler)
		}
		if _, err := io.WriteString(w, frame); err != nil || flush() != nil {
			return
		}
	}
	_, _ = io.WriteString(w, `data: {"id":"c1","object":"chat.completion.chunk","model":"soak","choices":[],`+usage+"}\n\n"+done)
}

func (e engine) messages(w http.ResponseWriter, stream bool) {
	if !stream {
		whole(w, `{"id":"m1","type":"message","role":"assistant","model":"soak","content":[{"type":"text","text":"hi"}],`+usage+`}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	for _, f := range []string{
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"model\":\"soak\"," + usage + "}}\n\n",
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
	} {
		if _, err := io.WriteString(w, f); err != nil || flush() != nil {
			return
		}
	}
}
