package contract

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// openAIError is the envelope of most errors; anthropicError that of the messages API.
func openAIError(kind, param any, code int, message string) object {
	return object{"error": object{"message": matches(message), "type": kind, "param": param, "code": code}}
}

func anthropicError(kind, message string) object {
	return object{"type": "error", "error": object{"type": kind, "message": matches(message)}}
}

// plainTable is what asks for no tokens.
func plainTable() []exchange {
	card := object{
		"id": model, "object": "model", "created": integer, "owned_by": "vllm", "root": text, "parent": nil, "max_model_len": maxModelLen,
		"permission": array{object{
			"id": matches(`^modelperm-`), "object": "model_permission", "created": integer, "allow_create_engine": boolean,
			"allow_sampling": boolean, "allow_logprobs": boolean, "allow_search_indices": boolean, "allow_view": boolean,
			"allow_fine_tuning": boolean, "organization": "*", "group": nil, "is_blocking": boolean,
		}},
	}
	return []exchange{
		{name: "health", method: http.MethodGet, path: "/health", names: emptyNames, want: noBody},
		{name: "ping", method: http.MethodGet, path: "/ping", names: emptyNames, want: noBody},
		{name: "ping: POST", path: "/ping", names: emptyNames, want: noBody},
		{name: "version", method: http.MethodGet, path: "/version", want: object{"version": matches(`^0\.32\.0`)}},
		{name: "load", method: http.MethodGet, path: "/load", want: object{"server_load": integer}},
		{name: "models", method: http.MethodGet, path: "/v1/models", want: object{"object": "list", "data": array{card}}},
		{
			name: "tokenize", path: "/tokenize", body: `{"model":"tiny","prompt":"one two three"}`,
			want: object{"count": integer, "max_model_len": maxModelLen, "tokens": each{integer}, "token_strs": nil},
		},
		{
			name: "tokenize: messages", path: "/tokenize", body: `{"model":"tiny","messages":[{"role":"user","content":"one"}]}`,
			want: object{"count": integer, "max_model_len": maxModelLen, "tokens": each{integer}, "token_strs": nil},
		},
	}
}

// surface is one API with a body that it accepts, in parts.
type surface struct {
	path, prompt, limit string
	refusal             func(kind, param any, code int, message string) object // of a valid body with an impossible wish
}

func surfaces() []surface {
	anthropic := func(kind, _ any, _ int, message string) object { return anthropicError(kind.(string), message) }
	return []surface{
		{"/v1/chat/completions", `"messages":[{"role":"user","content":"PROMPT"}]`, "max_tokens", openAIError},
		{"/v1/completions", `"prompt":"PROMPT"`, "max_tokens", openAIError},
		{"/v1/messages", `"messages":[{"role":"user","content":"PROMPT"}]`, "max_tokens", anthropic},
		{"/v1/responses", `"input":"PROMPT"`, "max_output_tokens", openAIError},
	}
}

