package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustScan(t testing.TB, body string) *Scan {
	t.Helper()
	s := new(Scan)
	if err := s.Scan([]byte(body)); err != nil {
		t.Fatalf("Scan(%.80q): %v", body, err)
	}
	return s
}

func TestScanReadsTheTopLevel(t *testing.T) {
	s := mustScan(t, ` {"model" : "qwen3", "stream":true,"max_tokens": 12 ,
		"stream_options":{"include_usage":true,"x":{"include_usage":false}},
		"messages":[{"role":"user","content":"\"model\":\"decoy\" {[\\"}],
		"metadata":{"user_id":"u","model":"decoy"},"tools":[],"temperature":-1.5e+3,"n":null} `)
	if got := s.Model(); got != "qwen3" {
		t.Errorf("Model = %q", got)
	}
	if !s.Stream() {
		t.Error("Stream = false")
	}
	if got := s.MaxTokens(); got != 12 {
		t.Errorf("MaxTokens = %d", got)
	}
	if v, ok := s.IncludeUsage(); !v || !ok {
		t.Errorf("IncludeUsage = %v, %v", v, ok)
	}
	p := s.Span(FieldMessages)
	if got := string(s.Body()[p.Start:p.End]); got != string(s.Raw(FieldMessages)) || !strings.HasPrefix(got, `[{"role"`) {
		t.Errorf("messages = %q", got)
	}
	if got, want := s.PromptBytes(), p.Len()+len("[]"); got != want {
		t.Errorf("PromptBytes = %d, want %d", got, want)
	}
	if s.Raw(FieldSystem) != nil || s.Span(FieldSystem) != (Span{}) {
		t.Error("an absent field has a value")
	}
}

func TestScanDuplicatesAndEscapes(t *testing.T) {
	for _, tc := range []struct{ name, body, model string }{
		{"last wins", `{"model":"a","x":1,"model":"b"}`, "b"},
		{"another type resets", `{"model":"a","model":7}`, ""},
		{"null resets", `{"model":"a","model":null}`, ""},
		{"escaped key", `{"mod\u0065l":"a"}`, "a"},
		{"escaped key wins as the last", `{"model":"a","\u006dodel":"b"}`, "b"},
		{"escaped value", `{"model":"a\/b\u00e9\ud83d\ude00\n"}`, "a/bé😀\n"},
		{"case matters", `{"Model":"a"}`, ""},
		{"nested is not top level", `{"x":{"model":"a"},"y":[{"model":"b"}]}`, ""},
		{"in a string", `{"x":"\"model\":\"a\"\\"}`, ""},
		{"backslashes before the quote", `{"x":"\\\\","model":"a","y":"\\\""}`, "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := mustScan(t, tc.body).Model(); got != tc.model {
				t.Errorf("Model = %q, want %q", got, tc.model)
			}
		})
	}
}

