package contract

import (
	"bufio"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/tests/harness"
)

// switches are flags that change what clients see.
var switches = []string{
	"--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--enable-per-request-metrics", "--enable-scale-out",
	"--sse-keep-alive-interval", "1", "--enable-server-load-tracking", "--enable-request-id-headers", "--enable-force-include-usage",
}

// TestSwitches holds one engine with these flags to a table of its own. It runs before
// the others: so many real engines at once are more than some machines hold.
func TestSwitches(t *testing.T) {
	e := startWith(t, subject(t), switches...)
	e.waitReady(t)
	for _, x := range switchTable() {
		t.Run(x.name, func(t *testing.T) { x.hold(t, e.url) })
	}
	t.Run("usage that everybody gets stays", func(t *testing.T) { hiddenUsage(t, e) })
	t.Run("a waiting stream has comments", func(t *testing.T) { comments(t, e) })
}

// The tool that requests offer. It takes no arguments that it must have, because an
// engine with random weights gives none.
const (
	weatherSchema = `{"type":"object","properties":{"city":{"type":"string"}}}`
	toolsField    = `,"tools":[{"type":"function","function":{"name":"get_weather","parameters":` + weatherSchema + `}}]`
	weatherChoice = `{"type":"function","function":{"name":"get_weather"}}`

	responseToolText = `{"type":"function","name":"get_weather","parameters":` + weatherSchema + `}`
)

// responseTool is the tool as the responses API repeats it.
var responseTool = object{
	"name": "get_weather", "type": "function", "strict": nil, "allowed_callers": nil, "async": nil, "defer_loading": nil,
	"description": nil, "output_schema": nil,
	"parameters": object{"type": "object", "properties": object{"city": object{"type": "string"}}},
}

// times is what --enable-per-request-metrics adds; streams leave out what is null.
var times = object{
	"time_to_first_token_ms": decimal, "generation_time_ms": decimal, "queue_time_ms": decimal, "mean_itl_ms": decimal,
	"tokens_per_second": decimal,
}

// switched is the answer of an engine with these flags.
var (
	switchedNames   = []string{"Content-Length", "Content-Type", "Date", "Server", "Vary", "X-Request-Id"}
	switchedStream  = []string{"Content-Type", "Date", "Server", "Transfer-Encoding", "Vary", "X-Request-Id"}
	switchedCounts  = object{"usage": counts.with(object{"completion_tokens_details": nil})}
	switchedMetrics = object{"metrics": times.with(object{"speculative_decoding": nil})}
)

func switchTable() []exchange {
	rendered := object{
		"request_id": text, "token_ids": each{integer}, "token_offsets": nil, "features": nil, "content_parts": nil,
		"sampling_params": either{samplingShape, samplingShape.with(object{"ignore_eos": boolean})},
		"model":           model, "reasoning_ended": nil, "reasoning_parser_kwargs": nil, "return_token_ids": nil, "output_mode": "tokens",
		"stream": false, "stream_options": nil, "cache_salt": nil, "priority": 0, "kv_transfer_params": nil, "ec_transfer_params": nil,
	}
	all := []exchange{
		{name: "load", method: http.MethodGet, path: "/load", want: object{"server_load": 0}},
		{name: "chat", path: chatPath, body: `{` + chatAsk + `}`, want: chatBody.with(switchedMetrics)},
		{name: "completions", path: "/v1/completions", body: `{` + textAsk + `}`, want: completionBody.with(switchedMetrics)},
		{
			name: "chat: the client's request id", path: chatPath, header: []string{"X-Request-Id", "switch-1"}, body: `{` + chatAsk + `}`,
			want: chatBody.with(switchedMetrics).with(object{"id": "chatcmpl-switch-1"}),
		},
		{
			name: "chat: usage though nobody asks", path: chatPath, body: `{` + chatAsk + `,"stream":true,"stream_options":{"include_usage":false}}`,
			events: []step{
				once("", chatFirst.with(switchedCounts)), many("", chatMiddle.with(switchedCounts)), once("", chatLast.with(switchedCounts)),
				once("", chatUsageChunk.with(object{"metrics": times})), done,
			},
		},
		{name: "chat render", path: chatPath + "/render", body: `{"model":"tiny","messages":[{"role":"user","content":"count"}],"max_tokens":4}`, want: rendered},
		{name: "completions render", path: "/v1/completions/render", body: `{"model":"tiny","prompt":"one two","max_tokens":4}`, want: array{rendered}},
		{name: "completions render: two", path: "/v1/completions/render", body: `{"model":"tiny","prompt":["one","two"],"max_tokens":4}`, want: array{rendered, rendered}},
		{
			name: "render: unknown model", path: chatPath + "/render", body: `{"model":"other","messages":[{"role":"user","content":"x"}]}`, status: http.StatusNotFound,
			want: openAIError("NotFoundError", "model", http.StatusNotFound, "^The model `other` does not exist. Valid aliases: tiny.$"),
		},
	}
	all = append(all, toolTable()...)
	for i, x := range all {
		all[i].names = switchedNames
		if x.events != nil {
			all[i].names, all[i].comments = switchedStream, true
		}
	}
	return all
}

