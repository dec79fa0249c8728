package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRewriteOfARequest(t *testing.T) {
	both := Edit{Model: "served", IncludeUsage: true}
	for _, tc := range []struct {
		name, in, want string
		api            API
		e              Edit
		added          bool
	}{
		{"nothing to do", `{"model":"served", "n":1.0}`, `{"model":"served", "n":1.0}`, APIChat, both, false},
		{"model", ` {"n" : 1.50, "model" : "alias" ,"x":"\u00e9"}`, ` {"n" : 1.50, "model" : "served" ,"x":"\u00e9"}`, APIChat, both, false},
		{"all duplicates", `{"model":"a","mod\u0065l":7,"x":{"model":"b"},"model":null}`, `{"model":"served","mod\u0065l":"served","x":{"model":"b"},"model":"served"}`, APIChat, both, false},
		{"no model", `{"n":1}`, `{"n":1}`, APIChat, both, false},
		{"no stream", `{"model":"a","stream":false}`, `{"model":"served","stream":false}`, APIChat, both, false},
		{"usage", `{"stream":true,"model":"served"}`, `{"stream_options":{"include_usage":true},"stream":true,"model":"served"}`, APIChat, both, true},
		{"usage behind white space", "\n {\n\"stream\":true}", "\n {\"stream_options\":{\"include_usage\":true},\n\"stream\":true}", APICompletions, both, true},
		{"other options kept", `{"stream":true,"stream_options":{ "other":true,"continuous_usage_stats":false}}`, `{"stream":true,"stream_options":{"include_usage":true, "other":true,"continuous_usage_stats":false}}`, APIChat, both, true},
		{"usage on every chunk only with usage", `{"stream":true,"stream_options":{"continuous_usage_stats":true, "continuous_usage_stats" : true}}`, `{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":false, "continuous_usage_stats" : false}}`, APIChat, both, true},
		{"the client asked for usage on every chunk", `{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, `{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, APIChat, both, false},
		{"empty options", `{"stream":true,"stream_options":{ }}`, `{"stream":true,"stream_options":{"include_usage":true }}`, APIChat, both, true},
		{"options null", `{"stream_options":null,"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`, APIChat, both, true},
		{"the client asked", `{"stream":true,"stream_options":{"include_usage":true}}`, `{"stream":true,"stream_options":{"include_usage":true}}`, APIChat, both, false},
		{"the client said no", `{"stream":true,"stream_options":{"include_usage":false}}`, `{"stream":true,"stream_options":{"include_usage":false}}`, APIChat, both, false},
		{"bad options are the engine's to refuse", `{"stream":true,"stream_options":7}`, `{"stream":true,"stream_options":7}`, APIChat, both, false},
		{"the last options count", `{"stream":true,"stream_options":{"include_usage":true},"stream_options":{}}`, `{"stream":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}`, APIChat, both, true},
		{"messages always report", `{"stream":true}`, `{"stream":true}`, APIMessages, both, false},
		{"responses always report", `{"stream":true}`, `{"stream":true}`, APIResponses, both, false},
		{"usage not wanted", `{"stream":true}`, `{"stream":true}`, APIChat, Edit{}, false},
		{"a name with a quote", `{"model":"a"}`, `{"model":"q\"x"}`, APIChat, Edit{Model: `q"x`}, false},
		{"model and usage", `{"model":"a","stream_options":{},"stream":true}`, `{"model":"served","stream_options":{"include_usage":true},"stream":true}`, APIChat, both, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, added := Rewrite(tc.api, mustScan(t, tc.in), tc.e)
			if diff := cmp.Diff(tc.want, string(got)); diff != "" || added != tc.added {
				t.Errorf("added %v, want %v\n%s", added, tc.added, diff)
			}
		})
	}
}

func TestRewriteWithoutAChangeReturnsTheBody(t *testing.T) {
	s := mustScan(t, `{"model":"served"}`)
	got, _ := Rewrite(APIChat, s, Edit{Model: "served"})
	if &got[0] != &s.Body()[0] {
		t.Error("the body was copied")
	}
}

