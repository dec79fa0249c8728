package wire

import (
	"net/http"
	"strings"
	"testing"
)

const (
	s1 = "3f2b8c1e-5a4d-4f60-9b7a-0c1d2e3f4a5b"
	t1 = "01a00000-0000-7000-8000-000000000001"
	t2 = "01a00000-0000-7000-8000-000000000002"
)

// heads makes headers of name, value pairs.
func heads(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// identify runs Identify with the default options.
func identify(t testing.TB, api API, body string, pairs ...string) Identity {
	t.Helper()
	return Identify(api, heads(pairs...), mustScan(t, body), Options{})
}

// TestIdentifyExamples are the ten requests with an id, as real clients send them.
func TestIdentifyExamples(t *testing.T) {
	hi := `"messages":[{"role":"user","content":"hi"}]`
	for _, tc := range []struct {
		name    string
		api     API
		headers []string
		body    string
		want    Identity
	}{
		{
			"Claude Code, main turn", APIMessages,
			[]string{"x-claude-code-session-id", s1},
			`{"model":"m",` + hi + `,"metadata":{"user_id":"{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"` + s1 + `\"}"}}`,
			Identity{Key: "id:" + s1, Group: "id:" + s1, Source: SourceClaudeHeader},
		},
		{
			"Claude Code, subagent", APIMessages,
			[]string{"x-claude-code-session-id", s1, "x-claude-code-agent-id", "a17"},
			`{"model":"m","system":"You are Explore","messages":[{"role":"user","content":"find x"}]}`,
			Identity{Key: "id:" + s1 + "/a:a17", Group: "id:" + s1, Parent: "id:" + s1, Kind: KindAgent, Source: SourceClaudeHeader},
		},
		{
			"Claude Code of old, no header", APIMessages, nil,
			`{"model":"m",` + hi + `,"metadata":{"user_id":"user_` + strings.Repeat("0f", 32) + `_account__session_` + s1 + `"}}`,
			Identity{Key: "id:" + s1, Group: "id:" + s1, Source: SourceClaudeMetadata},
		},
		{
			"Claude Code, header lost on the way", APIMessages, nil,
			`{"model":"m",` + hi + `,"metadata":{"user_id":"{\"session_id\":\"` + s1 + `\"}"}}`,
			Identity{Key: "id:" + s1, Group: "id:" + s1, Source: SourceClaudeMetadata},
		},
		{
			"Claude Code, quota probe", APIMessages,
			[]string{"x-claude-code-session-id", s1},
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"quota"}]}`,
			Identity{Key: "id:" + s1, Group: "id:" + s1, Kind: KindSide, Source: SourceClaudeHeader},
		},
		{
			"Codex, root", APIResponses,
			[]string{"session-id", t1, "thread-id", t1, "x-client-request-id", t1},
			`{"model":"m","stream":true,"input":[],"prompt_cache_key":"` + t1 + `"}`,
			Identity{Key: "id:" + t1, Group: "id:" + t1, Source: SourceCodexThread},
		},
		{
			"Codex, spawned agent", APIResponses,
			[]string{"session-id", t1, "thread-id", t2, "x-codex-parent-thread-id", t1, "x-openai-subagent", "collab_spawn"},
			`{"model":"m","stream":true,"input":[],"prompt_cache_key":"` + t1 + `"}`,
			Identity{Key: "id:" + t2, Group: "id:" + t1, Parent: "id:" + t1, Kind: KindAgent, Source: SourceCodexThread},
		},
		{
			"Codex, all headers lost", APIResponses, nil,
			`{"model":"m","stream":true,"input":[],"prompt_cache_key":"` + t1 + `"}`,
			Identity{Key: "id:" + t1, Group: "id:" + t1, Source: SourcePromptCacheKey},
		},
		{
			"OpenCode, subtask", APIChat,
			[]string{"x-session-affinity", "ses_child0000000001", "X-Session-Id", "ses_child0000000001", "x-parent-session-id", "ses_root00000000001"},
			`{"model":"m","messages":[{"role":"user","content":"go"}]}`,
			Identity{Key: "id:ses_child0000000001", Group: "id:ses_root00000000001", Parent: "id:ses_root00000000001", Kind: KindAgent, Source: SourceSessionAffinity},
		},
		{
			"only a cache key", APIChat, nil,
			`{"model":"m","prompt_cache_key":"thread-9b1c2d3e4f50",` + hi + `}`,
			Identity{Key: "id:thread-9b1c2d3e4f50", Group: "id:thread-9b1c2d3e4f50", Source: SourcePromptCacheKey},
		},
		{
			"Open WebUI", APIChat,
			[]string{"X-OpenWebUI-Chat-Id", "7c0e0a52-1111-4222-8333-944455566677", "X-OpenWebUI-User-Id", "u1"},
			`{"model":"m",` + hi + `}`,
			Identity{Key: "id:7c0e0a52-1111-4222-8333-944455566677", Group: "id:7c0e0a52-1111-4222-8333-944455566677", Source: SourceOpenWebUI},
		},
		{
			"only ids of requests and users", APIChat,
			[]string{"X-Request-Id", "r-1", "x-client-request-id", "0d9c0000-0000-4000-8000-000000000000", "traceparent", "00-0-0-0", "X-User-Id", "u", "X-Correlation-Id", "c"},
			`{"model":"m","user":"alice","safety_identifier":"s",` + hi + `}`,
			Identity{},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := identify(t, tc.api, tc.body, tc.headers...); got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestIdentifyRefuses(t *testing.T) {
	for _, tc := range []struct {
		name    string
		headers []string
		body    string
	}{
		{"a bare user", nil, `{"metadata":{"user_id":"user_123"}}`},
		{"a user of another client", nil, `{"metadata":{"user_id":"64b7f0c2a9e14d0012345678"}}`},
		{"null in a header", []string{"X-Session-Id", "null"}, `{}`},
		{"Undefined", []string{"X-Session-Id", " Undefined "}, `{}`},
		{"zero", []string{"X-Session-Id", "0"}, `{}`},
		{"nothing", []string{"X-Session-Id", "  "}, `{}`},
		{"a template", []string{"X-Session-Id", "{{LIBRECHAT_BODY_CONVERSATIONID}}"}, `{}`},
		{"a shell variable", []string{"X-Session-Id", "$SESSION"}, `{}`},
		{"a braced variable", []string{"X-Session-Id", "${SESSION_IDENTIFIER}"}, `{}`},
		{"an address of another router", []string{"X-Session-Id", "MTAuMC4wLjE6ODAwMA=="}, `{}`},
		{"thread-id of nobody known", []string{"thread-id", t1}, `{}`},
		{"a number", nil, `{"session_id":7,"prompt_cache_key":null,"conversation":[]}`},
		{"default in the body", nil, `{"prompt_cache_key":"default"}`},
		{"per-request ids of clients", []string{"x-opencode-request", t1, "x-amp-message-id", t1, "x-claude-code-prompt-id", t1, "x-trace-id", t1}, `{"metadata":{"promptId":"` + t1 + `"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := identify(t, APIChat, tc.body, tc.headers...); got.Key != "" || got.Source != SourceNone || got.Group != "" {
				t.Errorf("got %+v, want no conversation", got)
			}
		})
	}
}

