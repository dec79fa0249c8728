package wire

import "testing"

// beginsAborted says whether a stream that has come so far was aborted, and whether that
// cannot be told yet. It makes no difference into which pieces it is cut.
func beginsAborted(t *testing.T, api API, said string) (aborted, more bool) {
	t.Helper()
	whole, b := NewOpening(api), NewOpening(api)
	v, bytewise := whole.Read([]byte(said)), Undecided
	for i := 0; i <= len(said) && bytewise == Undecided; i++ {
		bytewise = b.Read([]byte(said[:i]))
	}
	if bytewise != v && api.Generates() {
		t.Errorf("%s %q: verdict %d byte by byte, and %d at once", api, said, bytewise, v)
	}
	return v == Aborted, v == Undecided
}

func TestAborted(t *testing.T) {
	const (
		role   = `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}` + "\n\n"
		token  = `data: {"id":"c","choices":[{"index":0,"delta":{"content":" t"},"finish_reason":null}]}` + "\n\n"
		think  = `data: {"id":"c","choices":[{"index":0,"delta":{"reasoning":"hm"},"finish_reason":null}]}` + "\n\n"
		tool   = `data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]},"finish_reason":null}]}` + "\n\n"
		abort  = `data: {"id":"c","choices":[{"index":0,"delta":{"content":""},"finish_reason":"abort","stop_reason":null}]}` + "\n\n"
		late   = `data: {"id":"c","choices":[{"index":0,"delta":{"content":" t"},"finish_reason":"abort"}]}` + "\n\n"
		stop   = `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		text   = `data: {"id":"c","choices":[{"index":0,"text":"","finish_reason":"abort"}]}` + "\n\n"
		failed = `data: {"error":{"message":"abort"}}` + "\n\n"
	)
	for _, c := range []struct {
		name          string
		api           API
		said          string
		aborted, more bool
	}{
		{"nothing yet", APIChat, "", false, true},
		{"half a frame", APIChat, role[:40], false, true},
		{"only comments", APIChat, ": keep-alive\n\n", false, true},
		{"only the role", APIChat, role, false, true},
		{"the role and half a frame", APIChat, role + abort[:60], false, true},
		{"aborted", APIChat, role + abort, true, false},
		{"aborted, and the end", APIChat, role + abort + "data: [DONE]\n\n", true, false},
		{"aborted completion", APICompletions, text, true, false},
		{"a token", APIChat, role + token, false, false},
		{"a thought", APIChat, role + think, false, false},
		{"a call", APIChat, role + tool, false, false},
		{"aborted with a token", APIChat, role + late, false, false},
		{"stopped at once", APIChat, role + stop, false, false},
		{"a failure", APIChat, failed, false, false},
		{"the end", APIChat, "data: [DONE]\n\n", false, false},
		{"no JSON", APIChat, "data: {\n\n", false, false},
		{"another surface", APIEmbeddings, role + abort, false, false},
		{"another surface, half a frame", APIEmbeddings, role[:40], false, false},
	} {
		if aborted, more := beginsAborted(t, c.api, c.said); aborted != c.aborted || more != c.more {
			t.Errorf("%s: aborted %t, more %t; want %t, %t", c.name, aborted, more, c.aborted, c.more)
		}
	}
}

func TestAbortedWhole(t *testing.T) {
	for body, want := range map[string]bool{
		`{"choices":[{"index":0,"message":{"role":"assistant","content":"","refusal":null,"tool_calls":[]},"finish_reason":"abort"}]}`:                                 true,
		`{"choices":[{"index":0,"message":{"role":"assistant","content":null},"finish_reason":"abort"},{"index":1,"message":{"content":""},"finish_reason":"abort"}]}`: true,
		`{"choices":[{"index":0,"text":"","finish_reason":"abort"}]}`:                                                                                                  true,
		`{"choices":[{"index":0,"message":{"content":"abort"},"finish_reason":"abort"}]}`:                                                                              false,
		`{"choices":[{"index":0,"message":{"content":""},"finish_reason":"abort"},{"index":1,"message":{"content":"x"},"finish_reason":"stop"}]}`:                      false,
		`{"choices":[{"index":0,"message":{"content":"\"abort\""},"finish_reason":"stop"}]}`:                                                                           false,
		`{"choices":[],"x":"abort"}`: false,
		`"abort"`:                    false,
	} {
		if got := abortedWhole(APIChat, []byte(body)); got != want {
			t.Errorf("%s: got %t, want %t", body, got, want)
		}
	}
	if abortedWhole(APIResponses, []byte(`{"choices":[{"text":"","finish_reason":"abort"}]}`)) {
		t.Error("the responses surface has no choices")
	}
}

// The messages surface has no word for an abort: no content, no tokens, and no reason
// that it knows.
func TestAbortedMessages(t *testing.T) {
	const (
		start   = "event: message_start\n" + `data: {"type":"message_start","message":{"id":"x","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":0}}}` + "\n\n"
		ping    = "event: ping\n" + `data: {"type":"ping"}` + "\n\n"
		block   = "event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n"
		nothing = "event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":null},"usage":{"input_tokens":9,"output_tokens":0}}` + "\n\n"
		ended   = "event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}` + "\n\n"
		untold  = "event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n\n"
		failed  = "event: error\n" + `data: {"type":"error","error":{"type":"api_error","message":"abort"}}` + "\n\n"
	)
	for _, c := range []struct {
		name, said    string
		aborted, more bool
	}{
		{"only the announcement", start + ping, false, true},
		{"aborted", start + nothing, true, false},
		{"a block", start + block, false, false},
		{"ended at once by itself", start + ended, false, false},
		{"no count", start + untold, false, false},
		{"a failure", start + failed, false, false},
	} {
		if aborted, more := beginsAborted(t, APIMessages, c.said); aborted != c.aborted || more != c.more {
			t.Errorf("%s: aborted %t, more %t; want %t, %t", c.name, aborted, more, c.aborted, c.more)
		}
	}
	for body, want := range map[string]bool{
		`{"type":"message","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":0}}`:                               true,
		`{"type":"message","content":[{"type":"text","text":""}],"stop_reason":"end_turn","usage":{"output_tokens":0}}`:                 true,
		`{"type":"message","content":[{"type":"thinking","thinking":""}],"stop_reason":null,"usage":{"output_tokens":0}}`:               true,
		`{"type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"output_tokens":0}}`:               false,
		`{"type":"message","content":[{"type":"tool_use","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"output_tokens":0}}`: false,
		`{"type":"message","content":[],"stop_reason":"end_turn","usage":{"output_tokens":1}}`:                                          false,
		`{"type":"error","error":{"type":"api_error","message":"abort"}}`:                                                               false,
	} {
		if got := abortedWhole(APIMessages, []byte(body)); got != want {
			t.Errorf("%s: got %t, want %t", body, got, want)
		}
	}
}

