package wire

import (
	"strings"
	"testing"
)

func TestSideCalls(t *testing.T) {
	tools := `"tools":[{"name":"Bash"}],`
	for _, tc := range []struct {
		name    string
		api     API
		body    string
		headers []string
		want    Kind
	}{
		{"title", APIMessages, `{"system":[{"type":"text","text":"Generate a concise, sentence-case title"}],"messages":[{"role":"user","content":"fix the bug"}]}`, nil, KindSide},
		{"title of old", APIMessages, `{"system":"Analyze if this message indicates a new conversation topic.","messages":[{"role":"user","content":"x"}]}`, nil, KindSide},
		{"title with tools is a turn", APIMessages, `{` + tools + `"system":"a sentence-case title","messages":[{"role":"user","content":"x"}]}`, nil, KindMain},
		{"shell prefix check", APIMessages, `{"messages":[{"role":"user","content":"<policy_spec>..</policy_spec>\n\nCommand: ls"}]}`, nil, KindSide},
		{"path extraction", APIMessages, `{"messages":[{"role":"user","content":"Command: ls\nOutput: a b"}]}`, nil, KindSide},
		{"classifier", APIMessages, `{"system":"Answer <block>yes</block>","messages":[{"role":"user","content":"<transcript>..</transcript>"},{"role":"assistant","content":"x"}]}`, nil, KindSide},
		{"suggestion after a whole history", APIMessages, `{` + tools + `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"[SUGGESTION MODE: suggest what]"}]}`, nil, KindSide},
		{"a suggestion long ago is a turn", APIMessages, `{` + tools + `"messages":[{"role":"user","content":"[SUGGESTION MODE: x]"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`, nil, KindMain},
		{"quota with more than a token", APIMessages, `{"max_tokens":32000,"messages":[{"role":"user","content":"what is my quota"}]}`, nil, KindMain},
		{"quota within a conversation", APIMessages, `{"max_tokens":1,"messages":[{"role":"user","content":"quota"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`, nil, KindMain},
		{"a plain turn", APIMessages, `{"messages":[{"role":"user","content":"hello"}]}`, nil, KindMain},
		{"the class header decides", APIMessages, `{` + tools + `"messages":[{"role":"user","content":"hello"}]}`, []string{"x-claude-code-request-class", "auxiliary"}, KindSide},
		{"the class header overrules a shape", APIMessages, `{"max_tokens":1,"messages":[{"role":"user","content":"quota"}]}`, []string{"x-claude-code-request-class", "main"}, KindMain},
		{"token count", APICountTokens, `{"messages":[{"role":"user","content":"hello"}]}`, nil, KindSide},
		{"another client's shape", APIChat, `{"max_tokens":1,"messages":[{"role":"user","content":"quota"}]}`, nil, KindMain},
		{"title on chat", APIChat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"Generate a title for this conversation:\n"},{"role":"user","content":"x"}]}`, nil, KindSide},
		{"task on chat", APIChat, `{"messages":[{"role":"user","content":[{"type":"text","text":"### Task:\nGenerate tags"}]}]}`, nil, KindSide},
		{"a conversation that begins like a title", APIChat, `{"messages":[{"role":"user","content":"Generate a title for my talk"},{"role":"assistant","content":"b"},{"role":"user","content":"shorter"}]}`, nil, KindMain},
		{"a conversation that begins like a task", APIChat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"### Task: refactor"},{"role":"assistant","content":"b"},{"role":"user","content":"more"}]}`, nil, KindMain},
		{"a task with the beginning of its answer", APIChat, `{"messages":[{"role":"user","content":"### Task:\nGenerate tags"},{"role":"assistant","content":"{"}]}`, nil, KindSide},
		{"a conversation about a transcript", APIMessages, `{"system":"x","messages":[{"role":"user","content":"sum up <transcript>..</transcript>, block by block"},{"role":"assistant","content":"x"},{"role":"user","content":"shorter"}]}`, nil, KindMain},
		{"Codex memory", APIResponses, `{"input":[]}`, []string{"x-codex-turn-metadata", `{"request_kind":"memory"}`}, KindSide},
		{"Codex memory in the body", APIResponses, `{"input":[],"client_metadata":{"x-codex-turn-metadata":"{\"request_kind\":\"memory\"}"}}`, nil, KindSide},
		{"Codex prewarm makes the pin", APIResponses, `{"input":[]}`, []string{"x-codex-turn-metadata", `{"request_kind":"prewarm"}`}, KindMain},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := append([]string{"x-claude-code-session-id", s1}, tc.headers...)
			if got := identify(t, tc.api, tc.body, h...); got.Kind != tc.want || got.Key != "id:"+s1 {
				t.Errorf("got %v %q, want %v", got.Kind, got.Key, tc.want)
			}
		})
	}
}

