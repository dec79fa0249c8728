package clients

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Paths of the API, each with a body in its form that names %s as the model.
const (
	chatBody       = `{"model":%q,"messages":[{"role":"user","content":"Grüezi"}],"temperature":0.5}`
	chatToolBody   = `{"model":%q,"messages":[{"role":"user","content":"the model \"qwen3-4b\"?"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"auto"}`
	chatStreamBody = `{"stream":true,"model":%q,"messages":[{"role":"user","content":"hi"}]%s}`
	textBody       = `{"model":%q,"prompt":"hi","max_tokens":2}`
	responsesBody  = `{"model":%q,"input":"hi","stream":%v}`
	messagesBody   = `{"model":%q,"max_tokens":8,"messages":[{"role":"user","content":"hi"}],"stream":%v}`
	formBody       = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\x00\xff\r\n" +
		"--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nqwen3-4b\r\n--x--\r\n"
)

// Answers of an engine.
const (
	chatAnswer = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"qwen3-4b","choices":[{"index":0,"message":{"role":"assistant","content":"Grüezi, \"model\":\"qwen3-4b\"","refusal":null,"reasoning":null,` +
		`"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"model\":\"qwen3-4b\"}"}}]},"logprobs":null,"finish_reason":"tool_calls","stop_reason":null}],` +
		`"usage":{"prompt_tokens":9,"total_tokens":11,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}},"kv_transfer_params":null}`
	chatFrames = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3-4b","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}` + "\n\n" +
		": a comment\n\n" +
		`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3-4b","choices":[{"index":0,"delta":{"content":"ü ☀"},"finish_reason":"stop","stop_reason":null}]}` + "\r\n\r\n"
	usageFrame   = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3-4b","choices":[],"usage":{"prompt_tokens":9,"total_tokens":11,"completion_tokens":2},"system_fingerprint":"vllm-0.32.0-1"}` + "\n\n"
	lastFrame    = "data: [DONE]\n\n"
	textAnswer   = `{"id":"cmpl-2","object":"text_completion","created":1,"model":"qwen3-4b","choices":[{"index":0,"text":" there","finish_reason":"length"}],"usage":{"prompt_tokens":1,"total_tokens":3,"completion_tokens":2}}`
	textFrames   = `data: {"id":"cmpl-2","object":"text_completion","created":1,"model":"qwen3-4b","choices":[{"index":0,"text":" there","finish_reason":"length"}]}` + "\n\n"
	replyAnswer  = `{"id":"resp_1","object":"response","status":"completed","model":"qwen3-4b","output":[{"type":"message","id":"m","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":4,"output_tokens":1,"total_tokens":5}}`
	replyFrames  = "event: response.created\ndata: " + `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":"qwen3-4b","status":"in_progress"}}` + "\n\n" + "event: response.completed\ndata: " + `{"type":"response.completed","sequence_number":1,"response":` + replyAnswer + "}\n\n"
	claudeAnswer = `{"id":"chatcmpl-3","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"model":"qwen3-4b","stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":4,"output_tokens":1}}`
	claudeFrames = "event: message_start\ndata: " + `{"type":"message_start","message":{"id":"chatcmpl-3","type":"message","role":"assistant","content":[],"model":"qwen3-4b","usage":{"input_tokens":4,"output_tokens":0}}}` + "\n\n" +
		"event: ping\ndata: " + `{"type":"ping"}` + "\n\n" +
		"event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"☀"}}` + "\n\n" +
		"event: message_delta\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}` + "\n\n" + "event: message_stop\ndata: " + `{"type":"message_stop"}` + "\n\n"
	modelFault = `{"error":{"message":"The model \"qwen3-4b\" does not like it.","type":"BadRequestError","param":null,"code":400}}`
	// Names of any case, twice, empty and from a cookie jar.
	oddHeaders = "dAtE: Sun, 29 Nov 2026 15:20:49 GMT\r\nserver: uvicorn\r\nvary: Origin\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\nX-EMPTY:\r\nx-Request-Id:  r-1 \r\nopenai-processing-ms: 7\r\n"
)

// sending is one request and what the engine answers.
type sending struct {
	name   string
	method string // POST when empty
	path   string
	body   string
	kind   string // content type of the body; JSON when empty

	status string
	events bool
	answer string
	// asked says that the daemon asks for usage where the client says nothing of it, and
	// alone is what the engine answers to such a client.
	asked bool
	alone string
	// stored says that the answer is about a response that was made by the alias.
	stored bool
}

