package contract

import (
	"maps"
	"net/http"
)

// of returns a copy of a shape with keys of its only choice added or replaced.
func (o object) of(more object) object {
	choice := o["choices"].(array)[0].(object)
	return o.with(object{"choices": array{choice.with(more)}})
}

// choice returns a copy of a shape's choice as that of another index.
func (o object) choice(index int) object {
	return o["choices"].(array)[0].(object).with(object{"index": index})
}

const (
	chatAsk = `"model":"tiny","messages":[{"role":"user","content":"count to eight"}],"max_tokens":4,"ignore_eos":true`
	textAsk = `"model":"tiny","prompt":"one two three","max_tokens":4,"ignore_eos":true`
)

// choicesTable is about several answers to one request.
func choicesTable() []exchange {
	const n = `,"temperature":1.0,"n":2`
	both := func(o object) object { return o.with(object{"choices": array{o.choice(0), o.choice(1)}}) }
	// The events of two choices come in any order.
	anyOf := func(shapes ...object) either {
		var all either
		for _, o := range shapes {
			all = append(all, o.with(object{"choices": array{o.choice(0)}}), o.with(object{"choices": array{o.choice(1)}}))
		}
		return all
	}
	return []exchange{
		{name: "chat: two choices", path: chatPath, body: `{` + chatAsk + n + `}`, want: both(chatBody)},
		{
			name: "chat: two choices, streamed", path: chatPath,
			body: `{` + chatAsk + n + `,"stream":true,"stream_options":{"include_usage":true}}`,
			events: []step{
				once("", chatFirst), once("", chatFirst.with(object{"choices": array{chatFirst.choice(1)}})),
				many("", anyOf(chatMiddle, chatLast)), once("", chatUsageChunk), done,
			},
		},
		{name: "completions: two choices", path: "/v1/completions", body: `{` + textAsk + n + `}`, want: both(completionBody)},
		{
			name: "completions: two prompts", path: "/v1/completions", want: both(completionBody),
			body: `{"model":"tiny","prompt":["one","two three"],"max_tokens":4,"ignore_eos":true}`,
		},
		{
			name: "completions: two prompts of tokens", path: "/v1/completions", want: both(completionBody),
			body: `{"model":"tiny","prompt":[[300,301],[302]],"max_tokens":4,"ignore_eos":true}`,
		},
		{
			name: "completions: two prompts, streamed", path: "/v1/completions",
			body: `{"model":"tiny","prompt":["one","two three"],"max_tokens":4,"ignore_eos":true,"stream":true}`,
			events: []step{
				many("", anyOf(completionChunk(nil), completionChunk("length").with(object{"system_fingerprint": fingerprint}))), done,
			},
		},
		{
			name: "chat: the newer limit wins", path: chatPath, body: `{` + chatAsk + `,"max_completion_tokens":2}`,
			want: chatBody.with(object{"usage": chatUsage().with(object{"completion_tokens": 2})}),
		},
	}
}

// logprobsTable is about log probabilities. How many alternatives of a token of the
// completions API there are depends on whether it is one of the likeliest.
func logprobsTable() []exchange {
	// A token that ends within a character has no bytes of its own.
	entry := object{"token": text, "logprob": decimal, "bytes": either{each{integer}, array{}}}
	content := func(top any) object {
		return object{"logprobs": object{"content": each{entry.with(object{"top_logprobs": top})}}}
	}
	words := object{"logprobs": object{
		"text_offset": each{integer}, "token_logprobs": each{decimal}, "tokens": each{text}, "top_logprobs": each{entries{decimal}},
	}}
	return []exchange{
		{name: "chat: log probabilities", path: chatPath, body: `{` + chatAsk + `,"logprobs":true}`, want: chatBody.of(content(array{}))},
		{name: "chat: alternatives", path: chatPath, body: `{` + chatAsk + `,"logprobs":true,"top_logprobs":2}`, want: chatBody.of(content(array{entry, entry}))},
		{
			name: "chat: alternatives, streamed", path: chatPath, body: `{` + chatAsk + `,"logprobs":true,"top_logprobs":1,"stream":true}`,
			events: []step{
				once("", chatFirst), many("", chatMiddle.of(content(array{entry}))),
				once("", chatLast.of(content(array{entry})).with(object{"system_fingerprint": fingerprint})), done,
			},
		},
		{name: "completions: log probabilities", path: "/v1/completions", body: `{` + textAsk + `,"logprobs":0}`, want: completionBody.of(words)},
		{name: "completions: alternatives", path: "/v1/completions", body: `{` + textAsk + `,"logprobs":2}`, want: completionBody.of(words)},
		{
			name: "completions: alternatives, streamed", path: "/v1/completions", body: `{` + textAsk + `,"logprobs":1,"stream":true}`,
			events: []step{
				many("", completionChunk(nil).of(words)), once("", completionChunk("length").of(words).with(object{"system_fingerprint": fingerprint})), done,
			},
		},
		{
			name: "chat: log probabilities of the prompt", path: chatPath, body: `{` + chatAsk + `,"prompt_logprobs":1}`,
			want: chatBody.with(object{"prompt_logprobs": each{either{nil, entries{object{"logprob": decimal, "rank": integer, "decoded_token": text}}}}}),
		},
	}
}

