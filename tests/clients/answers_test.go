package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Figures that the engines report of every answer.
const (
	promptTokens     = 1200
	cachedTokens     = 960
	completionTokens = 7
)

// object is a JSON object whose members stand in the order of their names.
type object = map[string]any

// render returns an answer in the form that the request asks for, and its content type.
func render(q *question, said reply, number string) (contentType string, text []byte) {
	const whole, stream = "application/json", "text/event-stream; charset=utf-8"
	if said.Status != 0 {
		return whole, []byte(said.Fault)
	}
	switch {
	case q.path == "/v1/messages/count_tokens":
		return whole, []byte(`{"input_tokens":1200}`)
	case q.path == "/v1/messages" && q.body.Stream:
		return stream, messagesStream(q.body.Model, number, said)
	case q.path == "/v1/messages":
		return whole, marshal(messagesWhole(q.body.Model, number, said))
	case q.path == "/v1/responses" && q.body.Stream:
		return stream, responsesStream(q.body.Model, number, said)
	case q.path == "/v1/responses":
		return whole, marshal(responsesWhole(q.body.Model, number, said))
	case q.body.Stream:
		return stream, chatStream(q.body.Model, number, said, q.body.StreamOptions["include_usage"])
	default:
		return whole, marshal(chatWhole(q.body.Model, number, said))
	}
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

func (r reply) arguments() string { return string(marshal(r.Args)) }

// pieces cuts a text into tokens of a few runes.
func pieces(text string) []string {
	var out []string
	for runes := []rune(text); len(runes) > 0; {
		n := min(4, len(runes))
		out, runes = append(out, string(runes[:n])), runes[n:]
	}
	return out
}

// events writes named events.
type events struct{ bytes.Buffer }

func (e *events) add(name string, data object) {
	data["type"] = name
	fmt.Fprintf(e, "event: %s\ndata: %s\n\n", name, marshal(data))
}

func messagesStop(said reply) string {
	if said.Tool != "" {
		return "tool_use"
	}
	return "end_turn"
}

func messagesUsage() object {
	return object{
		"input_tokens": promptTokens - cachedTokens, "output_tokens": completionTokens,
		"cache_creation_input_tokens": 0, "cache_read_input_tokens": cachedTokens,
	}
}

func messagesWhole(model, number string, said reply) object {
	content := []object{}
	if said.Text != "" {
		content = append(content, object{"type": "text", "text": said.Text})
	}
	if said.Tool != "" {
		content = append(content, object{"type": "tool_use", "id": "toolu_" + number, "name": said.Tool, "input": said.Args})
	}
	return object{
		"id": "msg_" + number, "type": "message", "role": "assistant", "model": model, "content": content,
		"stop_reason": messagesStop(said), "stop_sequence": nil, "usage": messagesUsage(),
	}
}

func messagesStream(model, number string, said reply) []byte {
	var e events
	e.add("message_start", object{"message": object{
		"id": "msg_" + number, "type": "message", "role": "assistant", "model": model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": promptTokens, "output_tokens": 0},
	}})
	index := 0
	if said.Text != "" {
		e.add("content_block_start", object{"index": index, "content_block": object{"type": "text", "text": ""}})
		for _, piece := range pieces(said.Text) {
			e.add("content_block_delta", object{"index": index, "delta": object{"type": "text_delta", "text": piece}})
		}
		if said.stall != noStall {
			return e.Bytes()
		}
		e.add("content_block_stop", object{"index": index})
		index++
	}
	if said.Tool != "" {
		e.add("content_block_start", object{"index": index, "content_block": object{
			"type": "tool_use", "id": "toolu_" + number, "name": said.Tool, "input": object{},
		}})
		for _, piece := range pieces(said.arguments()) {
			e.add("content_block_delta", object{"index": index, "delta": object{"type": "input_json_delta", "partial_json": piece}})
		}
		e.add("content_block_stop", object{"index": index})
	}
	e.add("message_delta", object{"delta": object{"stop_reason": messagesStop(said), "stop_sequence": nil}, "usage": messagesUsage()})
	e.add("message_stop", object{})
	return e.Bytes()
}

func responsesItems(number string, said reply) []object {
	items := []object{}
	if said.Text != "" {
		items = append(items, object{
			"id": "msg_" + number, "type": "message", "role": "assistant", "status": "completed",
			"content": []object{{"type": "output_text", "text": said.Text, "annotations": []any{}}},
		})
	}
	if said.Tool != "" {
		call := object{
			"id": "fc_" + number, "type": "function_call", "status": "completed", "call_id": "call_" + number,
			"name": said.Tool, "arguments": said.arguments(),
		}
		if said.Namespace != "" {
			call["namespace"] = said.Namespace
		}
		items = append(items, call)
	}
	return items
}

func responsesWhole(model, number string, said reply) object {
	return object{
		"id": "resp_" + number, "object": "response", "created_at": 1, "status": "completed", "model": model,
		"output": responsesItems(number, said), "parallel_tool_calls": true, "tools": []any{}, "tool_choice": "auto",
		"usage": object{
			"input_tokens": promptTokens, "input_tokens_details": object{"cached_tokens": cachedTokens},
			"output_tokens": completionTokens, "output_tokens_details": object{"reasoning_tokens": 0},
			"total_tokens": promptTokens + completionTokens,
		},
	}
}

func responsesStream(model, number string, said reply) []byte {
	var e events
	sequence := 0
	add := func(name string, data object) {
		data["sequence_number"] = sequence
		sequence++
		e.add(name, data)
	}
	begun := responsesWhole(model, number, said)
	begun["status"], begun["output"], begun["usage"] = "in_progress", []any{}, nil
	add("response.created", object{"response": begun})
	add("response.in_progress", object{"response": begun})
	for i, item := range responsesItems(number, said) {
		opened := object{"id": item["id"], "type": item["type"], "status": "in_progress"}
		at := func(more object) object {
			more["item_id"], more["output_index"] = item["id"], i
			return more
		}
		if item["type"] == "function_call" {
			opened["call_id"], opened["name"], opened["arguments"] = item["call_id"], item["name"], ""
			add("response.output_item.added", object{"output_index": i, "item": opened})
			for _, piece := range pieces(said.arguments()) {
				add("response.function_call_arguments.delta", at(object{"delta": piece}))
			}
			add("response.function_call_arguments.done", at(object{"name": item["name"], "arguments": item["arguments"]}))
		} else {
			opened["role"], opened["content"] = "assistant", []any{}
			add("response.output_item.added", object{"output_index": i, "item": opened})
			add("response.content_part.added", at(object{"content_index": 0, "part": object{"type": "output_text", "text": "", "annotations": []any{}}}))
			for _, piece := range pieces(said.Text) {
				add("response.output_text.delta", at(object{"content_index": 0, "delta": piece}))
			}
			if said.stall != noStall {
				return e.Bytes()
			}
			add("response.output_text.done", at(object{"content_index": 0, "text": said.Text}))
		}
		add("response.output_item.done", object{"output_index": i, "item": item})
	}
	add("response.completed", object{"response": responsesWhole(model, number, said)})
	return e.Bytes()
}

func chatUsage() object {
	return object{
		"prompt_tokens": promptTokens, "completion_tokens": completionTokens, "total_tokens": promptTokens + completionTokens,
		"prompt_tokens_details": object{"cached_tokens": cachedTokens},
	}
}

func chatFinish(said reply) string {
	if said.Tool != "" {
		return "tool_calls"
	}
	return "stop"
}

func chatWhole(model, number string, said reply) object {
	message := object{"role": "assistant", "content": said.Text}
	if said.Tool != "" {
		message["tool_calls"] = []object{{
			"id": "call_" + number, "type": "function",
			"function": object{"name": said.Tool, "arguments": said.arguments()},
		}}
	}
	return object{
		"id": "chatcmpl-" + number, "object": "chat.completion", "created": 1, "model": model,
		"choices": []object{{"index": 0, "message": message, "logprobs": nil, "finish_reason": chatFinish(said)}},
		"usage":   chatUsage(),
	}
}

// fingerprint stands on the chunk of usage when an engine is asked for it, and else on the
// chunk that ends the answer.
const fingerprint = "vllm-0.32.0-12345678"

func chatStream(model, number string, said reply, usage bool) []byte {
	var out bytes.Buffer
	chunk := func(more object) {
		more["id"], more["object"], more["created"], more["model"] = "chatcmpl-"+number, "chat.completion.chunk", 1, model
		fmt.Fprintf(&out, "data: %s\n\n", marshal(more))
	}
	delta := func(d object, finish any) {
		chunk(object{"choices": []object{{"index": 0, "delta": d, "logprobs": nil, "finish_reason": finish}}})
	}
	delta(object{"role": "assistant", "content": ""}, nil)
	for _, piece := range pieces(said.Text) {
		delta(object{"content": piece}, nil)
	}
	if said.stall != noStall {
		return out.Bytes()
	}
	if said.Tool != "" {
		delta(object{"tool_calls": []object{{
			"index": 0, "id": "call_" + number, "type": "function", "function": object{"name": said.Tool, "arguments": ""},
		}}}, nil)
		for _, piece := range pieces(said.arguments()) {
			delta(object{"tool_calls": []object{{"index": 0, "function": object{"arguments": piece}}}}, nil)
		}
	}
	last := object{"choices": []object{{"index": 0, "delta": object{}, "logprobs": nil, "finish_reason": chatFinish(said)}}}
	if usage {
		chunk(last)
		last = object{"choices": []any{}, "usage": chatUsage()}
	}
	last["system_fingerprint"] = fingerprint
	chunk(last)
	out.WriteString("data: [DONE]\n\n")
	return out.Bytes()
}