func TestIdentifyTwoValuesOfOneHeader(t *testing.T) {
	got := identify(t, APIChat, `{"prompt_cache_key":"thread-9b1c2d3e4f50"}`, "x-session-id", "one-0000000000000", "x-session-id", "two-0000000000000")
	if got.Source != SourcePromptCacheKey || got.Conflicts != 1 {
		t.Errorf("different values: %+v", got)
	}
	got = identify(t, APIChat, `{}`, "x-session-id", "one-0000000000000", "x-session-id", " one-0000000000000 ")
	if got.Key != "id:one-0000000000000" || got.Conflicts != 0 {
		t.Errorf("equal values: %+v", got)
	}
}

func TestIdentifyHashesWhatIsNoPlainValue(t *testing.T) {
	for _, v := range []string{strings.Repeat("x", 10<<10), strings.Repeat("y", 257), "Gespräch"} {
		got := identify(t, APIChat, `{}`, "x-session-id", v)
		if len(got.Key) != len("id:")+64 || strings.Contains(got.Key, v) {
			t.Errorf("%.20q: key %q", v, got.Key)
		}
		if again := identify(t, APIChat, `{}`, "x-session-id", v); again.Key != got.Key {
			t.Errorf("%.20q: two keys", v)
		}
		if other := identify(t, APIChat, `{}`, "x-session-id", v+"z"); other.Key == got.Key {
			t.Errorf("%.20q: one key for two values", v)
		}
	}
	if got := identify(t, APIChat, `{}`, "x-session-id", strings.Repeat("x", 256)); got.Key != "id:"+strings.Repeat("x", 256) {
		t.Errorf("256 bytes are taken as they are, got %.40q", got.Key)
	}
}

