package contract

import "maps"

const fingerprint = matches(`^vllm-0\.32\.0-[0-9a-f]{8}$`)

// with returns a copy of a shape with some keys added or replaced.
func (o object) with(more object) object {
	o = maps.Clone(o)
	maps.Copy(o, more)
	return o
}

// counts is usage without details, as events in the middle of a stream carry it.
var counts = object{"prompt_tokens": integer, "total_tokens": integer, "completion_tokens": integer}

func chatUsage() object {
	return counts.with(object{
		"prompt_tokens_details":     object{"cached_tokens": integer, "created_cache_tokens": integer, "multimodal_tokens": nil},
		"completion_tokens_details": nil,
	})
}

// chatBody is a whole answer that ended at its limit.
var chatBody = object{
	"id": matches(`^chatcmpl-[0-9a-f]{16}$`), "object": "chat.completion", "created": integer, "model": model,
	"choices": array{object{
		"index": 0,
		"message": object{
			"role": "assistant", "content": text, "refusal": nil, "annotations": nil, "audio": nil,
			"function_call": nil, "reasoning": nil,
		},
		"logprobs": nil, "finish_reason": "length", "stop_reason": nil, "token_ids": nil, "routed_experts": nil,
	}},
	"service_tier": nil, "system_fingerprint": fingerprint, "usage": chatUsage(),
	"prompt_logprobs": nil, "prompt_token_ids": nil, "prompt_text": nil,
	"kv_transfer_params": nil, "ec_transfer_params": nil, "metrics": nil,
}

// The events of a chat stream.
var (
	chatChunk = object{
		"id": matches(`^chatcmpl-[0-9a-f]{16}$`), "object": "chat.completion.chunk", "created": integer, "model": model,
	}
	chatFirst = chatChunk.with(object{
		"choices": array{object{
			"index": 0, "delta": object{"role": "assistant", "content": ""}, "logprobs": nil, "finish_reason": nil,
		}},
		"prompt_token_ids": nil, "prompt_text": nil,
	})
	chatMiddle = chatChunk.with(object{"choices": array{object{
		"index": 0, "delta": object{"content": text}, "logprobs": nil, "finish_reason": nil, "token_ids": nil,
	}}})
	chatLast = chatChunk.with(object{"choices": array{object{
		"index": 0, "delta": object{"content": text}, "logprobs": nil, "finish_reason": "length", "stop_reason": nil, "token_ids": nil,
	}}})
	chatUsageChunk = chatChunk.with(object{
		"choices": array{},
		"usage": counts.with(object{
			"prompt_tokens_details": object{"cached_tokens": integer, "created_cache_tokens": integer},
		}),
		"system_fingerprint": fingerprint,
	})
)

