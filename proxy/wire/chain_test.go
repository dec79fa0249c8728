package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// chainOf builds the chain of a body.
func chainOf(t testing.TB, api API, body string) Chain {
	t.Helper()
	return BuildChain(nil, api, mustScan(t, body), "tenant", "m")
}

// last returns the hash over all messages.
func (c Chain) last() uint64 { return c.Hashes[len(c.Hashes)-1] }

const (
	helper = `{"role":"system","content":"You are a helper."}`
	hiUser = `{"role":"user","content":"hi"}`
	hello  = `{"role":"assistant","content":"Hello"}`
	more   = `{"role":"user","content":"more"}`
)

// chat makes a chat body of messages.
func chat(messages ...string) string {
	return `{"model":"m","user":"alice","messages":[` + strings.Join(messages, ",") + `]}`
}

// TestChainOfTwoTurns is the conversation of a client without any id.
func TestChainOfTwoTurns(t *testing.T) {
	one, two := chainOf(t, APIChat, chat(helper, hiUser)), chainOf(t, APIChat, chat(helper, hiUser, hello, more))
	if len(one.Hashes) != 2 || one.First != 1 || len(two.Hashes) != 4 || two.First != 1 {
		t.Fatalf("turn 1 %+v, turn 2 %+v", one, two)
	}
	if !slices.Equal(two.Hashes[:2], one.Hashes) {
		t.Error("the second turn does not begin with the first")
	}
	var a Answer
	a.Read(APIChat, []byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello","refusal":null,"reasoning":"hm","tool_calls":[]}}]}`))
	if got := one.After(a.Digests()); got == 0 || got != two.Hashes[2] {
		t.Errorf("after the answer %x, want %x", got, two.Hashes[2])
	}
	var other Answer
	other.Read(APIChat, []byte(`{"choices":[{"message":{"role":"assistant","content":"Good day"}}]}`))
	if one.After(other.Digests()) == two.Hashes[2] {
		t.Error("another answer gives the same hash")
	}
}

func TestChainKeepsApart(t *testing.T) {
	base := chainOf(t, APIChat, chat(helper, hiUser)).last()
	long := `{"role":"system","content":"` + strings.Repeat("shared ", 2000) + `"}`
	for name, body := range map[string]string{
		"another first message":     chat(helper, more),
		"another system text":       chat(long, hiUser),
		"another role":              chat(helper, `{"role":"assistant","content":"hi"}`),
		"one message more":          chat(helper, hiUser, hello),
		"two texts are not one":     chat(helper, `{"role":"user","content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}`),
		"text moved to the role":    chat(helper, `{"role":"userhi","content":""}`),
		"an image with the message": chat(helper, `{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:x"}}]}`),
	} {
		if chainOf(t, APIChat, body).last() == base {
			t.Errorf("%s: same hash", name)
		}
	}
	s := mustScan(t, chat(helper, hiUser))
	if BuildChain(nil, APIChat, s, "tenant", "m2").last() == base || BuildChain(nil, APIChat, s, "t2", "m").last() == base {
		t.Error("tenant and model do not matter")
	}
	salted := func(salt string) Chain {
		return chainOf(t, APIChat, `{"cache_salt":"`+salt+`",`+chat(helper, hiUser)[1:])
	}
	if a, b := salted("a"), salted("b"); a.last() == base || a.Hashes[0] == b.Hashes[0] || a.last() != salted("a").last() {
		t.Errorf("salts: %x, %x", a.Hashes, b.Hashes)
	}
	seen := map[uint64]bool{}
	for i := range 50 { // 50 sessions of one application with the same long system text
		seen[chainOf(t, APIChat, chat(long, fmt.Sprintf(`{"role":"user","content":"task %d"}`, i))).last()] = true
	}
	if len(seen) != 50 {
		t.Errorf("50 sessions have %d hashes", len(seen))
	}
}

// TestChainOfASharedBeginning is a client that puts one environment block and one
// canned answer before every conversation of a project: what two conversations
// share must not be the end of either.
func TestChainOfASharedBeginning(t *testing.T) {
	env := `{"role":"user","content":"This is the environment: linux, /src"}`
	canned := `{"role":"assistant","content":"Got it. Thanks for the context!"}`
	a, b := chainOf(t, APIChat, chat(helper, env, canned, hiUser)), chainOf(t, APIChat, chat(helper, env, canned, more))
	if !slices.Equal(a.Hashes[:3], b.Hashes[:3]) || slices.Contains(b.Hashes, a.last()) {
		t.Errorf("%x, %x", a.Hashes, b.Hashes)
	}
	claude := func(prompt string) string {
		return chat(`{"role":"user","content":[{"type":"text","text":"<system-reminder>CLAUDE.md: be brief</system-reminder>"},{"type":"text","text":"` + prompt + `"}]}`)
	}
	if chainOf(t, APIMessages, claude("fix a")).last() == chainOf(t, APIMessages, claude("fix b")).last() {
		t.Error("a shared reminder makes one conversation of two")
	}
}

func TestChainIgnoresWhatClientsChange(t *testing.T) {
	turn := func(system, content string) string {
		return `{"system":` + system + `,"messages":[{"role":"user","content":` + content + `}]}`
	}
	base := chainOf(t, APIMessages, turn(`"You are Claude"`, `"hi"`))
	if len(base.Hashes) != 2 || base.First != 1 {
		t.Fatalf("%+v", base)
	}
	billing := func(cch string) string {
		return `{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.197.123; cc_entrypoint=cli; cch=` + cch + `;"}`
	}
	claude := `{"type":"text","text":"You are Claude","cache_control":{"type":"ephemeral"}}`
	reminder := `{"type":"text","text":"<system-reminder>\nTools: a, b\n</system-reminder>\n"}`
	for name, body := range map[string]string{
		"attribution block":       turn(`[`+billing("abcde")+`,`+claude+`]`, `"hi"`),
		"another cch":             turn(`[`+billing("00000")+`,`+claude+`]`, `"hi"`),
		"attribution line joined": turn(`"x-anthropic-billing-header: cc_version=1; cch=1;\nYou are Claude"`, `"hi"`),
		"parts instead of a text": turn(`[`+claude+`]`, `[{"type":"text","text":"hi"}]`),
		"cache_control":           turn(`[`+claude+`]`, `[{"cache_control":{"type":"ephemeral"},"text":"hi","type":"text"}]`),
		"reminder before":         turn(`"You are Claude"`, `[`+reminder+`,{"type":"text","text":"hi"}]`),
		"two reminders in one":    turn(`"You are Claude"`, `[{"type":"text","text":"hi"},{"type":"text","text":"<system-reminder>a</system-reminder>\n<system-reminder>b</system-reminder>"}]`),
		"white space around":      turn(`"You are Claude\n"`, `" hi "`),
		"escapes":                 turn(`"You are Cl\u0061ude"`, `"\u0068i"`),
		"a message of a reminder": `{"system":"You are Claude","messages":[{"role":"user","content":[` + reminder + `]},{"role":"user","content":"hi"}]}`,
	} {
		if got := chainOf(t, APIMessages, body); !slices.Equal(got.Hashes, base.Hashes) {
			t.Errorf("%s: %x, want %x", name, got.Hashes, base.Hashes)
		}
	}
	for name, body := range map[string]string{
		"text behind a reminder counts": turn(`"You are Claude"`, `"<system-reminder>a</system-reminder> hi"`),
		"an open reminder counts":       turn(`"You are Claude"`, `[{"type":"text","text":"<system-reminder>a"},{"type":"text","text":"hi"}]`),
		"text behind the attribution":   turn(`"x-anthropic-billing-header: x\nYou are Explore"`, `"hi"`),
	} {
		if got := chainOf(t, APIMessages, body); got.last() == base.last() {
			t.Errorf("%s: same hash", name)
		}
	}
}

func TestChainOfToolCalls(t *testing.T) {
	call := func(id, args string) string {
		return chat(hiUser, `{"role":"assistant","content":null,"tool_calls":[{"id":"`+id+`","type":"function","function":{"name":"read","arguments":`+args+`}}]}`)
	}
	base := chainOf(t, APIChat, call("c1", `"{\"path\": \"a\", \"n\":1}"`)).last()
	for name, body := range map[string]string{
		"other id, order and space": call("c2", `"{\"n\":1,\"path\":\"a\"}"`),
		"an object":                 call("c3", `{"path":"a","n":1}`),
		"escapes in arguments":      call("c1", `"{\"p\\u0061th\":\"\\u0061\",\"n\":1}"`),
	} {
		if chainOf(t, APIChat, body).last() != base {
			t.Errorf("%s: another hash", name)
		}
	}
	for name, body := range map[string]string{
		"other value":      call("c1", `"{\"path\":\"b\",\"n\":1}"`),
		"values exchanged": call("c1", `"{\"path\":1,\"n\":\"a\"}"`),
		"keys exchanged":   call("c1", `"{\"a\":\"path\",\"n\":1}"`),
		"nested":           call("c1", `"{\"path\":[\"a\"],\"n\":1}"`),
		"no JSON":          call("c1", `"{\"path\":"`),
	} {
		if chainOf(t, APIChat, body).last() == base {
			t.Errorf("%s: same hash", name)
		}
	}
	result := func(id, text string) string {
		return `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":[{"type":"text","text":"` + text + `"}]}]}]}`
	}
	if chainOf(t, APIMessages, result("t1", "x")).last() != chainOf(t, APIMessages, result("t2", "x")).last() {
		t.Error("the id of a result matters")
	}
	if chainOf(t, APIMessages, result("t1", "x")).last() == chainOf(t, APIMessages, result("t1", "y")).last() {
		t.Error("the text of a result does not matter")
	}
}

func TestChainAfterAStreamedAnswer(t *testing.T) {
	chatCalls := `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"hm"}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{"content":"I gr"}},{"index":1,"delta":{"content":"other"}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{"content":"\u00fc\u00dfe"}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"read","arguments":""}},{"index":1,"function":{"name":"ls"}}]}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"d\":"}},{"index":0,"function":{"arguments":"{\"path\""}}]}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":\"a\"}"}},{"index":1,"function":{"arguments":"1}"}}]}}]}` + "\n\n" + doneFrame
	tool := strings.Replace(messagesStream, `event: message_delta`, `event: content_block_start`+"\n"+`data: {"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"read","input":{}},"index":1}`+"\n\n"+
		`event: content_block_delta`+"\n"+`data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"path\": \"a\"}"},"index":1}`+"\n\n"+
		`event: content_block_delta`+"\n"+`data: {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"},"index":2}`+"\n\n"+`event: message_delta`, 1)
	for _, tc := range []struct {
		name, stream, request, echo string
		api                         API
	}{
		{"chat", chatCalls, chat(hiUser), chat(hiUser, `{"role":"assistant","content":"I grüße","tool_calls":[{"id":"c","function":{"name":"read","arguments":"{ \"path\":\"a\" }"}},{"id":"d","function":{"name":"ls","arguments":"{\"d\":1}"}}]}`), APIChat},
		{"messages, text", messagesStream, chat(hiUser), chat(hiUser, `{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Hello"}]}`), APIMessages},
		{"messages, tool", tool, chat(hiUser), chat(hiUser, `{"role":"assistant","content":[{"type":"text","text":"Hello"},{"type":"tool_use","id":"x","name":"read","input":{"path":"a"}}]}`), APIMessages},
		{"responses", responsesStream, `{"input":"hi"}`, `{"input":[{"type":"message","role":"user","content":"hi"},{"type":"reasoning","id":"r","summary":[]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"TED"}]}]}`, APIResponses},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := new(Answer)
			feed(NewStream(tc.api, StreamOptions{Answer: a}), tc.stream, 9)
			before, after := chainOf(t, tc.api, tc.request), chainOf(t, tc.api, tc.echo)
			if got := before.After(a.Digests()); got != after.last() {
				t.Errorf("after the answer %x, echoed %x", got, after.last())
			}
		})
	}
}