// sendings are the requests of every API: whole and streamed, well and refused.
func sendings(name string) []sending {
	const good, js = "200 OK", "application/json"
	put := fmt.Sprintf
	all := []sending{
		{name: "chat", path: "/v1/chat/completions", body: put(chatBody, name), answer: chatAnswer},
		{name: "chat with tools", path: "/v1/chat/completions?x=1", body: put(chatToolBody, name), answer: chatAnswer},
		{name: "chat streamed", path: "/v1/chat/completions", body: put(chatStreamBody, name, ""), events: true, answer: chatFrames + usageFrame + lastFrame, asked: true, alone: fingerprinted(chatFrames) + lastFrame},
		{name: "chat streamed with usage", path: "/v1/chat/completions", body: put(chatStreamBody, name, `,"stream_options":{"include_usage":true}`), events: true, answer: chatFrames + usageFrame + lastFrame},
		{name: "chat streamed without usage", path: "/v1/chat/completions", body: put(chatStreamBody, name, `,"stream_options":{"include_usage":false}`), events: true, answer: chatFrames + lastFrame},
		{name: "completion", path: "/v1/completions", body: put(textBody, name), answer: textAnswer},
		{name: "completion streamed", path: "/v1/completions", body: put(`{"model":%q,"prompt":[1,2],"stream":true}`, name), events: true, answer: textFrames + usageFrame + lastFrame, asked: true, alone: fingerprinted(textFrames) + lastFrame},
		{name: "response", path: "/v1/responses", body: put(responsesBody, name, false), answer: replyAnswer},
		{name: "response streamed", path: "/v1/responses", body: put(responsesBody, name, true), events: true, answer: replyFrames},
		{name: "message", path: "/v1/messages?beta=true", body: put(messagesBody, name, false), answer: claudeAnswer},
		{name: "message streamed", path: "/v1/messages", body: put(messagesBody, name, true), events: true, answer: claudeFrames},
		{name: "token count", path: "/v1/messages/count_tokens", body: put(messagesBody, name, false), answer: `{"input_tokens":4,"context_management":null}`},
		{name: "embedding", path: "/v1/embeddings", body: put(`{"model":%q,"input":"x"}`, name), answer: `{"object":"list","model":"qwen3-4b","data":[{"embedding":[0.1]}]}`},
		{name: "rerank", path: "/v1/rerank", body: put(`{"model":%q,"query":"x","documents":["y"]}`, name), answer: `{"id":"r","model":"qwen3-4b","results":[]}`},
		{name: "score", path: "/v1/score", body: put(`{"model":%q,"text_1":"x","text_2":"y"}`, name), answer: `{"id":"s","model":"qwen3-4b","data":[]}`},
		{name: "tokens", path: "/tokenize", body: put(`{"model":%q,"prompt":"x"}`, name), answer: `{"count":1,"max_model_len":262144,"tokens":[1]}`},
		{name: "text", path: "/detokenize", body: put(`{"model":%q,"tokens":[1]}`, name), answer: `{"prompt":"x"}`},
	}
	for _, status := range []string{"400 Bad Request", "401 Unauthorized", "404 Not Found", "422 Unprocessable Entity", "429 Too Many Requests", "500 Internal Server Error", "501 Not Implemented", "503 Service Unavailable", "529 "} {
		all = append(all,
			sending{name: "chat refused with " + status, path: "/v1/chat/completions", body: put(chatStreamBody, name, ""), status: status, answer: modelFault, asked: true},
			sending{name: "message refused with " + status, path: "/v1/messages", body: put(messagesBody, name, true), status: status, answer: `{"type":"error","error":{"type":"x","message":"no"}}`})
	}
	all = append(all,
		sending{name: "a plain failure", path: "/v1/responses", body: put(responsesBody, name, true), status: "500 Internal Server Error", kind: js, answer: "Internal Server Error"},
		sending{name: "a failure without a word", path: "/v1/messages", body: put(messagesBody, name, false), status: "500 Internal Server Error"})
	for i := range all {
		s := &all[i]
		s.method, s.kind = http.MethodPost, js
		if s.status == "" {
			s.status = good
		}
	}
	return all
}

// fingerprinted puts the fingerprint where an engine that is not asked for usage has it:
// at the end of the last frame.
func fingerprinted(frames string) string {
	at := strings.LastIndexByte(frames, '}')
	return frames[:at] + `,"system_fingerprint":"vllm-0.32.0-1"` + frames[at:]
}