func chatTable() []exchange {
	const path = "/v1/chat/completions"
	const ask = `"model":"tiny","messages":[{"role":"user","content":"count to eight"}],"max_tokens":8,"temperature":0,"ignore_eos":true`
	counted := object{"usage": counts.with(object{"completion_tokens_details": nil})}
	return []exchange{
		{name: "chat", path: path, body: `{` + ask + `}`, want: chatBody},
		{
			name: "chat: parts, a system message, the newer limit", path: path, want: chatBody,
			body: `{"model":"tiny","messages":[{"role":"system","content":"be short"},{"role":"user","content":[{"type":"text","text":"count"}]}],"max_completion_tokens":8,"temperature":0,"ignore_eos":true}`,
		},
		{
			name: "chat: without a model", path: path, want: chatBody,
			body: `{"messages":[{"role":"user","content":"count"}],"max_tokens":8,"ignore_eos":true}`,
		},
		{
			name: "chat: the client's request id", path: path, body: `{` + ask + `}`,
			header: []string{"X-Request-Id", "contract-1"},
			want:   chatBody.with(object{"id": "chatcmpl-contract-1"}),
		},
		{
			name: "chat: stream", path: path, body: `{` + ask + `,"stream":true}`,
			events: []step{once("", chatFirst), many("", chatMiddle), once("", chatLast.with(object{"system_fingerprint": fingerprint})), done},
		},
		{
			name: "chat: stream, token ids", path: path, body: `{` + ask + `,"stream":true,"return_token_ids":true}`,
			events: []step{
				once("", chatFirst.with(object{"prompt_token_ids": each{integer}})), many("", chatMiddle.with(object{"choices": array{object{
					"index": 0, "delta": object{"content": text}, "logprobs": nil, "finish_reason": nil, "token_ids": each{integer},
				}}})),
				once("", chatLast.with(object{"system_fingerprint": fingerprint, "choices": array{object{
					"index": 0, "delta": object{"content": text}, "logprobs": nil, "finish_reason": "length", "stop_reason": nil, "token_ids": each{integer},
				}}})), done,
			},
		},
		{
			name: "chat: stream, usage at its end", path: path,
			body:   `{` + ask + `,"stream":true,"stream_options":{"include_usage":true}}`,
			events: []step{once("", chatFirst), many("", chatMiddle), once("", chatLast), once("", chatUsageChunk), done},
		},
		{
			name: "chat: stream, usage everywhere", path: path,
			body:   `{` + ask + `,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
			events: []step{once("", chatFirst.with(counted)), many("", chatMiddle.with(counted)), once("", chatLast.with(counted)), once("", chatUsageChunk), done},
		},
	}
}

// completionBody is a whole answer that ended at its limit.
var completionBody = object{
	"id": matches(`^cmpl-[0-9a-f]{16}$`), "object": "text_completion", "created": integer, "model": model,
	"choices": array{object{
		"index": 0, "text": text, "logprobs": nil, "finish_reason": "length", "stop_reason": nil, "token_ids": nil,
		"prompt_logprobs": nil, "prompt_token_ids": nil, "routed_experts": nil,
	}},
	"service_tier": nil, "system_fingerprint": fingerprint,
	"usage": counts.with(object{
		"prompt_tokens_details":     object{"cached_tokens": integer, "created_cache_tokens": nil, "multimodal_tokens": nil},
		"completion_tokens_details": nil,
	}),
	"kv_transfer_params": nil, "ec_transfer_params": nil, "metrics": nil,
}

func completionChunk(finish any) object {
	return object{
		"id": matches(`^cmpl-[0-9a-f]{16}$`), "object": "text_completion", "created": integer, "model": model,
		"choices": array{object{
			"index": 0, "text": text, "logprobs": nil, "finish_reason": finish, "stop_reason": nil,
			"prompt_token_ids": nil, "token_ids": nil,
		}},
	}
}

func completionsTable() []exchange {
	const path = "/v1/completions"
	const ask = `"model":"tiny","prompt":"one two three","max_tokens":8,"temperature":0,"ignore_eos":true`
	counted := object{"usage": counts}
	usage := completionChunk(nil).with(object{
		"choices":            array{},
		"usage":              counts.with(object{"prompt_tokens_details": object{"cached_tokens": integer}}),
		"system_fingerprint": fingerprint,
	})
	return []exchange{
		{name: "completions", path: path, body: `{` + ask + `}`, want: completionBody},
		{
			name: "completions: token ids", path: path, want: completionBody,
			body: `{"model":"tiny","prompt":[300,301,302],"max_tokens":8,"ignore_eos":true}`,
		},
		{
			name: "completions: token ids in both directions", path: path,
			body: `{"model":"tiny","prompt":[300,301,302],"max_tokens":3,"ignore_eos":true,"return_token_ids":true}`,
			want: completionBody.with(object{"choices": array{object{
				"index": 0, "text": text, "logprobs": nil, "finish_reason": "length", "stop_reason": nil,
				"token_ids": array{integer, integer, integer}, "prompt_logprobs": nil,
				"prompt_token_ids": array{300, 301, 302}, "routed_experts": nil,
			}}}),
		},
		{
			name: "completions: stream", path: path, body: `{` + ask + `,"stream":true}`,
			events: []step{many("", completionChunk(nil)), once("", completionChunk("length").with(object{"system_fingerprint": fingerprint})), done},
		},
		{
			name: "completions: stream, usage at its end", path: path,
			body:   `{` + ask + `,"stream":true,"stream_options":{"include_usage":true}}`,
			events: []step{many("", completionChunk(nil)), once("", completionChunk("length")), once("", usage), done},
		},
		{
			name: "completions: stream, usage everywhere", path: path,
			body:   `{` + ask + `,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
			events: []step{many("", completionChunk(nil).with(counted)), once("", completionChunk("length").with(counted)), once("", usage), done},
		},
	}
}
