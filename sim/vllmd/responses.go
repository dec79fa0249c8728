package vllmd

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// responsesFormat writes the responses API. One is made for each call: it numbers its
// events.
type responsesFormat struct {
	chatFormat
	seq int
}

func (s *server) responses(w http.ResponseWriter, r *http.Request) {
	f := &responsesFormat{}
	b, err := readBody(r, "input")
	if err != nil {
		refuseCall(w, f, err)
		return
	}
	c, err := s.newCall(b, render(responseMessages(b.Instructions, b.Input), toolText(b.Tools)), b.MaxOutputTokens, 0, "max_output_tokens")
	if err != nil {
		refuseCall(w, f, err)
		return
	}
	// This API does not look at the rank header.
	s.generate(w, r, c, f, -1, nil)
}

// outputPart is a piece of text in an answer.
type outputPart struct {
	Annotations []nullable      `json:"annotations"`
	Text        string          `json:"text"`
	Type        string          `json:"type"`
	Logprobs    json.RawMessage `json:"logprobs"`
}

// outputItem is the message of an answer.
type outputItem struct {
	ID      string       `json:"id"`
	Content []outputPart `json:"content"`
	Role    string       `json:"role"`
	Status  string       `json:"status"`
	Type    string       `json:"type"`
	Phase   nullable     `json:"phase"`
}

// inputDetails, outputDetails and responseUsage are the usage of this API. The cached
// tokens need no flag here.
type inputDetails struct {
	Cached        int   `json:"cached_tokens"`
	Written       int   `json:"cache_write_tokens"`
	InputPerTurn  []int `json:"input_tokens_per_turn"`
	CachedPerTurn []int `json:"cached_tokens_per_turn"`
}

type outputDetails struct {
	Reasoning         int   `json:"reasoning_tokens"`
	ToolOutput        int   `json:"tool_output_tokens"`
	OutputPerTurn     []int `json:"output_tokens_per_turn"`
	ToolOutputPerTurn []int `json:"tool_output_tokens_per_turn"`
}

type responseUsage struct {
	Input         int           `json:"input_tokens"`
	InputDetails  inputDetails  `json:"input_tokens_details"`
	Output        int           `json:"output_tokens"`
	OutputDetails outputDetails `json:"output_tokens_details"`
	Total         int           `json:"total_tokens"`
}

// response is the resource itself.
type response struct {
	ID                string            `json:"id"`
	CreatedAt         int64             `json:"created_at"`
	IncompleteDetails map[string]string `json:"incomplete_details"`
	Instructions      any               `json:"instructions"`
	Metadata          nullable          `json:"metadata"`
	Model             string            `json:"model"`
	Object            string            `json:"object"`
	Output            []outputItem      `json:"output"`
	ParallelToolCalls bool              `json:"parallel_tool_calls"`
	Temperature       json.RawMessage   `json:"temperature"`
	ToolChoice        string            `json:"tool_choice"`
	Tools             []nullable        `json:"tools"`
	TopP              json.RawMessage   `json:"top_p"`
	Background        bool              `json:"background"`
	MaxOutputTokens   int               `json:"max_output_tokens"`
	MaxToolCalls      nullable          `json:"max_tool_calls"`
	PreviousID        nullable          `json:"previous_response_id"`
	Prompt            nullable          `json:"prompt"`
	Reasoning         nullable          `json:"reasoning"`
	ServiceTier       string            `json:"service_tier"`
	Status            string            `json:"status"`
	Text              nullable          `json:"text"`
	TopLogprobs       nullable          `json:"top_logprobs"`
	Truncation        string            `json:"truncation"`
	Usage             *responseUsage    `json:"usage"`
	User              nullable          `json:"user"`
	PresencePenalty   json.RawMessage   `json:"presence_penalty"`
	FrequencyPenalty  json.RawMessage   `json:"frequency_penalty"`
	KVTransfer        nullable          `json:"kv_transfer_params"`
	ECTransfer        nullable          `json:"ec_transfer_params"`
	InputMessages     nullable          `json:"input_messages"`
	OutputMessages    nullable          `json:"output_messages"`
}

// pyFloat encodes a whole number as Python writes a float.
func pyFloat(s string) json.RawMessage { return json.RawMessage(s) }