// errorTable is what each API says to requests that cannot be.
func errorTable() []exchange {
	const bad, badRequest = http.StatusBadRequest, "BadRequestError"
	var all []exchange
	for _, s := range surfaces() {
		field, _, _ := strings.Cut(strings.Trim(s.prompt, `"`), `"`)
		prompt := strings.ReplaceAll(s.prompt, "PROMPT", "count")
		long := strings.ReplaceAll(s.prompt, "PROMPT", strings.Repeat("one, two; ", maxModelLen))
		limit := func(n string) string { return `,"` + s.limit + `":` + n }
		for _, stream := range []string{"", `,"stream":true`} {
			all = append(all, exchange{
				name: s.path + ": unknown model" + stream, path: s.path, body: `{"model":"other",` + prompt + limit("8") + stream + `}`,
				status: http.StatusNotFound, want: s.refusal("NotFoundError", "model", http.StatusNotFound, "^The model `other` does not exist. Valid aliases: tiny.$"),
			}, exchange{
				name: s.path + ": too long" + stream, path: s.path, body: `{"model":"tiny",` + long + limit("8") + stream + `}`,
				status: bad, want: s.refusal(badRequest, "input_tokens", bad, "maximum context length is 4096 tokens"),
			})
		}
		noPrompt := openAIError("Bad Request", "body."+field, bad, "Field required")
		if s.path == "/v1/completions" { // there are two fields for it
			noPrompt = openAIError(badRequest, "prompt", bad, "^Either prompt or prompt_embeds must be provided")
		}
		all = append(all, exchange{
			name: s.path + ": broken JSON", path: s.path, body: `{"model":"tiny","` + field + `":`,
			status: bad, want: openAIError("Bad Request", matches(`^body\.[0-9]+$`), bad, "JSON decode error"),
		}, exchange{
			name: s.path + ": no prompt", path: s.path, body: `{"model":"tiny"` + limit("8") + `}`,
			status: bad, want: noPrompt,
		}, exchange{
			name: s.path + ": a limit that is no number", path: s.path, body: `{"model":"tiny",` + prompt + limit(`"x"`) + `}`,
			status: bad, want: openAIError("Bad Request", "body."+s.limit, bad, "valid integer"),
		}, exchange{
			name: s.path + ": a limit past the context", path: s.path, body: `{"model":"tiny",` + prompt + limit("90000") + `}`,
			status: bad, want: s.refusal(badRequest, s.limit, bad, "max_model_len=4096"),
		}, exchange{
			name: s.path + ": no content type", path: s.path, header: []string{"Content-Type", ""}, body: `{"model":"tiny",` + prompt + limit("8") + `}`,
			status: bad, want: openAIError("Bad Request", nil, bad, "Only 'application/json' is allowed"),
		}, exchange{
			name: s.path + ": another content type", path: s.path, header: []string{"Content-Type", "text/plain"}, body: `{"model":"tiny",` + prompt + limit("8") + `}`,
			status: bad, want: openAIError("Bad Request", nil, bad, "Only 'application/json' is allowed"),
		}, exchange{
			name: s.path + ": GET", method: http.MethodGet, path: s.path,
			status: http.StatusMethodNotAllowed, names: allowNames, want: object{"detail": "Method Not Allowed"},
		})
	}
	return append(all, otherErrors()...)
}

func otherErrors() []exchange {
	const tools = `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]}`
	missing := object{"detail": "Not Found"}
	return []exchange{
		{
			name: "chat: tools without a parser", path: "/v1/chat/completions", status: 400,
			body: `{"model":"tiny","messages":[{"role":"user","content":"count"}],"max_tokens":8` + tools,
			want: openAIError("BadRequestError", nil, 400, `^"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set$`),
		},
		{
			name: "messages: tools without a parser", path: "/v1/messages", status: 400,
			body: `{"model":"tiny","messages":[{"role":"user","content":"count"}],"max_tokens":8,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}]}`,
			want: anthropicError("BadRequestError", `^"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set$`),
		},
		{
			name: "messages: no limit", path: "/v1/messages", status: 400,
			body: `{"model":"tiny","messages":[{"role":"user","content":"count"}]}`,
			want: openAIError("Bad Request", "body.max_tokens", 400, "Field required"),
		},
		{
			name: "count_tokens: unknown model", path: "/v1/messages/count_tokens", status: 404,
			body: `{"model":"other","messages":[{"role":"user","content":"count"}]}`,
			want: anthropicError("NotFoundError", "^The model `other` does not exist. Valid aliases: tiny.$"),
		},
		{
			name: "count_tokens: no messages", path: "/v1/messages/count_tokens", status: 400, body: `{"model":"tiny"}`,
			want: openAIError("Bad Request", "body.messages", 400, "Field required"),
		},
		{
			name: "responses: a stored one", method: http.MethodGet, path: "/v1/responses/resp_x", status: 404,
			want: openAIError("invalid_request_error", "response_id", 404, "^Response with id 'resp_x' not found.$"),
		},
		{name: "unknown path", method: http.MethodGet, path: "/v1/nothing", status: 404, want: missing},
		{name: "root", method: http.MethodGet, path: "/", status: 404, want: missing},
		{name: "root: HEAD", method: http.MethodHead, path: "/", status: 404, names: jsonNames, content: jsonContent, want: noBody},
		{name: "health: HEAD", method: http.MethodHead, path: "/health", status: 405, names: allowNames, content: jsonContent, want: noBody},
		{name: "health: POST", path: "/health", status: 405, names: allowNames, want: object{"detail": "Method Not Allowed"}},
	}
}