func TestRestoreModel(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"chat", `{ "id":"x","model":"served","choices":[{"message":{"content":"\"model\":\"served\""}}],"usage":{"prompt_tokens":1.0}}`, `{ "id":"x","model":"alias","choices":[{"message":{"content":"\"model\":\"served\""}}],"usage":{"prompt_tokens":1.0}}`},
		{"duplicates", `{"model":"served","model":"served"}`, `{"model":"alias","model":"alias"}`},
		{"error", `{"error":{"message":"The model ` + "`served`" + ` does not exist, not ` + "`served2` nor `served`" + `.","type":"NotFoundError","param":"model","code":404}}`, `{"error":{"message":"The model ` + "`alias`" + ` does not exist, not ` + "`served2` nor `alias`" + `.","type":"NotFoundError","param":"model","code":404}}`},
		{"error of messages", `{"type":"error","error":{"type":"NotFoundError","message":"The model ` + "`served`" + ` does not exist."}}`, `{"type":"error","error":{"type":"NotFoundError","message":"The model ` + "`alias`" + ` does not exist."}}`},
		{"error as a text", `{"error":"Unauthorized"}`, `{"error":"Unauthorized"}`},
		{"no text", `{"model":null}`, `{"model":null}`},
		{"nested elsewhere", `{"x":{"model":"served"}}`, `{"x":{"model":"served"}}`},
		{"no JSON", `served "model"`, `served "model"`},
		{"cut off", `{"model":"served","x":`, `{"model":"alias","x":`},
		{"empty", ``, ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, string(RestoreModel([]byte(tc.in), "alias", "served"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRewriteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := map[string]any{"model": "asked", "stream": true}
		for range rapid.IntRange(0, 4).Draw(t, "n") {
			key := rapid.StringMatching(`x[a-z"\\]{0,4}`).Draw(t, "key")
			doc[key] = drawValue(t, 2)
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		var s Scan
		if err := s.Scan(raw); err != nil {
			t.Fatal(err)
		}
		out, added := Rewrite(APIChat, &s, Edit{Model: "served", IncludeUsage: true})
		var got map[string]any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		opts, _ := got["stream_options"].(map[string]any)
		if !added || got["model"] != "served" || opts["include_usage"] != true {
			t.Fatalf("%q", out)
		}
		// Undoing both edits by text gives the same bytes again.
		back := strings.Replace(string(out), `"stream_options":{"include_usage":true},`, "", 1)
		back = string(RestoreModel([]byte(back), "asked", "served"))
		if back != string(raw) {
			t.Fatalf("%q became %q", raw, back)
		}
	})
}

func TestReadUsageOfWholeAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		api        API
		want       Usage
	}{
		{"chat", `{"model":"m","choices":[],"usage":{"prompt_tokens":968,"total_tokens":992,"completion_tokens":24,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":896}}}`, APIChat, Usage{968, 0, 24}},
		{"chat of old", `{"usage":{"prompt_tokens":968,"completion_tokens":24,"prompt_tokens_details":null}}`, APIChat, Usage{968, -1, 24}},
		{"completions", `{"usage":{"prompt_tokens":939,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":null}}}`, APICompletions, Usage{939, -1, 12}},
		{"messages", `{"usage":{"input_tokens":8,"output_tokens":12,"cache_creation_input_tokens":0,"cache_read_input_tokens":960}}`, APIMessages, Usage{968, 960, 12}},
		{"messages, first time", `{"usage":{"input_tokens":8,"output_tokens":12,"cache_creation_input_tokens":960,"cache_read_input_tokens":0}}`, APIMessages, Usage{968, 0, 12}},
		{"messages of old", `{"usage":{"input_tokens":968,"output_tokens":12}}`, APIMessages, Usage{968, -1, 12}},
		{"responses", `{"id":"resp_1","usage":{"input_tokens":961,"input_tokens_details":{"cached_tokens":896},"output_tokens":12}}`, APIResponses, Usage{961, 896, 12}},
		{"embeddings", `{"usage":{"prompt_tokens":5,"total_tokens":5}}`, APIEmbeddings, Usage{5, -1, -1}},
		{"an error", `{"error":{"message":"x"}}`, APIChat, NoUsage()},
		{"null", `{"usage":null}`, APIChat, NoUsage()},
		{"nothing", ``, APIChat, NoUsage()},
		{"negative and text", `{"usage":{"prompt_tokens":-5,"completion_tokens":"7"}}`, APIChat, NoUsage()},
	} {
		if got := ReadUsage(tc.api, []byte(tc.body)); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
	if got := ReadResponseID([]byte(`{"id":"resp_1"}`)); got != "resp_1" {
		t.Errorf("ReadResponseID = %q", got)
	}
}

