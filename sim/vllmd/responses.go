package vllmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	choice := string(b.ToolChoice)
	if !hasTools(b.Tools) && len(choice) > 0 && choice != "null" && choice != `"none"` && choice != `"auto"` {
		refuseCall(w, f, badRequest("tool_choice", "Tool choice '%s' must be specified with 'tools' parameter. (parameter=tool_choice)", strings.Trim(choice, `"`)))
		return
	}
	if !hasTools(b.Tools) {
		b.ToolChoice = nil // "auto" without tools is what this API's clients send
	}
	if chosen := readChoice(b.ToolChoice, readTools(b.Tools)); chosen.kind == choiceNamed && !slices.ContainsFunc(readTools(b.Tools), func(t tool) bool { return t.name == chosen.name }) {
		refuseCall(w, f, badRequest("tool_choice", "Tool choice 'function' not found in 'tools' parameter. (parameter=tool_choice)"))
		return
	}
	c, err := s.newCall(b, wish{
		prompts: [][]uint32{render(responseMessages(b.Instructions, b.Input), toolText(b.Tools))},
		limit:   b.MaxOutputTokens, field: "max_output_tokens", logprobs: -1, textOnly: !s.opt.toolParser,
	})
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

// response is the resource itself.
type response struct {
	ID                string            `json:"id"`
	CreatedAt         int64             `json:"created_at"`
	IncompleteDetails map[string]string `json:"incomplete_details"`
	Instructions      any               `json:"instructions"`
	Metadata          nullable          `json:"metadata"`
	Model             string            `json:"model"`
	Object            string            `json:"object"`
	Output            []any             `json:"output"`
	ParallelToolCalls bool              `json:"parallel_tool_calls"`
	Temperature       pyFloat           `json:"temperature"`
	ToolChoice        any               `json:"tool_choice"`
	Tools             []responseTool    `json:"tools"`
	TopP              pyFloat           `json:"top_p"`
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
	Metrics           optional          `json:"metrics,omitempty"`
	PresencePenalty   pyFloat           `json:"presence_penalty"`
	FrequencyPenalty  pyFloat           `json:"frequency_penalty"`
	KVTransfer        nullable          `json:"kv_transfer_params"`
	ECTransfer        nullable          `json:"ec_transfer_params"`
	InputMessages     nullable          `json:"input_messages"`
	OutputMessages    nullable          `json:"output_messages"`
}

// responseTool is a tool as the resource repeats it.
type responseTool struct {
	Name           string          `json:"name"`
	Parameters     json.RawMessage `json:"parameters"`
	Strict         nullable        `json:"strict"`
	Type           string          `json:"type"`
	AllowedCallers nullable        `json:"allowed_callers"`
	Async          nullable        `json:"async"`
	DeferLoading   nullable        `json:"defer_loading"`
	Description    nullable        `json:"description"`
	OutputSchema   nullable        `json:"output_schema"`
}

// resource builds the response object, before the first token or after the last.
func (c *call) resource(done bool) response {
	r := response{
		ID: "resp_" + c.id, CreatedAt: c.created, Model: c.model, Object: "response", Output: []any{},
		ParallelToolCalls: c.parallel, Temperature: 1, ToolChoice: c.choice.kind, Tools: []responseTool{},
		TopP: 1, MaxOutputTokens: c.maxTokens, ServiceTier: "auto", Status: "in_progress",
		Truncation: "disabled", PresencePenalty: 0, FrequencyPenalty: 0,
	}
	for _, t := range c.tools {
		r.Tools = append(r.Tools, responseTool{Name: t.name, Parameters: t.schema, Type: "function"})
	}
	if c.choice.kind == choiceNamed {
		r.ToolChoice = map[string]string{"name": c.choice.name, "type": "function"}
	}
	if c.instructions != "" {
		r.Instructions = c.instructions
	}
	if !done {
		return r
	}
	r.Status = "completed"
	if c.seqs[0].finish() == "length" {
		r.Status = "incomplete"
		r.IncompleteDetails = map[string]string{"reason": "max_output_tokens"}
	}
	r.Output = append(r.Output, c.output(true))
	r.Usage = c.responseUsage()
	if c.perRequest {
		r.Metrics = c.requestMetrics()
	}
	return r
}

