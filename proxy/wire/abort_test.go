package wire

import "testing"

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
		{"another surface", APIMessages, role + abort, false, false},
	} {
		if aborted, more := Aborted(c.api, []byte(c.said)); aborted != c.aborted || more != c.more {
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
		if got := AbortedWhole(APIChat, []byte(body)); got != want {
			t.Errorf("%s: got %t, want %t", body, got, want)
		}
	}
	if AbortedWhole(APIResponses, []byte(`{"choices":[{"text":"","finish_reason":"abort"}]}`)) {
		t.Error("the responses surface has no choices")
	}
}
