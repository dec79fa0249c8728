package vllmd

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChatStream(t *testing.T) {
	s, url := testServer(t, "--enable-prompt-tokens-details")
	const tokens = 4
	const body = `{"model":"tiny","messages":[{"role":"user","content":"hello"}],"max_tokens":4,"stream":true`
	for _, c := range []struct {
		name, body, last string
		frames           int
	}{
		{"no usage", body + `}`, "{choices:[{delta:{content:s},finish_reason:s,index:n,logprobs:null,stop_reason:null,token_ids:null}],created:n,id:s,model:s,object:s,system_fingerprint:s}", 6},
		{"usage", body + `,"stream_options":{"include_usage":true}}`, "{choices:[],created:n,id:s,model:s,object:s,system_fingerprint:s,usage:{completion_tokens:n,prompt_tokens:n,prompt_tokens_details:{cached_tokens:n,created_cache_tokens:n},total_tokens:n}}", 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, data := frames(t, stepped(t, s, url+"/v1/chat/completions", c.body, tokens))
			if n := len(data); n != c.frames || data[n-1] != "[DONE]" {
				t.Fatalf("%d frames, the last %q; want %d with [DONE] at the end", n, data[n-1], c.frames)
			}
			if got, want := shape(t, data[0]), "{choices:[{delta:{content:s,role:s},finish_reason:null,index:n,logprobs:null}],created:n,id:s,model:s,object:s,prompt_text:null,prompt_token_ids:null}"; got != want {
				t.Error(cmp.Diff(want, got))
			}
			if got, want := shape(t, data[1]), "{choices:[{delta:{content:s},finish_reason:null,index:n,logprobs:null,token_ids:null}],created:n,id:s,model:s,object:s}"; got != want {
				t.Error(cmp.Diff(want, got))
			}
			if got := shape(t, data[len(data)-2]); got != c.last {
				t.Error(cmp.Diff(c.last, got))
			}
		})
	}
	_, data := frames(t, stepped(t, s, url+"/v1/chat/completions", body+`,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, tokens))
	for i := 1; i <= tokens; i++ {
		if got := dig(t, data[i], "usage", "completion_tokens"); got != float64(i) {
			t.Errorf("the usage of token %d says %v completion tokens", i, got)
		}
	}
}

// stepped asks for a chat stream of so many tokens. The engine's clock stands still and is
// moved to the next token when the one before has been read: each gets an event of its own
// on any machine.
func stepped(t *testing.T, s *server, url, body string, tokens int) string {
	t.Helper()
	c := s.cores[0]
	c.freeze(true)
	defer c.freeze(false)
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	waitFor(t, func() bool { return c.busy() == 1 })
	var all strings.Builder
	r := bufio.NewReader(res.Body)
	for token := range tokens {
		c.mu.Lock()
		c.base, _ = c.eng.Next()
		c.eng.Advance(c.base, c.deliver)
		c.mu.Unlock()
		lines := 2
		if token == 0 {
			lines = 4 // the event that opens the stream comes with it
		}
		for range lines {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatalf("the stream ended with %v at %q", err, all.String())
			}
			all.WriteString(line)
		}
	}
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return all.String() + string(rest)
}

// TestStreamsAgree checks that the pieces of a stream are the text of the whole answer.
func TestStreamsAgree(t *testing.T) {
	_, url := testServer(t)
	type api struct {
		path, body string
		whole      []string // where the text is in a whole answer
		delta      []string // and in an event
		event      string   // that carries text
	}
	for _, a := range []api{
		{"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"q"}]`, []string{"choices", "message", "content"}, []string{"choices", "delta", "content"}, ""},
		{"/v1/completions", `{"model":"tiny","prompt":"q","max_tokens":700`, []string{"choices", "text"}, []string{"choices", "text"}, ""},
		{"/v1/messages", `{"model":"tiny","max_tokens":700,"messages":[{"role":"user","content":"q"}]`, []string{"content", "text"}, []string{"delta", "text"}, "content_block_delta"},
		{"/v1/responses", `{"model":"tiny","input":"q"`, []string{"output", "content", "text"}, []string{"delta"}, "response.output_text.delta"},
	} {
		t.Run(a.path, func(t *testing.T) {
			want := dig(t, post(t, url+a.path, a.body+"}"), a.whole...)
			var got strings.Builder
			names, data := frames(t, post(t, url+a.path, a.body+`,"stream":true}`))
			for i, d := range data {
				if names[i] == a.event && d != "[DONE]" {
					text, _ := dig(t, d, a.delta...).(string)
					got.WriteString(text)
				}
			}
			if diff := cmp.Diff(want, any(got.String())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEventOrder checks the names of events, runs of deltas taken as one.
func TestEventOrder(t *testing.T) {
	_, url := testServer(t, "--enable-prompt-tokens-details")
	for path, c := range map[string]struct {
		body string
		want []string
	}{
		"/v1/messages": {
			`{"model":"tiny","max_tokens":6,"stream":true,"messages":[{"role":"user","content":"hi"}]}`,
			[]string{"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"},
		},
		"/v1/responses": {
			`{"model":"tiny","max_output_tokens":6,"stream":true,"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}`,
			[]string{
				"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta",
				"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
			},
		},
	} {
		names, data := frames(t, post(t, url+path, c.body))
		var got []string
		for i, n := range names {
			if len(got) == 0 || got[len(got)-1] != n {
				got = append(got, n)
			}
			if kind := dig(t, data[i], "type"); kind != n {
				t.Errorf("event %q says that it is a %q", n, kind)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// TestMessagesUsage checks that the input figures of the last event add up to the
// prompt that the first one states, and that the cached part is found again.
func TestMessagesUsage(t *testing.T) {
	_, url := testServer(t, "--enable-prompt-tokens-details")
	body := `{"model":"tiny","max_tokens":6,"stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("a long story ", 60) + `"}]}`
	for turn, want := range []string{"cache_creation_input_tokens", "cache_read_input_tokens"} {
		_, data := frames(t, post(t, url+"/v1/messages", body))
		prompt := dig(t, data[0], "message", "usage", "input_tokens").(float64)
		usage := dig(t, data[len(data)-2], "usage").(map[string]any)
		sum := usage["input_tokens"].(float64) + usage["cache_creation_input_tokens"].(float64) + usage["cache_read_input_tokens"].(float64)
		if sum != prompt {
			t.Errorf("turn %d: %v do not add up to %v", turn, usage, prompt)
		}
		if full := float64(int(prompt-1) / 16 * 16); usage[want] != full {
			t.Errorf("turn %d: %s is %v, want %v", turn, want, usage[want], full)
		}
	}
}

// TestConversation holds a conversation in which each turn sends everything back: the
// engine finds all but the last few tokens of what it has read and written.
func TestConversation(t *testing.T) {
	_, url := testServer(t, "--enable-prompt-tokens-details")
	history := `{"role":"user","content":"` + strings.Repeat("tell me more ", 40) + `"}`
	known := 0.0
	for turn := range 4 {
		answer := post(t, url+"/v1/chat/completions", `{"model":"tiny","messages":[`+history+`]}`)
		usage := dig(t, answer, "usage").(map[string]any)
		cached := usage["prompt_tokens_details"].(map[string]any)["cached_tokens"].(float64)
		if turn > 0 && cached < known-32 {
			t.Errorf("turn %d: %v tokens cached of %v known", turn, cached, known)
		}
		known = usage["total_tokens"].(float64)
		text := dig(t, answer, "choices", "message", "content").(string)
		history += `,{"role":"assistant","content":"` + text + `"},{"role":"user","content":"and then?"}`
	}
}

// TestBillingBlock checks that the attribution block of a system prompt does not change
// the prompt.
func TestBillingBlock(t *testing.T) {
	_, url := testServer(t)
	count := func(system string) any {
		return dig(t, post(t, url+"/v1/messages/count_tokens", `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"system":`+system+`}`), "input_tokens")
	}
	want := count(`"be brief"`)
	for _, system := range []string{
		`[{"type":"text","text":"be brief"}]`,
		`[{"type":"text","text":"x-anthropic-billing-header: cc_version=9.9.9.abc; cch=1f2e3;"},{"type":"text","text":"be brief"}]`,
		`[{"type":"text","text":"x-anthropic-billing-header: cc_version=9.9.9.abc;\nbe brief"}]`,
	} {
		if got := count(system); got != want {
			t.Errorf("%s has %v tokens, want %v", system, got, want)
		}
	}
}

// TestDisconnect checks that a client that goes away frees the engine at once, while it
// waits for its first token and in the middle of a stream.
func TestDisconnect(t *testing.T) {
	s, url := testServerAt(t, 1)
	for _, stream := range []string{"true", "false"} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions",
			strings.NewReader(`{"model":"tiny","ignore_eos":true,"stream":`+stream+`,"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		ended := make(chan error, 1)
		go func() {
			res, err := http.DefaultClient.Do(req)
			if err == nil {
				_, err = bufio.NewReader(res.Body).ReadString('\n')
				res.Body.Close()
			}
			cancel()
			ended <- err
		}()
		waitFor(t, func() bool { return s.cores[0].busy() == 1 || ctx.Err() != nil })
		if stream == "false" {
			cancel()
		}
		<-ended
		waitFor(t, func() bool { return s.cores[0].busy() == 0 })
	}
	s.cores[0].mu.Lock()
	defer s.cores[0].mu.Unlock()
	if st := s.cores[0].eng.Stats(); st.Aborted != 2 || st.UsedBlocks != 0 {
		t.Errorf("%d aborted and %d blocks held, want 2 and 0", st.Aborted, st.UsedBlocks)
	}
}

// patience is how long a test waits for what must happen, on a busy machine.
const patience = time.Minute

// waitFor polls until ok is true.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", patience)
		}
	}
}

// TestTokenIDs checks that the ids in the events of a stream are those of the whole
// answer, and that the prompt's come once.
func TestTokenIDs(t *testing.T) {
	_, url := testServerAt(t, 20)
	for _, a := range []struct {
		path, body string
		prompt     []string // where the prompt's ids are in an answer
	}{
		{"/v1/chat/completions", `{"model":"tiny","max_tokens":9,"return_token_ids":true,"messages":[{"role":"user","content":"q"}]`, []string{"prompt_token_ids"}},
		{"/v1/completions", `{"model":"tiny","max_tokens":9,"return_token_ids":true,"prompt":[20,21,22]`, []string{"choices", "prompt_token_ids"}},
	} {
		whole := post(t, url+a.path, a.body+"}")
		_, data := frames(t, post(t, url+a.path, a.body+`,"stream":true}`))
		var ids []any
		for i, d := range data[:len(data)-1] {
			got, _ := dig(t, d, "choices", "token_ids").([]any)
			ids = append(ids, got...)
			if prompt := dig(t, d, a.prompt...); (prompt != nil) != (i == 0) {
				t.Errorf("%s: event %d has the prompt %v", a.path, i, prompt)
			}
		}
		if diff := cmp.Diff(dig(t, whole, "choices", "token_ids"), any(ids)); diff != "" || len(ids) != 9 {
			t.Errorf("%s: %d ids (-whole +streamed):\n%s", a.path, len(ids), diff)
		}
		if diff := cmp.Diff(dig(t, whole, a.prompt...), dig(t, data[0], a.prompt...)); diff != "" {
			t.Errorf("%s: prompt (-whole +streamed):\n%s", a.path, diff)
		}
	}
}