func TestSideShapesNeedAConversation(t *testing.T) {
	if got := identify(t, APIMessages, `{"max_tokens":1,"messages":[{"role":"user","content":"quota"}]}`); got.Kind != KindMain || got.Key != "" {
		t.Errorf("got %+v", got)
	}
}

func TestOneShotIsASideCall(t *testing.T) {
	if got := identify(t, APIChat, `{}`, "x-opencode-session", "oneshot-0123456789abcdef"); got.Kind != KindSide {
		t.Errorf("got %+v", got)
	}
}

func TestCompaction(t *testing.T) {
	for name, h := range map[string][]string{
		"Claude Code":       {"x-claude-code-session-id", s1, "x-claude-code-compaction", "auto"},
		"Claude Code class": {"x-claude-code-session-id", s1, "x-claude-code-request-class", "compaction"},
		"Codex":             {"session-id", t1, "thread-id", t1, "x-openai-subagent", "compact"},
		"Codex turn":        {"session-id", t1, "thread-id", t1, "x-codex-turn-metadata", `{"request_kind":"compaction"}`},
		"DeepSeek":          {"x-deepseek-harness-session-id", s1, "x-deepseek-harness-compact", "1"},
	} {
		if got := identify(t, APIResponses, `{}`, h...); !got.Compaction || got.Kind != KindMain {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := identify(t, APIMessages, `{}`, "x-claude-code-session-id", s1, "x-claude-code-context-compacted", "auto"); !got.Compacted || got.Compaction {
		t.Errorf("after it: %+v", got)
	}
}

func TestKindNames(t *testing.T) {
	if got := strings.Join([]string{KindMain.String(), KindAgent.String(), KindSide.String()}, " "); got != "main agent side" {
		t.Error(got)
	}
}

func TestAPIOf(t *testing.T) {
	for _, tc := range []struct {
		method, path string
		want         API
	}{
		{"POST", "/v1/chat/completions", APIChat},
		{"GET", "/v1/chat/completions", APIOther},
		{"POST", "/v1/completions", APICompletions},
		{"POST", "/v1/responses", APIResponses},
		{"GET", "/v1/responses/resp_1", APIResponseGet},
		{"POST", "/v1/responses/resp_1/cancel", APIResponseCancel},
		{"POST", "/v1/responses/resp_1", APIOther},
		{"GET", "/v1/responses/", APIOther},
		{"GET", "/v1/responses/a/b", APIOther},
		{"POST", "/v1/responses//cancel", APIOther},
		{"POST", "/v1/messages", APIMessages},
		{"POST", "/v1/messages/count_tokens", APICountTokens},
		{"POST", "/v1/embeddings", APIEmbeddings},
		{"POST", "/v1/rerank", APIRerank},
		{"POST", "/v2/rerank", APIRerank},
		{"POST", "/v1/score", APIScore},
		{"POST", "/tokenize", APITokenize},
		{"POST", "/detokenize", APIDetokenize},
		{"POST", "/v1/audio/transcriptions", APIAudio},
		{"GET", "/v1/models", APIModels},
		{"GET", "/v1/models/org/name", APIModels},
		{"HEAD", "/", APIProbe},
		{"HEAD", "/api/hello", APIProbe},
		{"POST", "/api/hello", APIOther},
		{"GET", "/metrics", APIOther},
	} {
		if got := APIOf(tc.method, tc.path); got != tc.want {
			t.Errorf("%s %s: %v, want %v", tc.method, tc.path, got, tc.want)
		}
	}
	seen := map[string]bool{}
	for a := range NumAPIs {
		if a.String() == "" || seen[a.String()] {
			t.Errorf("API %d: name %q is empty or taken", a, a)
		}
		seen[a.String()] = true
	}
	for path, want := range map[string]string{"/v1/responses/r1": "r1", "/v1/responses/r1/cancel": "r1", "/v1/responses/r1/x": "", "/v1/models": ""} {
		if got := ResponseID(path); got != want {
			t.Errorf("ResponseID(%q) = %q, want %q", path, got, want)
		}
	}
}
