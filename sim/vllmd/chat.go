package vllmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// quote appends s as a JSON string. Answers are plain ASCII words, for which Go's and
// JSON's quotes agree; what a client said may be anything.
func quote(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return append(b, mustJSON(s)...)
		}
	}
	return strconv.AppendQuote(b, s)
}

// chatFormat writes the chat completions API.
type chatFormat struct{}

func (s *server) chat(w http.ResponseWriter, r *http.Request) {
	_, c, err := s.readChat(r)
	if err != nil {
		refuseCall(w, chatFormat{}, err)
		return
	}
	rank, rankErr := s.rankOf(r)
	s.generate(w, r, c, chatFormat{}, rank, rankErr)
}

// readChat reads and checks a request of the chat API.
func (s *server) readChat(r *http.Request) (body, *call, error) {
	b, err := readBody(r, "messages")
	if err != nil {
		return b, nil, err
	}
	w := wish{
		prompts: [][]uint32{render(chatMessages(b.Messages), toolText(b.Tools))},
		limit:   b.MaxTokens, field: "max_tokens", logprobs: -1,
	}
	if b.MaxCompletionTokens != nil {
		w.limit, w.field = b.MaxCompletionTokens, "max_completion_tokens"
	}
	if w.stops, err = readStops(b.Stop); err != nil {
		return b, nil, err
	}
	wanted := string(b.Logprobs) == "true"
	switch {
	case b.TopLogprobs != nil && *b.TopLogprobs > 0 && !wanted:
		return b, nil, badRequest("top_logprobs", "when using `top_logprobs`, `logprobs` must be set to true. (parameter=top_logprobs)")
	case wanted && b.TopLogprobs != nil:
		w.logprobs = *b.TopLogprobs
	case wanted:
		w.logprobs = 0
	}
	if err := checkLogprobs(w.logprobs); err != nil {
		return b, nil, err
	}
	c, err := s.newCall(b, w)
	return b, c, err
}

// checkLogprobs refuses more alternatives than the engine gives.
func checkLogprobs(n int) error {
	if n > mostLogprobs {
		return badRequest("logprobs", "Requested sample logprobs of %d, which is greater than max allowed: %d (parameter=logprobs, value=%d)", n, mostLogprobs, n)
	}
	return nil
}

// toolFunction and chatToolCall are a call of a tool in a whole chat answer.
type toolFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function toolFunction `json:"function"`
}

// toolID names a sequence's call of a tool.
func (c *call) toolID(q *sequence) string {
	return "chatcmpl-tool-" + hex16(tokenID(c.id), uint32(q.index))
}

// hex16 makes sixteen hexadecimal digits of two numbers.
func hex16(a, b uint32) string {
	const digits = "0123456789abcdef"
	n := uint64(a)<<32 | uint64(b*2654435761+a)
	out := make([]byte, 16)
	for i := range out {
		out[i] = digits[n>>(60-4*i)&15]
	}
	return string(out)
}

// chatReply is the message of a whole answer.
type chatReply struct {
	Role         string         `json:"role"`
	Content      string         `json:"content"`
	Refusal      nullable       `json:"refusal"`
	Annotations  nullable       `json:"annotations"`
	Audio        nullable       `json:"audio"`
	FunctionCall nullable       `json:"function_call"`
	ToolCalls    []chatToolCall `json:"tool_calls,omitempty"`
	Reasoning    nullable       `json:"reasoning"`
}

// chatChoice is one answer of a whole body.
type chatChoice struct {
	Index         int             `json:"index"`
	Message       chatReply       `json:"message"`
	Logprobs      json.RawMessage `json:"logprobs"`
	FinishReason  string          `json:"finish_reason"`
	StopReason    any             `json:"stop_reason"`
	TokenIDs      []uint32        `json:"token_ids"`
	RoutedExperts nullable        `json:"routed_experts"`
}

// chatChoice describes a sequence that has ended.
func (c *call) chatChoice(q *sequence) chatChoice {
	out := chatChoice{
		Index: q.index, Message: chatReply{Role: "assistant", Content: q.text()},
		Logprobs:     c.chatLogprobs(q, 0, q.latest.Output),
		FinishReason: q.finish(), StopReason: q.answer.stop, TokenIDs: c.outputIDs(q),
	}
	if t := q.answer.tool; t != nil {
		out.Message.Content = ""
		out.Message.ToolCalls = []chatToolCall{{c.toolID(q), "function", toolFunction{t.name, t.arguments}}}
	}
	return out
}

func (chatFormat) whole(c *call) []byte {
	choices := make([]chatChoice, 0, len(c.seqs))
	for _, q := range c.seqs {
		choices = append(choices, c.chatChoice(q))
	}
	return mustJSON(struct {
		ID             string          `json:"id"`
		Object         string          `json:"object"`
		Created        int64           `json:"created"`
		Model          string          `json:"model"`
		Choices        []chatChoice    `json:"choices"`
		ServiceTier    nullable        `json:"service_tier"`
		Fingerprint    any             `json:"system_fingerprint"`
		Usage          openAIUsage     `json:"usage"`
		PromptLogprobs json.RawMessage `json:"prompt_logprobs"`
		PromptTokenIDs []uint32        `json:"prompt_token_ids"`
		PromptText     nullable        `json:"prompt_text"`
		KVTransfer     nullable        `json:"kv_transfer_params"`
		ECTransfer     nullable        `json:"ec_transfer_params"`
		Metrics        optional        `json:"metrics,omitempty"`
	}{
		ID: "chatcmpl-" + c.id, Object: "chat.completion", Created: c.created, Model: c.model, Choices: choices,
		Fingerprint: textOrNull(c.fingerprint), Usage: c.wholeUsage(true),
		PromptLogprobs: c.promptLogprobsOf(c.seqs[0]), PromptTokenIDs: c.promptIDs(c.seqs[0]), Metrics: c.requestMetrics(),
	})
}