// echoTable is about prompts that come back with the answer.
func echoTable() []exchange {
	const echo = `,"echo":true,"temperature":0`
	echoed := object{"text": matches("^one two three.")}
	some := either{nil, decimal}
	return []exchange{
		{name: "completions: echo", path: "/v1/completions", body: `{` + textAsk + echo + `}`, want: completionBody.of(echoed)},
		{
			name: "completions: echo, streamed", path: "/v1/completions", body: `{` + textAsk + echo + `,"stream":true}`,
			events: []step{
				once("", completionChunk(nil).of(echoed).of(object{"prompt_token_ids": each{integer}})), many("", completionChunk(nil)),
				once("", completionChunk("length").with(object{"system_fingerprint": fingerprint})), done,
			},
			atOnce: []step{
				once("", completionChunk("length").of(echoed).of(object{"prompt_token_ids": each{integer}}).with(object{"system_fingerprint": fingerprint})), done,
			},
		},
		{
			name: "completions: echo and nothing else", path: "/v1/completions", body: `{"model":"tiny","prompt":"one two three","max_tokens":0` + echo + `}`,
			want: completionBody.of(object{"text": "one two three"}),
		},
		{
			name: "completions: echo with log probabilities", path: "/v1/completions", body: `{` + textAsk + echo + `,"logprobs":1}`,
			want: completionBody.of(echoed).of(object{
				"logprobs": object{
					"text_offset": each{integer}, "token_logprobs": each{some}, "tokens": each{text}, "top_logprobs": each{either{nil, entries{decimal}}},
				},
				"prompt_logprobs": each{either{nil, entries{object{"logprob": decimal, "rank": integer, "decoded_token": text}}}},
			}),
		},
	}
}

// tokenTable is about what counts tokens and makes none.
func tokenTable() []exchange {
	const bad = http.StatusBadRequest
	closed := openAIError("PermissionDeniedError", nil, http.StatusForbidden, "^Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.$")
	unknown := openAIError("NotFoundError", "model", http.StatusNotFound, "^The model `other` does not exist. Valid aliases: tiny.$")
	return []exchange{
		{
			name: "tokenize: texts of the tokens", path: "/tokenize", body: `{"model":"tiny","prompt":"one two","return_token_strs":true}`,
			want: object{"count": integer, "max_model_len": maxModelLen, "tokens": each{integer}, "token_strs": array{"one", "\u0120two"}},
		},
		{name: "tokenize: unknown model", path: "/tokenize", body: `{"model":"other","prompt":"one"}`, status: http.StatusNotFound, want: unknown},
		{name: "detokenize", path: "/detokenize", body: `{"model":"tiny","tokens":[300,301]}`, want: object{"prompt": text}},
		{name: "detokenize: unknown model", path: "/detokenize", body: `{"model":"other","tokens":[300]}`, status: http.StatusNotFound, want: unknown},
		{
			name: "detokenize: no tokens", path: "/detokenize", body: `{"model":"tiny"}`, status: bad,
			want: openAIError("Bad Request", "body.tokens", bad, "Field required"),
		},
		{name: "chat render: closed", path: chatPath + "/render", body: `{` + chatAsk + `}`, status: http.StatusForbidden, want: closed},
		{name: "completions render: closed", path: "/v1/completions/render", body: `{` + textAsk + `}`, status: http.StatusForbidden, want: closed},
	}
}