func TestChainOfResponses(t *testing.T) {
	base := chainOf(t, APIResponses, `{"instructions":"Be brief","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call","id":"f1","call_id":"c1","name":"ls","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"a"}]}`)
	if len(base.Hashes) != 4 || base.First != 1 {
		t.Fatalf("%+v", base)
	}
	other := chainOf(t, APIResponses, `{"instructions":"Be brief","input":[{"type":"message","role":"user","content":"hi"},{"type":"reasoning","encrypted_content":"x"},{"type":"function_call","call_id":"c9","name":"ls","arguments":""},{"type":"function_call_output","call_id":"c9","output":"a"}]}`)
	if !slices.Equal(base.Hashes, other.Hashes) {
		t.Error("ids and reasoning matter")
	}
	if got := chainOf(t, APIResponses, `{"previous_response_id":"resp_1","input":"more"}`); len(got.Hashes) != 0 {
		t.Errorf("part of a history has a chain: %+v", got)
	}
}

func TestChainWithoutMessages(t *testing.T) {
	for api, body := range map[API]string{APIChat: `{}`, APIEmbeddings: `{"input":"x"}`, APIMessages: `{"messages":7}`, APIResponses: `{"input":null}`} {
		got := chainOf(t, api, body)
		if len(got.Hashes) != 0 || got.First != 0 || got.After([]Digest{{1}}) != 0 {
			t.Errorf("%v: %+v", api, got)
		}
	}
	got := chainOf(t, APIChat, chat(helper))
	if len(got.Hashes) != 1 || got.First != 1 || got.After(nil) != 0 {
		t.Errorf("no user message: %+v", got)
	}
	if got := chainOf(t, APICompletions, `{"prompt":"once"}`); len(got.Hashes) != 1 || got.First != 0 {
		t.Errorf("a prompt: %+v", got)
	}
	if chainOf(t, APICompletions, `{"prompt":[1,2]}`).last() == chainOf(t, APICompletions, `{"prompt":[1,3]}`).last() {
		t.Error("prompts of tokens are not told apart")
	}
}