// resource builds the response object, before the first token or after the last.
func (c *call) resource(done bool) response {
	r := response{
		ID: "resp_" + c.id, CreatedAt: c.created, Model: c.model, Object: "response", Output: []outputItem{},
		ParallelToolCalls: true, Temperature: pyFloat("1.0"), ToolChoice: "none", Tools: []nullable{},
		TopP: pyFloat("1.0"), MaxOutputTokens: c.maxTokens, ServiceTier: "auto", Status: "in_progress",
		Truncation: "disabled", PresencePenalty: pyFloat("0.0"), FrequencyPenalty: pyFloat("0.0"),
	}
	if c.instructions != "" {
		r.Instructions = c.instructions
	}
	if !done {
		return r
	}
	r.Status = "completed"
	if !c.answer.ended {
		r.Status = "incomplete"
		r.IncompleteDetails = map[string]string{"reason": "max_output_tokens"}
	}
	r.Output = append(r.Output, c.item(true))
	p, o := c.request.Prompt, c.request.Output
	none := []int{}
	r.Usage = &responseUsage{
		Input:  p,
		Output: o,
		Total:  p + o,
		InputDetails: inputDetails{
			Cached: c.cached, Written: c.createdCache(), InputPerTurn: none, CachedPerTurn: none,
		},
		OutputDetails: outputDetails{OutputPerTurn: none, ToolOutputPerTurn: none},
	}
	return r
}

// item is the message, empty or whole.
func (c *call) item(done bool) outputItem {
	it := outputItem{ID: "msg_" + c.id, Content: []outputPart{}, Role: "assistant", Status: "in_progress", Type: "message"}
	if done {
		it.Status = "completed"
		it.Content = append(it.Content, c.part(c.text(), "null"))
	}
	return it
}

// part is the text of the message.
func (c *call) part(text, logprobs string) outputPart {
	return outputPart{Annotations: []nullable{}, Text: text, Type: "output_text", Logprobs: json.RawMessage(logprobs)}
}

func (*responsesFormat) whole(c *call) []byte { return mustJSON(c.resource(true)) }

// event is one frame; body is a JSON object without its closing brace and without the
// two fields that every event ends with.
func (f *responsesFormat) event(kind, body string) []byte {
	b := fmt.Appendf(nil, "event: %[1]s\ndata: %[2]s,\"sequence_number\":%[3]d,\"type\":\"%[1]s\"}\n\n", kind, body, f.seq)
	f.seq++
	return b
}

func (f *responsesFormat) accepted(c *call) []byte {
	res := `{"response":` + string(mustJSON(c.resource(false)))
	return append(f.event("response.created", res), f.event("response.in_progress", res)...)
}

func (f *responsesFormat) open(c *call) []byte {
	b := f.event("response.output_item.added", `{"item":`+string(mustJSON(c.item(false)))+`,"output_index":0`)
	return append(b, f.event("response.content_part.added", fmt.Sprintf(`{"content_index":0,"item_id":"msg_%s","output_index":0,"part":%s`, c.id, mustJSON(c.part("", "[]"))))...)
}

func (f *responsesFormat) token(c *call, text string, _ int, _ bool) []byte {
	if text == "" {
		return nil
	}
	return f.event("response.output_text.delta", fmt.Sprintf(`{"content_index":0,"delta":%s,"item_id":"msg_%s","logprobs":[],"output_index":0`, quote(nil, text), c.id))
}

func (f *responsesFormat) end(c *call) []byte {
	// The text comes after the sequence number here, unlike in the other events.
	b := fmt.Appendf(nil, "event: response.output_text.done\ndata: {\"content_index\":0,\"item_id\":\"msg_%s\",\"logprobs\":[],\"output_index\":0,\"sequence_number\":%d,\"text\":%s,\"type\":\"response.output_text.done\"}\n\n", c.id, f.seq, quote(nil, c.text()))
	f.seq++
	b = append(b, f.event("response.content_part.done", fmt.Sprintf(`{"content_index":0,"item_id":"msg_%s","output_index":0,"part":%s`, c.id, mustJSON(c.part(c.text(), "null"))))...)
	b = append(b, f.event("response.output_item.done", `{"item":`+string(mustJSON(c.item(true)))+`,"output_index":0`)...)
	return append(b, f.event("response.completed", `{"response":`+string(mustJSON(c.resource(true))))...)
}

// failure has no event for an engine that has died.
func (f *responsesFormat) failure(*apiError) []byte { return nil }
