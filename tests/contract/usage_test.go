package contract

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	difference "github.com/google/go-cmp/cmp"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// hiddenUsage: a stream for which the proxy asks for usage in its client's place, and takes
// the usage out again, is the stream that this engine sends without being asked: field by
// field, and with one choice of one token byte by byte.
func hiddenUsage(t *testing.T, e *engine) {
	const greedy = `,"stream":true,"temperature":0`
	const twice = `,"stream":true,"n":2,"temperature":1,"seed":7`
	for _, c := range []struct {
		name, path, body string
		exact            bool // one frame can only be cut in one way
		random           bool // the texts of two answers are not the same
	}{
		{name: "chat", path: chatPath, body: chatAsk + greedy},
		{name: "chat: one token", path: chatPath, body: strings.Replace(chatAsk, `"max_tokens":4`, `"max_tokens":1`, 1) + greedy, exact: true},
		{name: "chat: usage on every chunk, but none at the end", path: chatPath, body: chatAsk + greedy + `,"stream_options":{"continuous_usage_stats":true}`},
		{name: "chat: options that say nothing", path: chatPath, body: chatAsk + greedy + `,"stream_options":{}`},
		{name: "chat: ids of tokens", path: chatPath, body: strings.Replace(chatAsk, `"max_tokens":4`, `"max_tokens":1`, 1) + greedy + `,"return_token_ids":true`, exact: true},
		{name: "chat: two choices", path: chatPath, body: chatAsk + twice, random: true},
		{name: "chat: refused", path: chatPath, body: `"model":"tiny","messages":"none"` + greedy, exact: true},
		{name: "completions", path: "/v1/completions", body: textAsk + greedy},
		{name: "completions: one token", path: "/v1/completions", body: strings.Replace(textAsk, `"max_tokens":4`, `"max_tokens":1`, 1) + greedy, exact: true},
		{name: "completions: two choices", path: "/v1/completions", body: textAsk + twice, random: true},
		{name: "completions: two prompts", path: "/v1/completions", body: `"model":"tiny","prompt":["one","two three"],"max_tokens":4,"ignore_eos":true` + greedy},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := "{" + c.body + "}"
			want, got := streamed(t, e, c.path, body), throughProxy(t, e, c.path, body)
			if c.exact && want != got && !strings.Contains(want, `"usage":`) { // which holds times and what was cached
				t.Errorf("the engine sends\n%s\nand the proxy makes of it\n%s", want, got)
			}
			of, with := flowOf(t, want, c.random), flowOf(t, got, c.random)
			forget(&of, &with)
			if d := difference.Diff(of, with); d != "" {
				t.Errorf("without being asked, and asked by the proxy (-engine +proxy):\n%s", d)
			}
		})
	}
}

// streamed asks the engine and returns the answer without what differs between any two.
func streamed(t *testing.T, e *engine, path, body string) string {
	t.Helper()
	got, err := exchange{path: path, body: body}.send(t.Context(), e.url)
	if err != nil {
		t.Fatal(err)
	}
	return timeless(got.body)
}

// throughProxy does the same with what the proxy changes on the way.
func throughProxy(t *testing.T, e *engine, path, body string) string {
	t.Helper()
	api := wire.APIChat
	if path != chatPath {
		api = wire.APICompletions
	}
	var scan wire.Scan
	if err := scan.Scan([]byte(body)); err != nil {
		t.Fatal(err)
	}
	asked, added := wire.Rewrite(api, &scan, wire.Edit{IncludeUsage: true})
	if !added {
		t.Fatalf("the proxy does not ask for usage in %s", body)
	}
	got, err := exchange{path: path, body: string(asked)}.send(t.Context(), e.url)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.header.Get("Content-Type"), "text/event-stream") {
		return timeless(got.body)
	}
	stream := wire.NewStream(api, wire.StreamOptions{DropUsage: true})
	out := string(stream.Write([]byte(got.body)))
	out += string(stream.Close())
	if usage := stream.State().Usage; usage.Prompt <= 0 || usage.Completion <= 0 {
		t.Errorf("the proxy read %+v as the usage of %s", usage, got.body)
	}
	return timeless(out)
}

// timeless takes ids and times out of an answer, and the comments of a slow machine.
func timeless(body string) string {
	body = strings.ReplaceAll(body, ": keep-alive\n\n", "")
	var out strings.Builder
	for line := range strings.SplitAfterSeq(body, "\n") {
		for _, member := range []string{`"id":"`, `"created":1`} {
			if at := strings.Index(line, member); at >= 0 {
				end := at + len(member) + strings.IndexAny(line[at+len(member):], `,"`)
				line = line[:at+len(member)] + line[end:]
			}
		}
		out.WriteString(line)
	}
	return out.String()
}

// choiceFlow is what a stream said of one choice.
type choiceFlow struct {
	Index  int
	Text   string
	Frames []map[string]any // the first and the last, without the text
	Middle []map[string]any // each kind of those in between once; a slow engine may send none
}

// flow is what a stream said, by choice. An engine may put two tokens into one chunk, or
// not, and may have several choices take turns in any way.
type flow struct {
	Choices []choiceFlow
	Others  []any // events that are about no choice
}

// forget leaves out what is between the first and the last frame of a choice where one of
// two streams has nothing there.
func forget(a, b *flow) {
	for i := range min(len(a.Choices), len(b.Choices)) {
		if len(a.Choices[i].Middle) == 0 || len(b.Choices[i].Middle) == 0 {
			a.Choices[i].Middle, b.Choices[i].Middle = nil, nil
		}
	}
}

// flowOf takes a stream apart.
func flowOf(t *testing.T, stream string, random bool) flow {
	t.Helper()
	if !strings.HasPrefix(stream, "data:") {
		return flow{Others: []any{stream}}
	}
	events, err := parseEvents(stream)
	if err != nil {
		t.Fatal(err)
	}
	var f flow
	for _, e := range events {
		chunk := asMap(e.data)
		for _, name := range []string{"usage", "metrics"} {
			for figure := range asMap(chunk[name]) {
				asMap(chunk[name])[figure] = "…"
			}
		}
		choices, _ := chunk["choices"].([]any)
		if len(choices) != 1 {
			f.Others = append(f.Others, e.data)
			continue
		}
		f.add(chunk, choices[0].(map[string]any), random)
	}
	slices.SortFunc(f.Choices, func(a, b choiceFlow) int { return cmp.Compare(a.Index, b.Index) })
	return f
}

// add notes one chunk of one choice.
func (f *flow) add(chunk, choice map[string]any, random bool) {
	index := 0
	if n, ok := choice["index"].(json.Number); ok {
		at, _ := n.Int64()
		index = int(at)
	}
	i := slices.IndexFunc(f.Choices, func(c choiceFlow) bool { return c.Index == index })
	if i < 0 {
		i = len(f.Choices)
		f.Choices = append(f.Choices, choiceFlow{Index: index})
	}
	c := &f.Choices[i]
	for _, at := range []map[string]any{choice, asMap(choice["delta"])} {
		for _, name := range []string{"text", "content"} {
			if s, ok := at[name].(string); ok {
				at[name] = "…"
				if !random {
					c.Text += s
				}
			}
		}
	}
	frames := &c.Middle
	if choice["finish_reason"] != nil || asMap(choice["delta"])["role"] != nil {
		frames = &c.Frames
	}
	if n := len(*frames); n == 0 || !difference.Equal((*frames)[n-1], chunk) {
		*frames = append(*frames, chunk)
	}
}

// asMap returns an object, or none.
func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}