func TestChainIsBounded(t *testing.T) {
	messages := make([]string, 3*maxChain)
	for i := range messages {
		messages[i] = fmt.Sprintf(`{"role":"user","content":"%d"}`, i)
	}
	long, before := chainOf(t, APIChat, chat(messages...)), chainOf(t, APIChat, chat(messages[:len(messages)-2]...))
	if len(long.Hashes) > maxChain || long.First != 0 {
		t.Errorf("%d hashes, first %d", len(long.Hashes), long.First)
	}
	if !slices.Contains(long.Hashes, before.last()) {
		t.Error("the turn before is not found")
	}
	deep := strings.Repeat(`[{"type":"tool_result","content":`, 10_000) + `"x"` + strings.Repeat(`}]`, 10_000)
	if got := chainOf(t, APIMessages, chat(`{"role":"user","content":`+deep+`}`)); len(got.Hashes) != 1 {
		t.Errorf("deep nesting: %+v", got)
	}
}

func TestChainReusesTheSlice(t *testing.T) {
	s := mustScan(t, chat(helper, hiUser, hello, more))
	room := make([]uint64, 0, 16)
	got := BuildChain(room, APIChat, s, "tenant", "m").Hashes
	if len(got) == 0 || &got[0] != &room[:1][0] {
		t.Errorf("%d hashes are in a slice of their own", len(got))
	}
}

func TestChainOfAGrowingHistoryOnlyGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var messages []map[string]any
		for range rapid.IntRange(1, 8).Draw(t, "n") {
			messages = append(messages, map[string]any{
				"role":    rapid.SampledFrom([]string{"user", "assistant", "system", "tool"}).Draw(t, "role"),
				"content": "x" + rapid.String().Draw(t, "content"),
			})
		}
		build := func(m []map[string]any) Chain {
			raw, err := json.Marshal(map[string]any{"messages": m})
			if err != nil {
				t.Fatal(err)
			}
			var s Scan
			if err := s.Scan(raw); err != nil {
				t.Fatal(err)
			}
			return BuildChain(nil, APIChat, &s, "t", "m")
		}
		whole := build(messages)
		k := rapid.IntRange(1, len(messages)).Draw(t, "k")
		if part := build(messages[:k]); !slices.Equal(part.Hashes, whole.Hashes[:k]) {
			t.Fatalf("%x is no beginning of %x", part.Hashes, whole.Hashes)
		}
		i := rapid.IntRange(0, len(messages)-1).Draw(t, "i")
		messages[i]["content"] = messages[i]["content"].(string) + "!"
		changed := build(messages)
		if !slices.Equal(changed.Hashes[:i], whole.Hashes[:i]) || changed.Hashes[i] == whole.Hashes[i] || changed.last() == whole.last() {
			t.Fatalf("a change of message %d: %x, before %x", i, changed.Hashes, whole.Hashes)
		}
	})
}

