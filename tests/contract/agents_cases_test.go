package contract

// messageUsage is the usage of the messages API at the end of an answer.
var messageUsage = object{
	"input_tokens": integer, "output_tokens": integer,
	"cache_creation_input_tokens": integer, "cache_read_input_tokens": integer,
}

var messageBody = object{
	"id": matches(`^chatcmpl-[0-9a-f]{16}$`), "type": "message", "role": "assistant",
	"content": array{object{"type": "text", "text": text}}, "model": model, "stop_reason": "max_tokens", "usage": messageUsage,
}

var messageEvents = []step{
	once("message_start", object{"type": "message_start", "message": object{
		"id": matches(`^chatcmpl-[0-9a-f]{16}$`), "type": "message", "role": "assistant", "content": array{}, "model": model,
		"stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": integer, "output_tokens": 0},
	}}),
	once("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""}}),
	many("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": text}}),
	once("content_block_stop", object{"type": "content_block_stop", "index": 0}),
	once("message_delta", object{
		"type": "message_delta", "delta": object{"stop_reason": "max_tokens", "stop_sequence": nil}, "usage": messageUsage,
	}),
	once("message_stop", object{"type": "message_stop"}),
}

func messagesTable() []exchange {
	const path = "/v1/messages"
	const ask = `"model":"tiny","max_tokens":8,"temperature":0,"messages":[{"role":"user","content":"count to eight"}]`
	const parts = `"model":"tiny","max_tokens":8,"temperature":0,"system":[{"type":"text","text":"be short"}],"messages":[{"role":"user","content":[{"type":"text","text":"count","cache_control":{"type":"ephemeral"}}]}]`
	counted := object{"input_tokens": integer, "context_management": object{"original_input_tokens": integer}}
	return []exchange{
		{name: "messages", path: path, body: `{` + ask + `}`, want: messageBody},
		{name: "messages: parts and a system prompt", path: path + "?beta=true", body: `{` + parts + `}`, want: messageBody},
		{name: "messages: stream", path: path, body: `{` + ask + `,"stream":true}`, events: messageEvents},
		{name: "messages: stream, parts and a system prompt", path: path + "?beta=true", body: `{` + parts + `,"stream":true}`, events: messageEvents},
		{name: "count_tokens", path: path + "/count_tokens", body: `{"model":"tiny","messages":[{"role":"user","content":"count"}]}`, want: counted},
		{
			name: "count_tokens: parts and a system prompt", path: path + "/count_tokens?beta=true", want: counted,
			body: `{"model":"tiny","system":[{"type":"text","text":"be short"}],"messages":[{"role":"user","content":[{"type":"text","text":"count"}]}]}`,
		},
	}
}

// response is the resource of the responses API, before its first token.
var response = object{
	"id": matches(`^resp_[0-9a-f]{16}$`), "created_at": integer, "incomplete_details": nil, "instructions": "be short",
	"metadata": nil, "model": model, "object": "response", "output": array{}, "parallel_tool_calls": true,
	"temperature": decimal, "tool_choice": "none", "tools": array{}, "top_p": decimal, "background": false,
	"max_output_tokens": 8, "max_tool_calls": nil, "previous_response_id": nil, "prompt": nil, "reasoning": nil,
	"service_tier": "auto", "status": "in_progress", "text": nil, "top_logprobs": nil, "truncation": "disabled",
	"usage": nil, "user": nil, "presence_penalty": decimal, "frequency_penalty": decimal, "kv_transfer_params": nil,
	"ec_transfer_params": nil, "input_messages": nil, "output_messages": nil,
}

var (
	responseText = object{"annotations": array{}, "text": text, "type": "output_text", "logprobs": nil}
	responseItem = object{
		"id": matches(`^msg_[0-9a-f]{16}$`), "content": array{}, "role": "assistant", "status": "in_progress", "type": "message", "phase": nil,
	}
	responseItemDone = responseItem.with(object{"content": array{responseText}, "status": "completed"})
	responseDone     = response.with(object{
		"incomplete_details": object{"reason": "max_output_tokens"}, "output": array{responseItemDone}, "status": "incomplete",
		"usage": object{
			"input_tokens": integer,
			"input_tokens_details": object{
				"cached_tokens": integer, "cache_write_tokens": integer, "input_tokens_per_turn": array{}, "cached_tokens_per_turn": array{},
			},
			"output_tokens": 8,
			"output_tokens_details": object{
				"reasoning_tokens": 0, "tool_output_tokens": 0, "output_tokens_per_turn": array{}, "tool_output_tokens_per_turn": array{},
			},
			"total_tokens": integer,
		},
	})
)

// responseEvent is an event of the responses API; number is its place where that is
// fixed.
func responseEvent(name string, number any, fields object) step {
	return once(name, fields.with(object{"type": name, "sequence_number": number}))
}

func responseEvents() []step {
	in := object{"item_id": matches(`^msg_[0-9a-f]{16}$`), "output_index": 0, "content_index": 0}
	delta := responseEvent("response.output_text.delta", integer, in.with(object{"delta": text, "logprobs": array{}}))
	delta.many = true
	return []step{
		responseEvent("response.created", 0, object{"response": response}),
		responseEvent("response.in_progress", 1, object{"response": response}),
		responseEvent("response.output_item.added", 2, object{"item": responseItem, "output_index": 0}),
		responseEvent("response.content_part.added", 3, in.with(object{"part": responseText.with(object{"text": "", "logprobs": array{}})})),
		delta,
		responseEvent("response.output_text.done", integer, in.with(object{"text": text, "logprobs": array{}})),
		responseEvent("response.content_part.done", integer, in.with(object{"part": responseText})),
		responseEvent("response.output_item.done", integer, object{"item": responseItemDone, "output_index": 0}),
		responseEvent("response.completed", integer, object{"response": responseDone}),
	}
}

func responsesTable() []exchange {
	const path = "/v1/responses"
	const ask = `"model":"tiny","instructions":"be short","input":"count to eight","max_output_tokens":8,"temperature":0`
	const items = `"model":"tiny","instructions":"be short","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"count"}]}],"max_output_tokens":8,"temperature":0,"store":false`
	return []exchange{
		{name: "responses", path: path, body: `{` + ask + `}`, want: responseDone},
		{name: "responses: items", path: path, body: `{` + items + `}`, want: responseDone},
		{name: "responses: stream", path: path, body: `{` + ask + `,"stream":true}`, events: responseEvents()},
		{name: "responses: stream, items", path: path, body: `{` + items + `,"stream":true}`, events: responseEvents()},
	}
}