// otherModelsTable is what an engine whose model writes text says where those for other
// tasks answer.
func otherModelsTable() []exchange {
	bodies := map[string]string{
		"/v1/embeddings": `{"model":"tiny","input":"x"}`, "/v2/embed": `{"model":"tiny","texts":["x"]}`,
		"/rerank": "", "/v1/rerank": "", "/v2/rerank": `{"model":"tiny","query":"x","documents":["y"]}`,
		"/score": "", "/v1/score": `{"model":"tiny","text_1":"x","text_2":"y"}`,
		"/pooling": `{"model":"tiny","input":"x"}`, "/classify": `{"model":"tiny","input":"x"}`,
		"/v1/audio/transcriptions": "", "/v1/audio/translations": "", "/v1/audio/speech": `{"model":"tiny","input":"x"}`,
		"/v1/images/generations": `{"model":"tiny","prompt":"x"}`, "/v1/moderations": `{"model":"tiny","input":"x"}`,
	}
	var all []exchange
	for _, path := range slices.Sorted(maps.Keys(bodies)) {
		all = append(all,
			exchange{name: "other models: " + path, path: path, body: bodies[path], status: http.StatusNotFound, want: object{"detail": "Not Found"}},
			exchange{name: "other models: GET " + path, method: http.MethodGet, path: path, status: http.StatusNotFound, want: object{"detail": "Not Found"}})
	}
	return all
}

// rankTable is what the rank header does, on an engine of one rank.
func rankTable() []exchange {
	wholes := map[string]object{
		"/v1/chat/completions": chatBody, "/v1/completions": completionBody, "/v1/messages": messageBody,
		"/v1/responses": responseDone.with(object{"instructions": nil}),
	}
	var all []exchange
	for _, s := range surfaces() {
		body := `{"model":"tiny",` + strings.ReplaceAll(s.prompt, "PROMPT", "count") + `,"` + s.limit + `":8,"temperature":0`
		for _, rank := range []string{"0", "1", "-1", "x", ""} {
			x := exchange{
				name: s.path + ": rank " + rank, path: s.path, header: []string{"X-Data-Parallel-Rank", rank},
				body: body + `}`, want: wholes[s.path],
			}
			if n := strings.Trim(rank, "0x"); n != "" && s.path != "/v1/responses" {
				x.status = http.StatusBadRequest
				x.want = s.refusal("BadRequestError", nil, 400, `^data_parallel_rank `+n+` is out of range \[0, 1\)\.$`)
			}
			all = append(all, x)
		}
		if s.path != "/v1/responses" {
			failure := once("", openAIError("BadRequestError", nil, 400, `^data_parallel_rank 1 is out of range \[0, 1\)\.$`))
			steps := []step{failure, done}
			if s.path == "/v1/messages" {
				// It stumbles over the error of its own chat API.
				steps = []step{once("error", anthropicError("internal_error", "validation errors for ChatCompletionStreamResponse"))}
			}
			all = append(all, exchange{
				name: s.path + ": rank 1, streamed", path: s.path, header: []string{"X-Data-Parallel-Rank", "1"},
				body: body + `,"stream":true}`, events: steps,
			})
		}
	}
	return all
}