// chunk begins a frame of a chat or completions stream, up to its choices.
func (c *call) chunk(prefix, object string) []byte {
	b := make([]byte, 0, 320)
	b = append(b, `data: {"id":"`...)
	b = append(b, prefix...)
	b = append(b, c.id...)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, c.created, 10)
	b = append(b, `,"model":`...)
	b = append(b, c.modelJSON...)
	return append(b, `,"choices":[`...)
}

// closeChunk ends a frame that carries tokens.
func (c *call) closeChunk(b []byte, q *sequence, d delta, chat bool) []byte {
	if d.last && !c.includeUsage {
		b = append(b, c.fingerprintField()...)
	}
	if c.eachUsage {
		b = append(b, `,"usage":`+c.streamCounts(q, d.n, chat)...)
	}
	return append(b, "}\n\n"...)
}

// fingerprintField is the last field of a frame, if the release has it.
func (c *call) fingerprintField() string {
	if c.fingerprint == "" {
		return ""
	}
	return `,"system_fingerprint":"` + c.fingerprint + `"`
}

// endChunks are the last frames: usage when it was asked for, and the end mark.
func (c *call) endChunks(prefix, object string, chat bool) []byte {
	var b []byte
	if c.includeUsage {
		b = c.chunk(prefix, object)
		b = append(b, `],"usage":`+c.streamUsage(chat)+c.fingerprintField()...)
		if m := c.requestMetrics(); m != nil && string(*m) != "null" {
			b = append(b, `,"metrics":`+string(*m)...)
		}
		b = append(b, "}\n\n"...)
	}
	return append(b, "data: [DONE]\n\n"...)
}

// streamIDs are the tokens of a delta as JSON.
func (c *call) streamIDs(q *sequence, d delta) string {
	if !c.returnIDs {
		return "null"
	}
	return string(mustJSON(q.answer.ids[d.from:d.n]))
}

const chatChunk = "chat.completion.chunk"

func (chatFormat) accepted(*call) []byte { return nil }

func (chatFormat) comments() {}

func (chatFormat) open(c *call) []byte {
	var b []byte
	for _, q := range c.seqs {
		f := c.chunk("chatcmpl-", chatChunk)
		f = append(f, `{"index":`+strconv.Itoa(q.index)+`,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":`...)
		f = append(f, mustJSON(c.promptIDs(q))...)
		f = append(f, `,"prompt_text":null`...)
		if c.eachUsage {
			f = append(f, `,"usage":`+c.streamCounts(q, 0, true)...)
		}
		b = append(b, append(f, "}\n\n"...)...)
	}
	return b
}

// toolDeltas are the frames of a stream that calls a tool: its name once, arguments as
// they come, and an empty one at the end.
func (f chatFormat) toolDeltas(c *call, q *sequence, d delta) []byte {
	var b []byte
	end := d.last
	d.last = false
	if d.called {
		b = append(b, f.frame(c, q, d, fmt.Appendf(nil, `{"content":null,"tool_calls":[{"id":"%s","type":"function","index":0,"function":{"name":%s}}]}`, c.toolID(q), mustJSON(q.answer.tool.name)))...)
		d.from = d.n
	}
	if d.arguments != "" {
		b = append(b, f.frame(c, q, d, fmt.Appendf(nil, `{"content":null,"tool_calls":[{"index":0,"function":{"arguments":%s}}]}`, mustJSON(d.arguments)))...)
		d.from = d.n
	}
	if d.last = end; end {
		b = append(b, f.frame(c, q, d, []byte(`{}`))...)
	}
	return b
}

func (f chatFormat) token(c *call, q *sequence, d delta) []byte {
	if q.answer.tool != nil {
		return f.toolDeltas(c, q, d)
	}
	change := append(make([]byte, 0, 64), `{"content":`...)
	return f.frame(c, q, d, append(quote(change, d.text), '}'))
}

// frame writes one event with that change of the message.
func (chatFormat) frame(c *call, q *sequence, d delta, change []byte) []byte {
	b := c.chunk("chatcmpl-", chatChunk)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(q.index), 10)
	b = append(b, `,"delta":`...)
	b = append(b, change...)
	b = append(b, `,"logprobs":`...)
	b = append(b, c.chatLogprobs(q, d.from, d.n)...)
	b = append(b, `,"finish_reason":`...)
	if d.last {
		b = append(b, `"`+q.finish()+`","stop_reason":`+string(mustJSON(q.answer.stop))...)
	} else {
		b = append(b, `null`...)
	}
	b = append(b, `,"token_ids":`+c.streamIDs(q, d)+"}]"...)
	return c.closeChunk(b, q, d, true)
}

func (chatFormat) end(c *call) []byte { return c.endChunks("chatcmpl-", chatChunk, true) }

func (chatFormat) envelope(e *apiError) []byte { return e.openAI() }

func (chatFormat) failure(e *apiError) []byte {
	return []byte("data: " + string(e.openAI()) + "\n\ndata: [DONE]\n\n")
}