func TestMaxTokens(t *testing.T) {
	for _, c := range []struct {
		api        API
		body, want string
	}{
		{APIChat, `{"max_tokens":500}`, `{"max_tokens":100}`},
		{APIChat, `{"max_tokens":100}`, `{"max_tokens":100}`},
		{APIChat, `{"max_tokens": 1e3, "max_completion_tokens":200}`, `{"max_tokens": 100, "max_completion_tokens":100}`},
		{APIChat, `{"max_tokens":null}`, `{"max_completion_tokens":100,"max_tokens":null}`},
		{APIChat, `{"max_completion_tokens":null}`, `{"max_completion_tokens":100}`},
		{APIChat, `{}`, `{"max_completion_tokens":100}`},
		{APIChat, ` { "n":1}`, ` {"max_completion_tokens":100, "n":1}`},
		{APIChat, `{"max_tokens":"many"}`, `{"max_tokens":"many"}`},
		{APIChat, `{"max_tokens":"5000"}`, `{"max_tokens":100}`},
		{APIChat, `{"max_tokens":"100"}`, `{"max_tokens":"100"}`},
		{APIChat, `{"max_completion_tokens":" +5_000.0\u00a0"}`, `{"max_completion_tokens":100}`},
		{APIChat, `{"max_tokens":` + strings.Repeat("9", 400) + `}`, `{"max_tokens":100}`},
		{APIResponses, `{"input":"x"}`, `{"max_output_tokens":100,"input":"x"}`},
		{APIResponses, `{"max_output_tokens":101}`, `{"max_output_tokens":100}`},
		{APIMessages, `{"max_tokens":32000}`, `{"max_tokens":100}`},
		{APIResponses, `{"max_output_tokens":"\u0035000"}`, `{"max_output_tokens":100}`},
		{APIMessages, `{"max_tokens":"101"}`, `{"max_tokens":100}`},
		{APIMessages, `{}`, `{}`},
		{APIMessages, `{"max_tokens":null}`, `{"max_tokens":null}`},
		{APICompletions, `{"prompt":"x"}`, `{"prompt":"x"}`},
		{APICompletions, `{"prompt":"x","max_tokens":null}`, `{"prompt":"x","max_tokens":16}`},
		{APICompletions, `{"max_tokens":"5000"}`, `{"max_tokens":100}`},
		{APIEmbeddings, `{"max_tokens":500}`, `{"max_tokens":500}`},
	} {
		var s Scan
		if err := s.Scan([]byte(c.body)); err != nil {
			t.Fatal(err)
		}
		got, _ := Rewrite(c.api, &s, Edit{MaxTokens: 100})
		if string(got) != c.want || !json.Valid(got) {
			t.Errorf("%v %s: got %s, want %s", c.api, c.body, got, c.want)
		}
	}
}

// A completion ends by itself after a few tokens; a bound below that is put in.
func TestMaxTokensOfShortCompletions(t *testing.T) {
	for body, want := range map[string]string{
		`{"prompt":"x"}`:                     `{"max_tokens":5,"prompt":"x"}`,
		`{"prompt":"x","max_tokens":null}`:   `{"prompt":"x","max_tokens":5}`,
		`{"prompt":"x","max_tokens":4}`:      `{"prompt":"x","max_tokens":4}`,
		`{"prompt":"x","max_tokens":"0016"}`: `{"prompt":"x","max_tokens":5}`,
	} {
		if got, _ := Rewrite(APICompletions, mustScan(t, body), Edit{MaxTokens: 5}); string(got) != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}