func TestScanRefusesWhatIsNoObject(t *testing.T) {
	for _, tc := range []struct {
		body   string
		offset int
	}{
		{``, 0},
		{`   `, 3},
		{`[]`, 0},
		{`"x"`, 0},
		{`{`, 1},
		{`{"a"`, 4},
		{`{"a":`, 5},
		{`{"a":1`, 6},
		{`{"a":1,`, 7},
		{`{"a":1,}`, 7},
		{`{"a":"x`, 7},
		{`{"a":[1,{"b":2}`, 15},
		{`{"a":tru}`, 5},
		{`{"a":x}`, 5},
		{`{a:1}`, 1},
		{`{"a" 1}`, 5},
		{`{"a":1 "b":2}`, 7},
		{`{"a":1}}`, 7},
		{`{"a":1} x`, 8},
		{`{"a":"\`, 7},
	} {
		var s Scan
		err := s.Scan([]byte(tc.body))
		var syn *SyntaxError
		if !errors.As(err, &syn) {
			t.Errorf("Scan(%q) = %v, want a SyntaxError", tc.body, err)
			continue
		}
		if syn.Offset != tc.offset {
			t.Errorf("Scan(%q): offset %d, want %d (%v)", tc.body, syn.Offset, tc.offset, err)
		}
		if s.Body() != nil || s.Model() != "" {
			t.Errorf("Scan(%q) left something behind", tc.body)
		}
		if !strings.Contains(err.Error(), fmt.Sprintf("at byte %d", tc.offset)) {
			t.Errorf("the sentence does not name the place: %v", err)
		}
	}
}

func TestScanOfDeepNestingDoesNotRecurse(t *testing.T) {
	deep := strings.Repeat(`[{"a":`, 500_000) + "1" + strings.Repeat(`}]`, 500_000)
	if got := mustScan(t, `{"x":`+deep+`,"model":"m"}`).Model(); got != "m" {
		t.Errorf("Model = %q", got)
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	body := chatBody(300<<10, false)
	var s Scan
	if n := testing.AllocsPerRun(20, func() { _ = s.Scan(body) }); n != 0 {
		t.Errorf("Scan allocates %v times", n)
	}
}

func TestMaxTokensPrefersTheNewerNames(t *testing.T) {
	for body, want := range map[string]int{
		`{"max_tokens":1,"max_completion_tokens":2}`:    2,
		`{"max_output_tokens":3,"max_tokens":1}`:        3,
		`{"max_tokens":1,"max_completion_tokens":null}`: 1,
		`{"max_tokens":-4}`:                             -1,
		`{"max_tokens":"9"}`:                            -1,
		`{"max_tokens":1.5}`:                            -1,
		`{"max_tokens":99999999999999999999999}`:        -1,
		`{}`:                                            -1,
	} {
		if got := mustScan(t, body).MaxTokens(); got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
	}
}

func TestCutContextSuffix(t *testing.T) {
	for in, want := range map[string]string{
		"claude-opus-4-8[1m]": "claude-opus-4-8", "m[2m]": "m", "m": "m", "[1m]": "[1m]",
		"m[3m]": "m[3m]", "": "", "m[1m]x": "m[1m]x",
	} {
		if got := CutContextSuffix(in); got != want {
			t.Errorf("CutContextSuffix(%q) = %q, want %q", in, got, want)
		}
	}
}

// checkAgainstJSON compares a scan with what encoding/json makes of the body.
func checkAgainstJSON(t interface{ Fatalf(string, ...any) }, body []byte) {
	var s Scan
	err := s.Scan(body)
	var want map[string]json.RawMessage
	if json.Unmarshal(body, &want) != nil || want == nil {
		return // the scan may be more lenient inside values, never stricter
	}
	if err != nil {
		t.Fatalf("Scan refuses %q: %v", body, err)
	}
	for key, raw := range want {
		f := fieldOf([]byte(key))
		if f == fieldNone {
			continue
		}
		if !bytes.Equal(s.Raw(f), raw) {
			t.Fatalf("%q of %q: %q, want %q", key, body, s.Raw(f), raw)
		}
		var text string
		if raw[0] == '"' && json.Unmarshal(raw, &text) == nil && strings.ToValidUTF8(s.Text(f), "\ufffd") != strings.ToValidUTF8(text, "\ufffd") {
			t.Fatalf("%q of %q: %q, want %q", key, body, s.Text(f), text)
		}
	}
	for f := fieldNone + 1; f < numFields; f++ {
		if s.Raw(f) != nil && !found(want, f) {
			t.Fatalf("field %d of %q is not in the object", f, body)
		}
	}
}

func found(m map[string]json.RawMessage, f Field) bool {
	for key := range m {
		if fieldOf([]byte(key)) == f {
			return true
		}
	}
	return false
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"\"}{\\"}],"stream":true}`))
	f.Add([]byte(`{"mod\u0065l":"\ud83d\ude00","tools":[1,-2.5e3,{}],"model":null}`))
	f.Add([]byte(` {"system":{"a":[[]]},"stream_options":{"include_usage":false}} `))
	f.Add([]byte(`{"a":1,}`))
	f.Add([]byte("{\"model\":\"\\u00e9\xff\"}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		checkAgainstJSON(t, body)
		var s Scan
		if s.Scan(body) != nil {
			return
		}
		// Whatever lies inside, nothing that reads a scan may break on it.
		for _, api := range []API{APIChat, APICompletions, APIResponses, APIMessages} {
			Identify(api, nil, &s, Options{User: true, MetadataUser: true})
			BuildChain(nil, api, &s, "t", "m")
			SharedHash(api, &s)
			out, _ := Rewrite(api, &s, Edit{Model: "other", IncludeUsage: true})
			if json.Valid(body) && !json.Valid(out) {
				t.Fatalf("Rewrite broke %q into %q", body, out)
			}
			ReadUsage(api, body)
		}
	})
}