func TestIdentifyNamespaces(t *testing.T) {
	short := identify(t, APIChat, `{}`, "agent-session-id", "20260809_29")
	if short.Key != "agent-session-id:20260809_29" || short.Source != SourceAgentSession {
		t.Errorf("a short value keeps its source: %+v", short)
	}
	if other := identify(t, APIChat, `{}`, "x-session-id", "20260809_29"); other.Key == short.Key {
		t.Error("short values of two sources share a key")
	}
	a := identify(t, APIChat, `{}`, "x-session-id", "ses_0123456789abcdef")
	b := identify(t, APIChat, `{"prompt_cache_key":"ses_0123456789abcdef"}`)
	if a.Key != b.Key {
		t.Errorf("a long value has one key from every source: %q, %q", a.Key, b.Key)
	}
}

func TestIdentifyOrder(t *testing.T) {
	// Each source is alone better than all after it.
	steps := []struct {
		source Source
		header [2]string
		member string
	}{
		{SourceOwn, [2]string{"x-lmwarden-session-id"}, ""},
		{SourceClaudeHeader, [2]string{"x-claude-code-session-id"}, ""},
		{SourceAmp, [2]string{"x-amp-thread-id"}, ""},
		{SourceOpencode, [2]string{"x-opencode-session"}, ""},
		{SourceDeepseek, [2]string{"x-deepseek-harness-session-id"}, ""},
		{SourceGrokConv, [2]string{"x-grok-conv-id"}, ""},
		{SourceGrokSession, [2]string{"x-grok-session-id"}, ""},
		{SourceOpenWebUI, [2]string{"X-OpenWebUI-Chat-Id"}, ""},
		{SourceOpenclaw, [2]string{"x-openclaw-session-key"}, ""},
		{SourceSessionAffinity, [2]string{"x-session-affinity"}, ""},
		{SourceXSessionID, [2]string{"x-session-id"}, ""},
		{SourceSessionID, [2]string{"session-id"}, ""},
		{SourceSessionUnderscore, [2]string{"session_id"}, ""},
		{SourceXAffinity, [2]string{"x-affinity"}, ""},
		{SourceAgentSession, [2]string{"agent-session-id"}, ""},
		{SourceXConversation, [2]string{"x-conversation-id"}, ""},
		{SourceConversationUnderscore, [2]string{"conversation_id"}, ""},
		{SourceConversationHeader, [2]string{"conversation-id"}, ""},
		{SourceXChat, [2]string{"x-chat-id"}, ""},
		{SourceXThread, [2]string{"x-thread-id"}, ""},
		{SourceConversation, [2]string{}, `"conversation":{"id":"VALUE"}`},
		{SourceClientMetadata, [2]string{}, `"client_metadata":{"thread_id":"VALUE"}`},
		{SourceBodySession, [2]string{}, `"session_id":"VALUE"`},
		{SourceMetadata, [2]string{}, `"metadata":{"chat_id":"VALUE"}`},
		{SourceLitellm, [2]string{}, `"litellm_session_id":"VALUE"`},
		{SourceSessionParams, [2]string{}, `"session_params":{"session_id":"VALUE"}`},
		{SourcePromptCacheKey, [2]string{}, `"prompt_cache_key":"VALUE"`},
	}
	for i, first := range steps {
		h, members := http.Header{}, []string{`"model":"m"`}
		for n, s := range steps[i:] {
			value := "value-number-00000" + string(rune('a'+n))
			if s.header[0] != "" {
				h.Set(s.header[0], value)
			} else {
				members = append(members, strings.ReplaceAll(s.member, "VALUE", value))
			}
		}
		got := Identify(APIChat, h, mustScan(t, "{"+strings.Join(members, ",")+"}"), Options{})
		if got.Source != first.source || got.Key != "id:value-number-00000a" {
			t.Errorf("step %d: source %v, key %q, want %v", i, got.Source, got.Key, first.source)
		}
	}
}

