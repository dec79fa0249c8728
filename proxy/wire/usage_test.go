package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzUsage compares what is read of a whole answer with encoding/json.
func FuzzUsage(f *testing.F) {
	f.Add([]byte(`{"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}}}`))
	f.Add([]byte(`{"usage":null,"usage":{"input_tokens":1,"output_tokens":2,"input_tokens_details":{"cached_tokens":0}}}`))
	f.Add([]byte(`{"id":"a\u00e9","usage":{"input_tokens":8,"cache_creation_input_tokens":960,"cache_read_input_tokens":0,"output_tokens":1.5}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, api := range []API{APIChat, APIResponses, APIMessages} {
			for _, status := range []int{200, 500} {
				WholeVerdict(api, status, body) // breaks on nothing
			}
			Closed(body)
		}
		if !json.Valid(body) {
			return
		}
		var said, usage map[string]json.RawMessage // a struct would take names in any case
		if json.Unmarshal(body, &said) != nil {
			return
		}
		_ = json.Unmarshal(said["usage"], &usage) // what is no object holds no figures
		members := 0
		for m := membersOf(said["usage"], 0); m.next(); {
			members++
		}
		if members != len(usage) {
			return // a figure that comes twice, the second time broken, counts as it came first
		}
		got := ReadUsage(APIMessages, body)
		input := figure(usage["input_tokens"])
		created, read := figure(usage["cache_creation_input_tokens"]), figure(usage["cache_read_input_tokens"])
		want := Usage{Prompt: -1, Cached: read, Completion: figure(usage["output_tokens"])}
		if input >= 0 {
			want.Prompt = input + max(created, 0) + max(read, 0)
		}
		if got != want {
			t.Errorf("%q: got %+v, want %+v", body, got, want)
		}
		var id string
		if json.Unmarshal(said["id"], &id) == nil && strings.ToValidUTF8(id, "") == id && !strings.ContainsRune(id, 0xfffd) && ReadResponseID(body) != id {
			t.Errorf("%q: id %q, want %q", body, ReadResponseID(body), id)
		}
	})
}

// figure reads a whole number from 0 up, -1 for anything else.
func figure(raw json.RawMessage) int {
	var n json.Number
	if len(raw) == 0 || raw[0] == '"' || json.Unmarshal(raw, &n) != nil {
		return -1
	}
	v, err := n.Int64()
	if err != nil || v < 0 || len(raw) > 18 || raw[0] == '-' {
		return -1
	}
	return int(v)
}

// FuzzRewrite checks with encoding/json that a rewritten request says what it said, but for
// what was to be changed.
func FuzzRewrite(f *testing.F) {
	f.Add([]byte(`{"model":"a","stream":true,"messages":[{"content":"\"model\":"}],"stream_options":{"x":1}}`))
	f.Add([]byte(`{"max_tokens":1e9,"mod\u0065l":"a","stream_options":null,"stream":true}`))
	f.Add([]byte(` { } `))
	f.Fuzz(func(t *testing.T, body []byte) {
		var s Scan
		if !json.Valid(body) || s.Scan(body) != nil {
			return
		}
		out, usage := Rewrite(APIChat, &s, Edit{Model: "other", IncludeUsage: true, MaxTokens: 7})
		var before, after map[string]any
		if err := json.Unmarshal(body, &before); err != nil {
			return // a number beyond what encoding/json takes
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%q became %q: %v", body, out, err)
		}
		if _, named := before["model"]; named && after["model"] != "other" {
			t.Errorf("%q became %q: model %v", body, out, after["model"])
		}
		options, _ := after["stream_options"].(map[string]any)
		if usage && options["include_usage"] != true {
			t.Errorf("%q became %q without usage", body, out)
		}
		for _, name := range []string{"model", "stream_options", "max_tokens", "max_completion_tokens"} {
			delete(before, name)
			delete(after, name)
		}
		a, errA := json.Marshal(before)
		b, errB := json.Marshal(after)
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Errorf("%q became %q: the rest differs", body, out)
		}
	})
}

func TestIndexKey(t *testing.T) {
	key := []byte(`"error"`)
	for _, data := range []string{
		"", `"`, `"e`, `rror"`, `error"`, `"error`, `"error"`, `x"error"`, `xerror""error"`, `"rror"`, `"error""error"`,
		`{"an_error":1,"error":2}`, `{"an_error":1}`, `"e"error"`, `"eerror"`,
	} {
		for behind := range len(key) {
			if got, want := indexKey([]byte(data), key, behind), strings.Index(data, string(key)); got != want {
				t.Errorf("%q behind %d: got %d, want %d", data, behind, got, want)
			}
		}
	}
}