func TestScanAgreesWithEncodingJSON(t *testing.T) {
	keys := []string{"model", "stream", "messages", "metadata", "system", "x", "mod\\u0065l", "tools", "user"}
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteByte('{')
		for i, n := 0, rapid.IntRange(0, 6).Draw(t, "members"); i < n; i++ {
			if i > 0 {
				b.WriteString(rapid.SampledFrom([]string{",", " , ", ",\n"}).Draw(t, "comma"))
			}
			b.WriteString(`"` + rapid.SampledFrom(keys).Draw(t, "key") + `":`)
			raw, err := json.Marshal(drawValue(t, 3))
			if err != nil {
				t.Fatal(err)
			}
			b.Write(raw)
		}
		b.WriteByte('}')
		body := []byte(b.String())
		if !json.Valid(body) {
			t.Fatalf("the test made %q", body)
		}
		checkAgainstJSON(t, body)
		cut := rapid.IntRange(0, len(body)-1).Draw(t, "cut")
		var s Scan
		if s.Scan(body[:cut]) == nil {
			t.Fatalf("Scan takes the truncated %q", body[:cut])
		}
	})
}

// drawValue draws a value that encoding/json can write.
func drawValue(t *rapid.T, depth int) any {
	kinds := 5
	if depth > 0 {
		kinds = 7
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Int64().Draw(t, "int")
	case 3:
		return rapid.StringOf(rapid.SampledFrom([]rune{'"', '\\', '{', '}', '[', ']', 'a', '\n', 'é', '😀', ','})).Draw(t, "string")
	case 4:
		return rapid.String().Draw(t, "string")
	case 5:
		out := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			out = append(out, drawValue(t, depth-1))
		}
		return out
	}
	out := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "n") {
		out[rapid.String().Draw(t, "k")] = drawValue(t, depth-1)
	}
	return out
}

// chatBody makes a chat request of about size bytes of code-like text, with the
// model last when keysLast is set.
func chatBody(size int, keysLast bool) []byte {
	line := "if err != nil {\n\treturn fmt.Errorf(\"read \\\"model\\\": %w\", err) // the caller knows the path\n}\n"
	text := strings.Repeat(line, 4096/len(line))
	var messages []map[string]string
	for n := 0; n < size; n += len(text) {
		role := [...]string{"user", "assistant"}[len(messages)%2]
		messages = append(messages, map[string]string{"role": role, "content": text})
	}
	raw, err := json.Marshal(messages)
	if err != nil {
		panic(err)
	}
	if keysLast {
		return fmt.Appendf(nil, `{"messages":%s,"stream":true,"model":"qwen3-4b"}`, raw)
	}
	return fmt.Appendf(nil, `{"model":"qwen3-4b","stream":true,"messages":%s}`, raw)
}

func BenchmarkScan(b *testing.B) {
	for _, size := range []int{4 << 10, 300 << 10, 2 << 20} {
		body := chatBody(size, true)
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var s Scan
			for b.Loop() {
				if err := s.Scan(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