func TestSharedHash(t *testing.T) {
	shared := func(api API, body string) uint64 { return SharedHash(api, mustScan(t, body)) }
	base := shared(APIMessages, `{"tools":[{"name":"a"}],"system":"You are Claude","messages":[{"role":"user","content":"hi"}]}`)
	if base == 0 {
		t.Fatal("no hash")
	}
	if shared(APIMessages, `{"messages":[{"role":"user","content":"bye"}],"system":[{"type":"text","text":"x-anthropic-billing-header: cch=1;"},{"type":"text","text":"You are Claude"}],"tools":[{"name":"a"}]}`) != base {
		t.Error("messages or the attribution block matter")
	}
	for name, body := range map[string]string{
		"system": `{"tools":[{"name":"a"}],"system":"You are Explore"}`,
		"tools":  `{"tools":[{"name":"b"}],"system":"You are Claude"}`,
		"salt":   `{"tools":[{"name":"a"}],"system":"You are Claude","cache_salt":"s"}`,
	} {
		if shared(APIMessages, body) == base {
			t.Errorf("%s does not matter", name)
		}
	}
	if a, b := shared(APIChat, chat(helper, hiUser)), shared(APIChat, chat(helper, more, helper)); a != b || a == 0 {
		t.Errorf("chat: %x, %x", a, b)
	}
	if got := shared(APIChat, chat(hiUser)); got != 0 {
		t.Errorf("nothing is shared, got %x", got)
	}
	if a, b := shared(APIResponses, `{"instructions":"x","input":"a"}`), shared(APIResponses, `{"instructions":"x","input":[]}`); a != b || a == 0 {
		t.Errorf("responses: %x, %x", a, b)
	}
}

func BenchmarkBuildChain(b *testing.B) {
	s := mustScan(b, string(chatBody(300<<10, true)))
	room := make([]uint64, 0, 256)
	b.SetBytes(int64(len(s.Body())))
	b.ReportAllocs()
	for b.Loop() {
		BuildChain(room, APIChat, s, "tenant", "m")
	}
}

func TestBeginning(t *testing.T) {
	of := func(api API, body string) uint64 {
		t.Helper()
		var s Scan
		if err := s.Scan([]byte(body)); err != nil {
			t.Fatal(err)
		}
		return Beginning(api, &s)
	}
	first := of(APIMessages, `{"system":"a","messages":[{"role":"user","content":"hi"}]}`)
	if first == 0 {
		t.Fatal("a user message is no beginning")
	}
	for _, same := range []string{
		`{"system":"other","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"x"},{"role":"user","content":"y"}]}`,
		`{"messages":[{"role":"system","content":"z"},{"role":"user","content":[{"type":"text","text":"<system-reminder>n</system-reminder>"}]},{"role":"user","content":[{"type":"text","text":"hi","cache_control":{}}]}]}`,
	} {
		if of(APIMessages, same) != first {
			t.Errorf("another beginning: %s", same)
		}
	}
	if of(APIMessages, `{"messages":[{"role":"user","content":"ho"}]}`) == first {
		t.Error("another text begins alike")
	}
	if a, b := of(APIResponses, `{"input":"hi"}`), of(APIResponses, `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]}`); a == 0 || a != b {
		t.Errorf("a text and an item begin as %x and %x", a, b)
	}
	for api, body := range map[API]string{APICompletions: `{"prompt":"x"}`, APIChat: `{"messages":[{"role":"system","content":"x"}]}`} {
		if got := of(api, body); got != 0 {
			t.Errorf("%s begins as %x", body, got)
		}
	}
}