// samplingShape are the sampling parameters of a rendered request.
var samplingShape = object{
	"presence_penalty": decimal, "frequency_penalty": decimal, "repetition_penalty": decimal, "temperature": decimal, "top_p": decimal,
	"min_p": decimal, "stop": array{}, "stop_token_ids": array{}, "max_tokens": 4, "output_kind": 2, "skip_clone": true,
	"bad_words": array{}, "skip_reading_prefix_cache": false,
}

// toolTable is about calls of tools. What an engine with random weights calls and with
// what is not fixed, but that it calls is: the grammar leaves it no other way.
func toolTable() []exchange {
	const ask = `"model":"tiny","messages":[{"role":"user","content":"the weather"}],"max_tokens":400,"temperature":0` + toolsField
	const required = `,"tool_choice":"required","parallel_tool_calls":false`
	id := matches("^chatcmpl-tool-[0-9a-f]{16}$")
	called := func(finish string) object {
		o := chatBody.of(object{"finish_reason": finish}).with(switchedMetrics)
		message := o.choice(0)["message"].(object).with(object{
			"content": "", "tool_calls": array{object{"id": id, "type": "function", "function": object{"name": "get_weather", "arguments": text}}},
		})
		return o.of(object{"message": message})
	}
	named := chatMiddle.of(object{"delta": object{"content": nil, "tool_calls": array{object{
		"id": id, "type": "function", "index": 0, "function": object{"name": "get_weather"},
	}}}}).with(switchedCounts)
	arguments := chatMiddle.of(object{"delta": object{"content": nil, "tool_calls": array{object{
		"index": 0, "function": object{"arguments": text},
	}}}}).with(switchedCounts)
	stream := func(finish string) []step {
		return []step{
			once("", chatFirst.with(switchedCounts)), once("", named), many("", arguments),
			once("", chatLast.of(object{"delta": object{}, "finish_reason": finish}).with(switchedCounts)),
			once("", chatUsageChunk.with(object{"metrics": times})), done,
		}
	}
	const anthropic = `"model":"tiny","messages":[{"role":"user","content":"the weather"}],"max_tokens":400,"temperature":0,"stream":true,"tools":[{"name":"get_weather","input_schema":` + weatherSchema + `}]`
	messageUse := []step{
		messageEvents[0],
		once("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": object{"type": "tool_use", "id": id, "name": "get_weather", "input": object{}}}),
		many("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": object{"type": "input_json_delta", "partial_json": text}}),
		messageEvents[3],
		once("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": "tool_use", "stop_sequence": nil}, "usage": messageUsage}),
		messageEvents[5],
	}
	return append([]exchange{
		{name: "chat: a named tool", path: chatPath, body: `{` + ask + `,"tool_choice":` + weatherChoice + `}`, want: called("stop")},
		{name: "chat: a required tool", path: chatPath, body: `{` + ask + required + `}`, want: called("tool_calls")},
		{name: "chat: a named tool, streamed", path: chatPath, body: `{` + ask + `,"stream":true,"tool_choice":` + weatherChoice + `}`, events: stream("stop")},
		{name: "chat: a required tool, streamed", path: chatPath, body: `{` + ask + `,"stream":true` + required + `}`, events: stream("tool_calls")},
		{
			name: "chat: tools that are not to be used", path: chatPath, body: `{` + chatAsk + toolsField + `,"tool_choice":"none"}`,
			want: chatBody.with(switchedMetrics),
		},
		{name: "messages: a named tool, streamed", path: "/v1/messages", body: `{` + anthropic + `,"tool_choice":{"type":"tool","name":"get_weather"}}`, events: messageUse},
		{name: "messages: any tool, streamed", path: "/v1/messages", body: `{` + anthropic + `,"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`, events: messageUse},
	}, responseToolTable()...)
}