// request is what a client writes.
func (s sending) request() string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: %s\r\nX-Own: 1\r\nx-own: 2\r\nuser-agent: a client/1 (x; y)\r\nX-Session-ID: conversation-of-peers\r\nanthropic-beta: a,b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s",
		s.method, s.path, s.kind, len(s.body), s.body)
}

// raw is what the engine writes, in pieces that respect no frame if it is a stream.
func (s sending) raw(contentType, more string) string {
	head := "HTTP/1.1 " + s.status + "\r\n" + oddHeaders + more + "content-type: " + contentType + "\r\n"
	if !s.events {
		return head + fmt.Sprintf("content-length: %d\r\n\r\n%s", len(s.answer), s.answer)
	}
	head += "transfer-encoding: chunked\r\n\r\n"
	for text, n := s.answer, 1; text != ""; n = n*5%97 + 1 {
		n = min(n, len(text))
		head += fmt.Sprintf("%x\r\n%s\r\n", n, text[:n])
		text = text[n:]
	}
	return head + "0\r\n\r\n"
}

// TestNoClientSeesMoreThanTheEngine sends each request to an engine and through the
// daemon. What the engine gets is the same, and so is what the client gets: status,
// headers and the bytes of the body. By an alias only the model's name differs.
func TestNoClientSeesMoreThanTheEngine(t *testing.T) {
	e := newRawEngine(t)
	d := newDaemon(t, 5*time.Minute, e.url())
	named := sendings(model)
	aliased := sendings("gpt-of-peers")
	named = append(named,
		sending{name: "transcription", method: http.MethodPost, path: "/v1/audio/transcriptions", kind: "multipart/form-data; boundary=x", body: formBody, status: "200 OK", answer: `{"text":"hi"}`},
		sending{name: "a stored response", method: http.MethodGet, path: "/v1/responses/resp_1", kind: "text/plain", status: "200 OK", answer: replyAnswer, stored: true},
		sending{name: "cancelling a response", method: http.MethodPost, path: "/v1/responses/resp_1/cancel", kind: "text/plain", status: "400 Bad Request", answer: modelFault})
	for i, s := range named {
		for _, more := range []string{"", "cache-control: no-store\r\nretry-after: 7\r\n"} {
			t.Run(s.name, func(t *testing.T) {
				contentType := "application/json"
				if s.events {
					contentType = "text/event-stream; charset=utf-8"
				}
				alone := s
				if s.alone != "" {
					alone.answer = s.alone
				}
				e.say(alone.raw(contentType, more))
				want := ask(t, e.url(), s.request())
				wanted := e.last()
				e.say(s.raw(contentType, more))
				if s.stored {
					want.Body = renamed(want.Body)
				}
				got := ask(t, d.InferenceURL, s.request())
				samePeer(t, s.name, want, got)
				sameRequest(t, s, wanted, e.last())
				if i >= len(aliased) {
					return
				}
				got = ask(t, d.InferenceURL, aliased[i].request())
				want.Body = renamed(want.Body)
				samePeer(t, s.name, want, got)
			})
		}
	}
}

// renamed puts the alias where an answer names its model, and nowhere else.
func renamed(body string) string {
	return strings.ReplaceAll(body, `"model":"qwen3-4b"`, `"model":"gpt-of-peers"`)
}

// samePeer compares an answer of the engine with one of the daemon.
func samePeer(t *testing.T, name string, want, got rawAnswer) {
	t.Helper()
	framing := []string{"content-length", "transfer-encoding", "connection"}
	if d := cmp.Diff(want.less(framing...), got.less(framing...)); d != "" {
		t.Errorf("%s (-engine +daemon):\n%s", name, d)
	}
}

// sameRequest compares what the engine got of a client and of the daemon. Where a client
// of a stream says nothing of usage, the daemon asks for it.
func sameRequest(t *testing.T, s sending, want, got *rawExchange) {
	t.Helper()
	if got == nil || want.line != got.line {
		t.Fatalf("%s: %v was sent, the engine got %v", s.name, want, got)
	}
	sameHeaders(t, s.name, want.header, got.header, requestEnds, "")
	body := string(want.body)
	if s.asked {
		body = `{"stream_options":{"include_usage":true},` + body[1:]
	}
	if body != string(got.body) {
		t.Errorf("%s: %q should have arrived, the engine got %q", s.name, body, got.body)
	}
}