func TestIdentifyOptions(t *testing.T) {
	body := `{"user":"alice-0000000000000","safety_identifier":"safe-0000000000000","metadata":{"user_id":"meta-0000000000000"}}`
	h := heads("X-User-Id", "head-0000000000000", "X-Correlation-Id", "corr-0000000000000", "X-Dynamo-Session-Id", "dyna-0000000000000", "X-Mine", "mine-0000000000000")
	for _, tc := range []struct {
		o      Options
		source Source
		key    string
	}{
		{Options{}, SourceNone, ""},
		{Options{User: true, Safety: true}, SourceUser, "id:alice-0000000000000"},
		{Options{Safety: true}, SourceSafety, "id:safe-0000000000000"},
		{Options{MetadataUser: true}, SourceMetadataUser, "id:meta-0000000000000"},
		{Options{UserHeader: true}, SourceUserHeader, "id:head-0000000000000"},
		{Options{Correlation: true}, SourceCorrelation, "id:corr-0000000000000"},
		{Options{ExtraHeaders: []string{"x-dynamo-session-id"}, User: true}, SourceExtra, "id:dyna-0000000000000"},
		{Options{ClientIP: true, Client: "10.0.0.7:41234"}, SourceClientIP, "client-ip:10.0.0.7"},
		{Options{ClientIP: true, Client: "[::ffff:10.0.0.7]:9"}, SourceClientIP, "client-ip:10.0.0.7"},
		{Options{ClientIP: true, Client: "[2001:db8::1]:9"}, SourceClientIP, "client-ip:2001:db8::1"},
		{Options{ClientIP: true, Client: "@"}, SourceNone, ""},
		{Options{Client: "10.0.0.7:41234"}, SourceNone, ""},
		{Options{ClientIP: true, Client: "10.0.0.7:41234", Correlation: true}, SourceCorrelation, "id:corr-0000000000000"},
		{Options{Header: "x-mine"}, SourceOwn, "id:mine-0000000000000"},
	} {
		got := Identify(APIChat, h, mustScan(t, body), tc.o)
		if got.Source != tc.source || got.Key != tc.key {
			t.Errorf("%+v: %v %q", tc.o, got.Source, got.Key)
		}
	}
}

func TestIdentifyOwnHeaderWithParent(t *testing.T) {
	got := identify(t, APIMessages, `{}`,
		"x-lmwarden-session-id", t2, "x-lmwarden-parent-session-id", t1, "x-claude-code-session-id", s1)
	want := Identity{Key: "id:" + t2, Group: "id:" + t1, Parent: "id:" + t1, Kind: KindAgent, Source: SourceOwn}
	if got != want {
		t.Errorf("got %+v", got)
	}
}

func TestIdentifyClaudeNestedAgent(t *testing.T) {
	got := identify(t, APIMessages, `{"metadata":{"user_id":"{\"session_id\":\"`+s1+`\"}"}}`,
		"x-claude-code-agent-id", "b2", "x-claude-code-parent-agent-id", "a1")
	want := Identity{Key: "id:" + s1 + "/a:b2", Group: "id:" + s1, Parent: "id:" + s1 + "/a:a1", Kind: KindAgent, Source: SourceClaudeMetadata}
	if got != want {
		t.Errorf("got %+v", got)
	}
}

// Every subagent is told apart, whatever it is called: a member of a team has a name.
func TestClaudeAgentNames(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"default", "0", "none", strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("a", 300), "プラン"} {
		got := identify(t, APIMessages, `{}`, "x-claude-code-session-id", s1, "x-claude-code-agent-id", name)
		if got.Kind != KindAgent || !strings.HasPrefix(got.Key, "id:"+s1+"/a:") || len(got.Key) > 200 || seen[got.Key] != "" {
			t.Errorf("%q: got %+v, which is also that of %q", name, got, seen[got.Key])
		}
		seen[got.Key] = name
	}
	for _, name := range []string{"", " ", "null", "undefined", "{{AGENT}}"} {
		if got := identify(t, APIMessages, `{}`, "x-claude-code-session-id", s1, "x-claude-code-agent-id", name); got.Kind != KindMain || got.Key != "id:"+s1 {
			t.Errorf("%q: got %+v, want the session", name, got)
		}
	}
}

func TestIdentifyCodexFromTheBody(t *testing.T) {
	turn := `"{\"session_id\":\"` + t1 + `\",\"thread_id\":\"` + t2 + `\",\"parent_thread_id\":\"` + t1 + `\",\"request_kind\":\"turn\"}"`
	for _, meta := range []string{
		`{"session_id":"` + t1 + `","thread_id":"` + t2 + `","x-codex-parent-thread-id":"` + t1 + `"}`,
		`{"x-codex-turn-metadata":` + turn + `}`,
	} {
		got := identify(t, APIResponses, `{"client_metadata":`+meta+`,"prompt_cache_key":"`+t1+`"}`)
		want := Identity{Key: "id:" + t2, Group: "id:" + t1, Parent: "id:" + t1, Kind: KindAgent, Source: SourceClientMetadata}
		if got != want {
			t.Errorf("%s: got %+v", meta, got)
		}
	}
}