// responseToolTable is the same for the responses API.
func responseToolTable() []exchange {
	const ask = `"model":"tiny","input":"the weather","max_output_tokens":400,"temperature":0,"tools":[` + responseToolText + `],"tool_choice":`
	const choice = `{"type":"function","name":"get_weather"}`
	item := object{
		"arguments": text, "call_id": matches("^chatcmpl-tool-[0-9a-f]{16}$"), "name": "get_weather", "type": "function_call",
		"id": matches("^fc_[0-9a-f]{16}$"), "async": nil, "caller": nil, "namespace": nil, "status": "completed",
	}
	begun := response.with(object{
		"instructions": nil, "max_output_tokens": 400, "tools": array{responseTool}, "tool_choice": object{"name": "get_weather", "type": "function"},
	})
	usage := responseDone["usage"].(object).with(object{"output_tokens": integer})
	ended := begun.with(object{
		"output": array{item}, "status": "completed", "usage": usage, "metrics": times.with(object{"speculative_decoding": nil}),
	})
	streamed := ended.with(object{"metrics": either{times, times.with(object{"speculative_decoding": nil})}})
	in := object{"item_id": matches("^fc_[0-9a-f]{16}$"), "output_index": 0}
	delta := responseEvent("response.function_call_arguments.delta", integer, in.with(object{"delta": text}))
	delta.many = true
	return []exchange{
		{name: "responses: a named tool", path: "/v1/responses", body: `{` + ask + choice + `}`, want: ended},
		{
			name: "responses: a required tool", path: "/v1/responses", body: `{` + ask + `"required","parallel_tool_calls":false}`,
			want: ended.with(object{"tool_choice": "required", "parallel_tool_calls": false}),
		},
		{name: "responses: a named tool, streamed", path: "/v1/responses", body: `{` + ask + choice + `,"stream":true}`, events: []step{
			responseEvent("response.created", 0, object{"response": begun}),
			responseEvent("response.in_progress", 1, object{"response": begun}),
			responseEvent("response.output_item.added", 2, object{"item": item.with(object{"arguments": "", "status": "in_progress"}), "output_index": 0}),
			delta,
			responseEvent("response.function_call_arguments.done", integer, in.with(object{"arguments": text, "name": "get_weather"})),
			responseEvent("response.output_item.done", integer, object{"item": item, "output_index": 0}),
			responseEvent("response.completed", integer, object{"response": streamed}),
		}},
	}
}

// comments: a stream of the chat API that has to wait is kept alive by comments, and
// each of the requests counts as load.
func comments(t *testing.T, e *engine) {
	var running []*stream
	for range maxNumSeqs {
		running = append(running, e.openStream(t, chatPath))
	}
	waiting := e.beginStream(t, chatPath, fmt.Sprintf(longBody, true))
	harness.Within(t, soon, func() error {
		got, err := exchange{method: http.MethodGet, path: "/load"}.send(t.Context(), e.url)
		if want := fmt.Sprintf(`{"server_load":%d}`, maxNumSeqs+1); err != nil || got.body != want {
			return fmt.Errorf("the load is %s, %w; want %s", got.body, err, want)
		}
		return nil
	})
	lines := make(chan string, 4)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(waiting.body); len(lines) < cap(lines) && s.Scan(); {
			lines <- s.Text()
		}
	}()
	for _, want := range []string{": keep-alive", "", ": keep-alive", ""} {
		select {
		case line := <-lines:
			if line != want {
				t.Errorf("the waiting stream has the line %q, want %q", line, want)
			}
		case <-time.After(soon):
			t.Fatal("the waiting stream is silent")
		}
	}
	for _, s := range append(running, waiting) {
		s.cancel()
	}
	e.waitRunning(t, 0, soon)
}
