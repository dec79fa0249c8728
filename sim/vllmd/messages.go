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
	c, err := s.newCall(b, messagesPrompt(b), b.MaxTokens, 0, "max_tokens")
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

// anthropicUsage is the usage after n tokens. Without the details flag the input is
// the whole prompt and the cache is not mentioned.
func (c *call) anthropicUsage(n int) string {
	if !c.details {
		return fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d}`, c.request.Prompt, n)
	}
	created := c.createdCache()
	return fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d}`,
		c.request.Prompt-c.cached-created, n, created, c.cached)
}

// stopReason is how the messages API names the end.
func (c *call) stopReason() string {
	if c.answer.ended {
		return "end_turn"
	}
	return "max_tokens"
}

func (messagesFormat) whole(c *call) []byte {
	return fmt.Appendf(nil, `{"id":"chatcmpl-%s","type":"message","role":"assistant","content":[{"type":"text","text":%s}],"model":%s,"stop_reason":"%s","usage":%s}`,
		c.id, quote(nil, c.text()), c.modelJSON, c.stopReason(), c.anthropicUsage(c.request.Output))
}

func (messagesFormat) accepted(*call) []byte { return nil }

func (messagesFormat) open(c *call) []byte {
	return fmt.Appendf(nil, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"chatcmpl-%s\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":%s,\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":%d,\"output_tokens\":0}}}\n\n"+
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"\"},\"index\":0}\n\n",
		c.id, c.modelJSON, c.request.Prompt)
}

func (messagesFormat) token(_ *call, text string, _ int, _ bool) []byte {
	if text == "" {
		return nil // the token that ends the message
	}
	b := append(make([]byte, 0, 192), "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":"...)
	b = quote(b, text)
	return append(b, "},\"index\":0}\n\n"...)
}

func (messagesFormat) end(c *call) []byte {
	return fmt.Appendf(nil, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"+
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"%s\",\"stop_sequence\":null},\"usage\":%s}\n\n"+
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		c.stopReason(), c.anthropicUsage(c.request.Output))
}

func (messagesFormat) envelope(e *apiError) []byte { return e.anthropic() }

// failure hides the error: this API is a layer over chat streams, and what it tells is
// that the error in one is no chunk.
func (messagesFormat) failure(*apiError) []byte {
	e := apiError{kind: "internal_error", msg: "2 validation errors for ChatCompletionStreamResponse: model: Field required, choices: Field required"}
	return []byte("event: error\ndata: " + string(e.anthropic()) + "\n\n")
}