func TestIdentifyBelievesAThreadOfCodexOnly(t *testing.T) {
	for _, sign := range [][2]string{
		{"originator", "codex_exec"},
		{"x-codex-window-id", t1 + ":0"},
		{"x-codex-anything", "1"},
		{"x-client-request-id", t1},
		{"session-id", t1},
	} {
		if got := identify(t, APIResponses, `{}`, "thread-id", t1, sign[0], sign[1]); got.Source != SourceCodexThread {
			t.Errorf("with %s: %+v", sign[0], got)
		}
	}
	if got := identify(t, APIResponses, `{}`, "thread-id", t1, "x-client-request-id", t2); got.Key != "" {
		t.Errorf("with another request id: %+v", got)
	}
}

func TestIdentifyPreviousResponse(t *testing.T) {
	got := identify(t, APIResponses, `{"previous_response_id":"resp_96bfc9ed4e67321f","input":"more"}`)
	if got.PreviousResponse != "resp_96bfc9ed4e67321f" || got.Source != SourcePreviousResponse || got.Key != "" {
		t.Errorf("alone: %+v", got)
	}
	got = identify(t, APIResponses, `{"previous_response_id":"resp_96bfc9ed4e67321f","conversation":"conv_0123456789abcdef"}`)
	if got.PreviousResponse == "" || got.Key != "id:conv_0123456789abcdef" || got.Source != SourceConversation {
		t.Errorf("with a conversation: %+v", got)
	}
}

func TestIdentifyPiSendsItsSessionAsRequestID(t *testing.T) {
	if got := identify(t, APIChat, `{}`, "User-Agent", "pi/0.60.1 (linux)", "x-client-request-id", t1); got.Key != "id:"+t1 || got.Source != SourcePiRequest {
		t.Errorf("pi: %+v", got)
	}
	if got := identify(t, APIChat, `{}`, "User-Agent", "pipeline/1", "x-client-request-id", t1); got.Key != "" {
		t.Errorf("another client: %+v", got)
	}
}

func TestIdentifyWithoutBody(t *testing.T) {
	if got := Identify(APIModels, nil, new(Scan), Options{}); got.Key != "" || got.Kind != KindSide {
		t.Errorf("got %+v", got)
	}
}

func TestHashIsScoped(t *testing.T) {
	base := Hash("tenant", "model", "id:x")
	if base != Hash("tenant", "model", "id:x") {
		t.Error("not stable")
	}
	if base == ([16]byte{}) {
		t.Error("zero")
	}
	for _, other := range [][3]string{
		{"tenant2", "model", "id:x"},
		{"tenant", "model2", "id:x"},
		{"tenant", "model", "id:y"},
		{"tenantm", "odel", "id:x"},
		{"tenant", "modeli", "d:x"},
		{"", "tenantmodel", "id:x"},
	} {
		if Hash(other[0], other[1], other[2]) == base {
			t.Errorf("%q has the same hash", other)
		}
	}
}

func TestSourcesAreAClosedSetOfNames(t *testing.T) {
	seen := map[string]bool{}
	for s := range NumSources {
		name := s.String()
		if name == "" || seen[name] {
			t.Errorf("source %d: name %q is empty or taken", s, name)
		}
		seen[name] = true
	}
	if NumSources.String() != "none" {
		t.Error("a number outside the set has a name of its own")
	}
}

func BenchmarkIdentify(b *testing.B) {
	h := heads("x-claude-code-session-id", s1, "x-claude-code-agent-id", "a17", "User-Agent", "claude-cli/2.1.197 (external, cli)",
		"Authorization", "Bearer x", "Anthropic-Version", "2023-06-01", "Anthropic-Beta", "a,b,c", "Content-Type", "application/json",
		"Accept", "application/json", "Accept-Encoding", "gzip", "X-Stainless-Retry-Count", "0", "X-Stainless-Timeout", "600", "Content-Length", "76000")
	s := mustScan(b, strings.Replace(string(chatBody(300<<10, true)), "{", `{"tools":[{"name":"Bash"}],`, 1))
	b.ReportAllocs()
	for b.Loop() {
		id := Identify(APIMessages, h, s, Options{})
		_ = Hash("tenant", "model", id.Key)
	}
}
