package wire

import "testing"

// TestIdentifyEachMember reads the fields of the body that have several names, and those
// that stand in one object with others.
func TestIdentifyEachMember(t *testing.T) {
	const v = "value-0000000000000"
	claude := `"user_id":"{\"session_id\":\"` + s1 + `\"}"`
	for _, tc := range []struct {
		body   string
		source Source
		key    string
	}{
		{`{"conversation":"` + v + `"}`, SourceConversation, v},
		{`{"metadata":{"session_id":"` + v + `"}}`, SourceMetadata, v},
		{`{"metadata":{"sessionId":"` + v + `"}}`, SourceMetadata, v},
		{`{"metadata":{"conversation_id":"` + v + `"}}`, SourceMetadata, v},
		{`{"metadata":{"chat_id":"` + v + `"}}`, SourceMetadata, v},
		{`{"metadata":{"thread_id":"` + v + `"}}`, SourceMetadata, v},
		{`{"metadata":{"thread_id":"other-0000000000000","session_id":"` + v + `"}}`, SourceMetadata, v},
		{`{"metadata":{"session_id":"` + v + `",` + claude + `}}`, SourceClaudeMetadata, s1},
		{`{"session_id":"` + v + `","metadata":{` + claude + `}}`, SourceClaudeMetadata, s1},
		{`{"client_metadata":{"session_id":"` + t1 + `"},"metadata":{` + claude + `}}`, SourceClientMetadata, t1},
		{`{"client_metadata":{"session_id":"` + t1 + `","thread_id":"` + t2 + `"}}`, SourceClientMetadata, t2},
		{`{"session_params":{"session_id":"` + v + `","id":"no"}}`, SourceSessionParams, v},
	} {
		if got := identify(t, APIResponses, tc.body); got.Source != tc.source || got.Key != "id:"+tc.key {
			t.Errorf("%s: %v, %q; want %v, %q", tc.body, got.Source, got.Key, tc.source, tc.key)
		}
	}
	// Of headers: ours, then those of other routers, then Claude Code's, then Codex's.
	all := []string{"x-lmwarden-session-id", "own-0000000000000", "x-further", "further-0000000000", "x-claude-code-session-id", s1, "thread-id", t1, "session-id", t1, "x-amp-thread-id", v}
	for i, want := range []Source{SourceOwn, SourceExtra, SourceClaudeHeader, SourceCodexThread} {
		o := Options{ExtraHeaders: []string{"X-Further"}}
		if got := Identify(APIChat, heads(all[2*i:]...), mustScan(t, `{}`), o); got.Source != want {
			t.Errorf("%q: %v, want %v", all[2*i:], got.Source, want)
		}
	}
}
