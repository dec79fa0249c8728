package vllmd

import (
	"fmt"
	"net/http"
)

// messagesFormat writes the Anthropic messages API.
type messagesFormat struct{}

// messagesPrompt renders the prompt of a messages request. The attribution block of
// its system prompt is not part of it.
func messagesPrompt(b body) []uint32 {
	msgs := chatMessages(b.Messages)
	if system := readSystem(b.System); system != "" {
		msgs = append([]message{{role: "system", text: system}}, msgs...)
	}
	return render(msgs, toolText(b.Tools))
}

func (s *server) messages(w http.ResponseWriter, r *http.Request) {
	f := messagesFormat{}
	b, err := readBody(r, "model", "messages", "max_tokens")
	if err != nil {
		refuseCall(w, f, err)
		return
	}
	if !s.release.has(messagesSalt) {
		b.CacheSalt = ""
	}
	c, err := s.newCall(b, wish{
		prompts: [][]uint32{messagesPrompt(b)}, limit: b.MaxTokens, field: "max_tokens",
		stops: b.StopSequences, logprobs: -1,
	})
	if err != nil {
		refuseCall(w, f, err)
		return
	}
	rank, rankErr := s.rankOf(r)
	s.generate(w, r, c, f, rank, rankErr)
}

func (s *server) countTokens(w http.ResponseWriter, r *http.Request) {
	b, err := readBody(r, "model", "messages")
	if err != nil {
		refuseCall(w, messagesFormat{}, err)
		return
	}
	if err := s.known(b.Model); err != nil {
		refuseCall(w, messagesFormat{}, err)
		return
	}
	n := len(messagesPrompt(b))
	writeJSON(w, http.StatusOK, fmt.Appendf(nil, `{"input_tokens":%d,"context_management":{"original_input_tokens":%d}}`, n, n))
}

// messageEnd is how the messages API names the end: a reason, and the text of the
// client's that was it, or null.
func messageEnd(q *sequence) (reason, sequence string) {
	text, stopped := q.answer.stop.(string)
	switch {
	case q.answer.tool != nil:
		return "tool_use", "null"
	case stopped:
		return "stop_sequence", string(mustJSON(text))
	case q.finish() == "length":
		return "max_tokens", "null"
	default:
		return "end_turn", "null"
	}
}

func (messagesFormat) whole(c *call) []byte {
	q := c.seqs[0]
	content := fmt.Sprintf(`{"type":"text","text":%s}`, quote(nil, q.text()))
	if t := q.answer.tool; t != nil {
		content = fmt.Sprintf(`{"type":"tool_use","id":"%s","name":%s,"input":%s}`, c.toolID(q), mustJSON(t.name), t.arguments)
	}
	reason, sequence := messageEnd(q)
	if sequence = `,"stop_sequence":` + sequence; sequence == `,"stop_sequence":null` {
		sequence = ""
	}
	return fmt.Appendf(nil, `{"id":"chatcmpl-%s","type":"message","role":"assistant","content":[%s],"model":%s,"stop_reason":"%s"%s,"usage":%s}`,
		c.id, content, c.modelJSON, reason, sequence, c.anthropicUsage())
}

func (messagesFormat) accepted(*call) []byte { return nil }

// messageBlock begins the content block of a stream.
func messageBlock(block string) string {
	return "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"content_block\":" + block + ",\"index\":0}\n\n"
}

func (messagesFormat) open(c *call) []byte {
	b := fmt.Appendf(nil, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"chatcmpl-%s\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":%s,\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":%d,\"output_tokens\":0}}}\n\n",
		c.id, c.modelJSON, c.promptTokens())
	if c.seqs[0].answer.tool == nil {
		b = append(b, messageBlock(`{"type":"text","text":""}`)...)
	}
	return b
}

func (messagesFormat) token(c *call, q *sequence, d delta) []byte {
	var b []byte
	if d.called {
		b = append(b, messageBlock(fmt.Sprintf(`{"type":"tool_use","id":"%s","name":%s,"input":{}}`, c.toolID(q), mustJSON(q.answer.tool.name)))...)
	}
	kind, key, said := "text_delta", "text", d.text
	if q.answer.tool != nil {
		kind, key, said = "input_json_delta", "partial_json", d.arguments
	}
	if said == "" {
		return b // the token that ends the message, or one that nobody sees
	}
	b = append(b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\""+kind+"\",\""+key+"\":"...)
	b = quote(b, said)
	return append(b, "},\"index\":0}\n\n"...)
}

func (messagesFormat) end(c *call) []byte {
	reason, sequence := messageEnd(c.seqs[0])
	return fmt.Appendf(nil, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"+
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"%s\",\"stop_sequence\":%s},\"usage\":%s}\n\n"+
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		reason, sequence, c.anthropicUsage())
}

func (messagesFormat) envelope(e *apiError) []byte { return e.anthropic() }

// failure hides the error: this API is a layer over chat streams, and what it tells is
// that the error in one is no chunk.
func (messagesFormat) failure(*apiError) []byte {
	e := apiError{kind: "internal_error", msg: "2 validation errors for ChatCompletionStreamResponse: model: Field required, choices: Field required"}
	return []byte("event: error\ndata: " + string(e.anthropic()) + "\n\n")
}