// So has the responses surface none: it calls such a response completed.
func TestAbortedResponses(t *testing.T) {
	event := func(kind, rest string) string {
		return "event: " + kind + "\n" + `data: {"type":"` + kind + `",` + rest + "}\n\n"
	}
	var (
		created = event("response.created", `"response":{"id":"r","status":"in_progress","output":[],"usage":null}`) +
			event("response.in_progress", `"response":{"id":"r","status":"in_progress","output":[],"usage":null}`)
		item    = event("response.output_item.added", `"item":{"type":"message","content":[],"role":"assistant"}`)
		part    = event("response.content_part.added", `"part":{"type":"output_text","text":""}`)
		empty   = event("response.output_text.delta", `"delta":""`)
		token   = event("response.output_text.delta", `"delta":" t"`)
		call    = event("response.output_item.added", `"item":{"type":"function_call","name":"f","arguments":""}`)
		textEnd = event("response.output_text.done", `"text":""`)
		nothing = event("response.completed", `"response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":""}]}],"usage":{"input_tokens":9,"output_tokens":0}}`)
		ended   = event("response.completed", `"response":{"status":"completed","output":[],"usage":{"input_tokens":9,"output_tokens":1}}`)
		failed  = event("response.failed", `"response":{"status":"failed","output":[],"usage":{"output_tokens":0}}`)
	)
	for _, c := range []struct {
		name, said    string
		aborted, more bool
	}{
		{"only the announcement", created, false, true},
		{"an empty item", created + item + part + empty, false, true},
		{"aborted at once", created + nothing, true, false},
		{"aborted with an empty item", created + item + part + empty + textEnd + nothing, true, false},
		{"a token", created + item + part + token, false, false},
		{"a call", created + call, false, false},
		{"ended at once by itself", created + ended, false, false},
		{"a failure", created + failed, false, false},
		{"the type in the data alone", `data: {"type":"response.output_text.delta","delta":" t"}` + "\n\n", false, false},
	} {
		if aborted, more := beginsAborted(t, APIResponses, c.said); aborted != c.aborted || more != c.more {
			t.Errorf("%s: aborted %t, more %t; want %t, %t", c.name, aborted, more, c.aborted, c.more)
		}
	}
	for body, want := range map[string]bool{
		`{"object":"response","status":"completed","output":[],"usage":{"output_tokens":0}}`:                                            true,
		`{"object":"response","status":"cancelled","output":[{"type":"reasoning","content":[]}],"usage":{"output_tokens":0}}`:           true,
		`{"object":"response","status":"completed","output":[{"type":"function_call","name":"f"}],"usage":{"output_tokens":0}}`:         false,
		`{"object":"response","status":"completed","output":[{"type":"message","content":[{"text":"x"}]}],"usage":{"output_tokens":0}}`: false,
		`{"object":"response","status":"queued","output":[],"usage":null}`:                                                              false,
		`{"object":"response","status":"completed","output":[],"usage":{"output_tokens":3}}`:                                            false,
	} {
		if got := abortedWhole(APIResponses, []byte(body)); got != want {
			t.Errorf("%s: got %t, want %t", body, got, want)
		}
	}
}