// samplingErrors is what nobody can be given.
func samplingErrors() []exchange {
	const bad, kind = http.StatusBadRequest, "BadRequestError"
	var all []exchange
	for more, want := range map[string]object{
		`,"n":0`:                              openAIError(kind, nil, bad, `^n must be at least 1, got 0\.$`),
		`,"n":2,"temperature":0`:              openAIError(kind, nil, bad, `^n must be 1 when using greedy sampling, got 2\.$`),
		`,"temperature":-1`:                   openAIError(kind, "temperature", bad, `^temperature must be non-negative, got -1\.0\.`),
		`,"temperature":3`:                    openAIError(kind, "temperature", bad, `^temperature must be in \[0, 2\], got 3\.0\.`),
		`,"top_p":2`:                          openAIError(kind, "top_p", bad, `^top_p must be in \(0, 1\], got 2\.0\.`),
		`,"min_tokens":5`:                     openAIError(kind, nil, bad, `^min_tokens must be less than or equal to max_tokens=4, got 5\.$`),
		`,"stop":""`:                          openAIError(kind, nil, bad, `^stop cannot contain an empty string\.$`),
		`,"top_logprobs":2`:                   openAIError(kind, "top_logprobs", bad, "^when using `top_logprobs`, `logprobs` must be set to true"),
		`,"logprobs":true,"top_logprobs":30`:  openAIError(kind, "logprobs", bad, "^Requested sample logprobs of 30, which is greater than max allowed: 20"),
		`,"tool_choice":"auto"`:               openAIError(kind, "tool_choice", bad, "^When using `tool_choice`, `tools` must be set"),
		toolsField + `,"tool_choice":"maybe"`: openAIError(kind, "tool_choice", bad, "^Invalid value for `tool_choice`: maybe!"),
		toolsField + `,"tool_choice":"required"`: openAIError(kind, nil, bad,
			`^tool_choice="required" requires --tool-call-parser to be set$`),
		toolsField + `,"tool_choice":` + weatherChoice: openAIError(kind, nil, bad,
			`^tool_choice=function "get_weather" requires --tool-call-parser to be set$`),
		toolsField + `,"tool_choice":{"type":"function","function":{"name":"other"}}`: openAIError(kind, "tool_choice", bad,
			"^The tool specified in `tool_choice` does not match any of the specified `tools`"),
	} {
		all = append(all, exchange{name: "chat: " + more, path: chatPath, body: `{` + chatAsk + more + `}`, status: bad, want: want})
	}
	for body, want := range map[string]object{
		`"prompt":[]`:               openAIError(kind, nil, bad, "^You must pass at least one prompt$"),
		`"prompt":""`:               openAIError(kind, "prompt", bad, "^Either prompt or prompt_embeds must be provided and non-empty"),
		`"prompt":"a","suffix":"b"`: openAIError(kind, "suffix", bad, "^suffix is only supported for models with FIM completion rendering$"),
	} {
		all = append(all, exchange{name: "completions: " + body, path: "/v1/completions", body: `{"model":"tiny",` + body + `}`, status: bad, want: want})
	}
	// The responses API has other words for it, and answers in text when there is no parser.
	responseTools := maps.Clone(responseDone)
	responseTools["instructions"], responseTools["tool_choice"], responseTools["tools"] = nil, "required", array{responseTool}
	return append(all, exchange{
		name: "responses: a choice without tools", path: "/v1/responses", body: `{"model":"tiny","input":"x","tool_choice":"required"}`, status: bad,
		want: openAIError(kind, "tool_choice", bad, `^Tool choice 'required' must be specified with 'tools' parameter\.`),
	}, exchange{
		name: "responses: tools without a parser", path: "/v1/responses", want: responseTools,
		body: `{"model":"tiny","input":"count","max_output_tokens":8,"tools":[` + responseToolText + `],"tool_choice":"required"}`,
	})
}