// functionItem is a call of a tool.
type functionItem struct {
	Arguments string   `json:"arguments"`
	CallID    string   `json:"call_id"`
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	ID        string   `json:"id"`
	Async     nullable `json:"async"`
	Caller    nullable `json:"caller"`
	Namespace nullable `json:"namespace"`
	Status    string   `json:"status"`
}

// output is what the answer consists of, empty or whole: a message or a call of a tool.
func (c *call) output(done bool) any {
	t := c.seqs[0].answer.tool
	if t == nil {
		return c.item(done)
	}
	f := functionItem{CallID: c.toolID(c.seqs[0]), Name: t.name, Type: "function_call", ID: "fc_" + c.id, Status: "in_progress"}
	if done {
		f.Arguments, f.Status = t.arguments, "completed"
	}
	return f
}

// item is the message, empty or whole.
func (c *call) item(done bool) outputItem {
	it := outputItem{ID: "msg_" + c.id, Content: []outputPart{}, Role: "assistant", Status: "in_progress", Type: "message"}
	if done {
		it.Status = "completed"
		it.Content = append(it.Content, c.part(c.seqs[0].text(), "null"))
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
	b := f.event("response.output_item.added", `{"item":`+string(mustJSON(c.output(false)))+`,"output_index":0`)
	if c.seqs[0].answer.tool != nil {
		return b
	}
	return append(b, f.event("response.content_part.added", fmt.Sprintf(`{"content_index":0,"item_id":"msg_%s","output_index":0,"part":%s`, c.id, mustJSON(c.part("", "[]"))))...)
}

func (f *responsesFormat) token(c *call, q *sequence, d delta) []byte {
	if q.answer.tool != nil {
		if d.arguments == "" {
			return nil
		}
		return f.event("response.function_call_arguments.delta", fmt.Sprintf(`{"delta":%s,"item_id":"fc_%s","output_index":0`, mustJSON(d.arguments), c.id))
	}
	if d.text == "" {
		return nil
	}
	return f.event("response.output_text.delta", fmt.Sprintf(`{"content_index":0,"delta":%s,"item_id":"msg_%s","logprobs":[],"output_index":0`, quote(nil, d.text), c.id))
}

func (f *responsesFormat) end(c *call) []byte {
	q := c.seqs[0]
	var b []byte
	if t := q.answer.tool; t != nil {
		// The name comes after the sequence number here, unlike in the other events.
		b = fmt.Appendf(nil, "event: response.function_call_arguments.done\ndata: {\"arguments\":%s,\"item_id\":\"fc_%s\",\"output_index\":0,\"sequence_number\":%d,\"type\":\"response.function_call_arguments.done\",\"name\":%s}\n\n", mustJSON(t.arguments), c.id, f.seq, mustJSON(t.name))
		f.seq++
	} else {
		// And so does the text here.
		b = fmt.Appendf(nil, "event: response.output_text.done\ndata: {\"content_index\":0,\"item_id\":\"msg_%s\",\"logprobs\":[],\"output_index\":0,\"sequence_number\":%d,\"text\":%s,\"type\":\"response.output_text.done\"}\n\n", c.id, f.seq, quote(nil, q.text()))
		f.seq++
		b = append(b, f.event("response.content_part.done", fmt.Sprintf(`{"content_index":0,"item_id":"msg_%s","output_index":0,"part":%s`, c.id, mustJSON(c.part(q.text(), "null"))))...)
	}
	b = append(b, f.event("response.output_item.done", `{"item":`+string(mustJSON(c.output(true)))+`,"output_index":0`)...)
	return append(b, f.event("response.completed", `{"response":`+string(mustJSON(c.resource(true))))...)
}

// failure has no event for an engine that has died.
func (f *responsesFormat) failure(*apiError) []byte { return nil }
