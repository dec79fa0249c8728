package vllmd

import (
	"encoding/json"
	"strings"
)

// message is one entry of a chat, whatever API it came through.
type message struct {
	role string
	text string
	// images counts parts that are no text.
	images int
}

// render appends the chat template: each message between its markers, then the
// beginning of the answer.
func render(msgs []message, tools string) []uint32 {
	var t []uint32
	if tools != "" {
		msgs = append([]message{{role: "tools", text: tools}}, msgs...)
	}
	for _, m := range msgs {
		t = append(t, tokStart)
		t = tokenize(t, m.role)
		t = tokenize(t, "\n")
		for range m.images {
			t = append(t, tokImage)
		}
		t = tokenize(t, m.text)
		t = append(t, tokEnd)
		t = tokenize(t, "\n")
	}
	t = append(t, tokStart)
	t = tokenize(t, "assistant")
	return tokenize(t, "\n")
}

// part is a piece of content in any of the APIs.
type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// billingPrefix begins a text block of Claude Code's system prompt that changes from
// call to call. vLLM drops it, or no prefix would ever be found again.
const billingPrefix = "x-anthropic-billing-header:"

// readContent returns the text of a content field: a string, null, or a list of parts.
func readContent(raw json.RawMessage) (text string, images int) {
	if len(raw) == 0 {
		return "", 0
	}
	if raw[0] == '"' {
		// An invalid string cannot come here: the body has been decoded once.
		_ = json.Unmarshal(raw, &text)
		return text, 0
	}
	var parts []part
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw), 0
	}
	var b strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text", "":
			b.WriteString(p.Text)
		case "thinking":
			b.WriteString(p.Thinking)
		case "redacted_thinking":
		case "tool_use":
			b.WriteString("<tool_call>" + p.Name + string(p.Input) + "</tool_call>")
		case "tool_result":
			inner, n := readContent(p.Content)
			b.WriteString("<tool_response>" + inner + "</tool_response>")
			images += n
		default:
			images++
		}
	}
	return b.String(), images
}

// readSystem returns the system text of an Anthropic request without the attribution
// block.
func readSystem(raw json.RawMessage) string {
	var parts []part
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &parts) != nil {
		text, _ := readContent(raw)
		return dropBilling(text)
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(dropBilling(p.Text))
	}
	return b.String()
}

// dropBilling removes the attribution line at the beginning of a text.
func dropBilling(text string) string {
	if !strings.HasPrefix(text, billingPrefix) {
		return text
	}
	_, rest, _ := strings.Cut(text, "\n")
	return rest
}

// chatMessage is an entry of the chat API's messages.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// chatMessages converts those of the chat and messages APIs.
func chatMessages(in []chatMessage) []message {
	out := make([]message, 0, len(in))
	for _, m := range in {
		text, images := readContent(m.Content)
		if len(m.ToolCalls) > 0 && string(m.ToolCalls) != "null" {
			text += "<tool_call>" + string(m.ToolCalls) + "</tool_call>"
		}
		out = append(out, message{role: m.Role, text: text, images: images})
	}
	return out
}

// responseItem is an entry of the responses API's input.
type responseItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Summary   json.RawMessage `json:"summary"`
}

// responseMessages converts the input of the responses API.
func responseMessages(instructions string, input json.RawMessage) []message {
	var out []message
	if instructions != "" {
		out = append(out, message{role: "system", text: instructions})
	}
	var items []responseItem
	if len(input) == 0 || input[0] != '[' || json.Unmarshal(input, &items) != nil {
		text, _ := readContent(input)
		return append(out, message{role: "user", text: text})
	}
	for _, it := range items {
		switch it.Type {
		case "function_call":
			out = append(out, message{role: "assistant", text: "<tool_call>" + it.Name + it.Arguments + "</tool_call>"})
		case "function_call_output":
			text, n := readContent(it.Output)
			out = append(out, message{role: "tool", text: text, images: n})
		case "reasoning":
			text, _ := readContent(it.Summary)
			out = append(out, message{role: "assistant", text: text})
		default:
			text, n := readContent(it.Content)
			out = append(out, message{role: it.Role, text: text, images: n})
		}
	}
	return out
}
