package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// chunkFrame is a chat chunk as vLLM sends it, with more members if wanted.
func chunkFrame(content, more string) string {
	return fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"served","choices":[{"index":0,"delta":{"content":%q},"logprobs":null,"finish_reason":null}]%s}`+"\n\n", content, more)
}

const (
	usageFrame = `data: {"id":"chatcmpl-1","model":"served","choices":[],"usage":{"prompt_tokens":968,"total_tokens":980,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":896,"created_cache_tokens":0}},"system_fingerprint":"f"}` + "\n\n"
	lastFrame  = `data: {"id":"chatcmpl-1","model":"served","choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]}` + "\n\n"
	doneFrame  = "data: [DONE]\n\n"
	// lastFrameAlone is the last frame of a stream without usage.
	lastFrameAlone = `data: {"id":"chatcmpl-1","model":"served","choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"system_fingerprint":"f"}` + "\n\n"
)

// chatStream is a whole chat stream with usage, a decoy in its text, a comment, and
// letters of several bytes.
var chatStream = ": keep-alive\n\n" + chunkFrame(`grüße 😀 "usage":{"prompt_tokens":1} "model":"x" "finish_reason":"stop"`, "") +
	chunkFrame("b", `,"unknown":{"n":1.50,"reasoning":null}`) + lastFrame + usageFrame + doneFrame

var messagesStream = strings.Join([]string{
	`event: message_start` + "\n" + `data: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","content":[],"model":"served","usage":{"input_tokens":968,"output_tokens":0}}}`,
	`event: ping` + "\n" + `data: {"type":"ping"}`,
	`event: content_block_start` + "\n" + `data: {"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}`,
	`event: content_block_delta` + "\n" + `data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Hel"},"index":0}`,
	`event: content_block_delta` + "\n" + `data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"lo"},"index":0}`,
	`event: content_block_stop` + "\n" + `data: {"type":"content_block_stop","index":0}`,
	`event: message_delta` + "\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":72,"output_tokens":12,"cache_creation_input_tokens":0,"cache_read_input_tokens":896}}`,
	`event: message_stop` + "\n" + `data: {"type":"message_stop"}`, "",
}, "\n\n")

var responsesStream = strings.Join([]string{
	`event: response.created` + "\n" + `data: {"response":{"id":"resp_1","model":"served","output":[],"usage":null},"sequence_number":0,"type":"response.created"}`,
	`event: response.in_progress` + "\n" + `data: {"response":{"id":"resp_1","model":"served","usage":null},"sequence_number":1,"type":"response.in_progress"}`,
	`event: response.output_text.delta` + "\n" + `data: {"delta":"TED","output_index":0,"type":"response.output_text.delta"}`,
	`event: response.completed` + "\n" + `data: {"response":{"id":"resp_1","model":"served","output":[{"id":"msg_1","content":[{"annotations":[],"text":"TED","type":"output_text"}],"role":"assistant","type":"message"}],"usage":{"input_tokens":961,"input_tokens_details":{"cached_tokens":896},"output_tokens":12,"total_tokens":973}},"type":"response.completed"}`, "",
}, "\n\n")

// feed writes a stream in pieces and returns what the client gets.
func feed(s *Stream, in string, piece int) string {
	var out bytes.Buffer
	for len(in) > 0 {
		n := min(piece, len(in))
		out.Write(s.Write([]byte(in[:n])))
		in = in[n:]
	}
	out.Write(s.Close())
	return out.String()
}

// endings are the forms that the same stream may have.
var endings = map[string]func(string) string{
	"LF":               func(s string) string { return s },
	"CRLF":             func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
	"CR":               func(s string) string { return strings.ReplaceAll(s, "\n", "\r") },
	"no last newline":  func(s string) string { return strings.TrimRight(s, "\n") },
	"one last newline": func(s string) string { return strings.TrimRight(s, "\n") + "\n" },
}

func TestStreamReadsUsageFromEveryShape(t *testing.T) {
	full := Usage{Prompt: 968, Cached: 896, Completion: 12}
	for _, tc := range []struct {
		name, in string
		api      API
		want     State
	}{
		{"chat", chatStream, APIChat, State{Usage: full, First: true, Events: 4, Finish: true, Done: true}},
		{"chat without usage", strings.Replace(chatStream, usageFrame, "", 1), APIChat, State{Usage: NoUsage(), First: true, Events: 3, Finish: true, Done: true}},
		{"chat, details null as of old", strings.Replace(chatStream, `{"cached_tokens":896,"created_cache_tokens":0}`, "null", 1), APIChat, State{Usage: Usage{968, -1, 12}, First: true, Events: 4, Finish: true, Done: true}},
		{"chat, cut", chunkFrame("a", ""), APIChat, State{Usage: NoUsage(), First: true, Events: 1}},
		{"chat, continuous usage", chunkFrame("a", `,"usage":{"prompt_tokens":5,"completion_tokens":1}`) + chunkFrame("b", `,"usage":{"prompt_tokens":5,"completion_tokens":2}`), APIChat, State{Usage: Usage{5, -1, 2}, First: true, Events: 2}},
		{"chat, usage null on chunks", chunkFrame("a", `,"usage":null`), APIChat, State{Usage: NoUsage(), First: true, Events: 1}},
		{"chat, only comments", ": a\n\n:b\n\n", APIChat, State{Usage: NoUsage()}},
		{"chat, error at once", "data: {\"error\":{\"message\":\"out of range\"}}\n\n" + doneFrame, APIChat, State{Usage: NoUsage(), Failed: true, Done: true}},
		{"chat, error null", chunkFrame("a", `,"error":null`), APIChat, State{Usage: NoUsage(), First: true, Events: 1}},
		{"completions", `data: {"choices":[{"index":0,"text":"a","finish_reason":"length"}]}` + "\n\n" + usageFrame + doneFrame, APICompletions, State{Usage: full, First: true, Events: 2, Finish: true, Done: true}},
		{"messages", messagesStream, APIMessages, State{Usage: full, First: true, Events: 7, Finish: true, Done: true}},
		{"messages of old", strings.Replace(messagesStream, `"input_tokens":72,"output_tokens":12,"cache_creation_input_tokens":0,"cache_read_input_tokens":896`, `"input_tokens":968,"output_tokens":12`, 1), APIMessages, State{Usage: Usage{968, -1, 12}, First: true, Events: 7, Finish: true, Done: true}},
		{"messages, delta with output only", strings.Replace(messagesStream, `"input_tokens":72,"output_tokens":12,"cache_creation_input_tokens":0,"cache_read_input_tokens":896`, `"output_tokens":12`, 1), APIMessages, State{Usage: Usage{968, -1, 12}, First: true, Events: 7, Finish: true, Done: true}},
		{"messages, only pings", "event: ping\ndata: {\"type\":\"ping\"}\n\n", APIMessages, State{Usage: NoUsage()}},
		{"messages, error", "event: error\ndata: {\"type\":\"error\"}\n\n", APIMessages, State{Usage: NoUsage(), Failed: true}},
		{"messages without event fields", strings.ReplaceAll(messagesStream, "event: ", ": "), APIMessages, State{Usage: full, First: true, Events: 7, Finish: true, Done: true}},
		{"responses", responsesStream, APIResponses, State{Usage: Usage{961, 896, 12}, First: true, Events: 2, Finish: true, Done: true, ResponseID: "resp_1", Sequence: 2}},
		{"responses, announced only", responsesStream[:strings.Index(responsesStream, "event: response.output")], APIResponses, State{Usage: NoUsage(), ResponseID: "resp_1", Sequence: 2}},
		{"responses, failed", strings.Replace(responsesStream, "event: response.completed", "event: response.failed", 1), APIResponses, State{Usage: Usage{961, 896, 12}, First: true, Events: 1, Failed: true, Done: true, ResponseID: "resp_1", Sequence: 2}},
	} {
		for ending, change := range endings {
			in := change(tc.in)
			for _, piece := range []int{1, 2, 7, 100, len(in)} {
				s := NewStream(tc.api, StreamOptions{})
				if out := feed(s, in, piece); out != in {
					t.Fatalf("%s, %s, pieces of %d: the bytes changed", tc.name, ending, piece)
				}
				if got := s.State(); got != tc.want {
					t.Errorf("%s, %s, pieces of %d:\ngot  %+v\nwant %+v", tc.name, ending, piece, got, tc.want)
				}
			}
		}
	}
}

func TestStreamDropsExactlyTheUsageFrame(t *testing.T) {
	continuous := chunkFrame("a", `,"usage":{"prompt_tokens":5,"completion_tokens":1}`)
	without := strings.Replace(strings.Replace(chatStream, usageFrame, "", 1), lastFrame, lastFrameAlone, 1)
	for _, tc := range []struct{ name, in, want string }{
		{"usage frame", chatStream, without},
		{"an engine that sends usage to everybody", continuous + lastFrame + usageFrame + doneFrame, continuous + lastFrame + usageFrame + doneFrame},
		{"a frame with space in its choices", strings.Replace(chatStream, `"choices":[],`, `"choices": [ ] ,`, 1), without},
		{"empty choices without usage", "data: {\"choices\":[]}\n\n" + doneFrame, "data: {\"choices\":[]}\n\n" + doneFrame},
		{"empty choices, usage null", "data: {\"choices\":[],\"usage\":null}\n\n", "data: {\"choices\":[],\"usage\":null}\n\n"},
		{"usage last of all", chunkFrame("a", "") + usageFrame, chunkFrame("a", "")},
	} {
		for ending, change := range endings {
			if strings.Contains(ending, "last") {
				continue // the end of the whole is not the end of the dropped frame
			}
			in, want := change(tc.in), change(tc.want)
			for piece := 1; piece < len(in)+7; piece += 7 {
				s := NewStream(APIChat, StreamOptions{DropUsage: true})
				if got := feed(s, in, piece); got != want {
					t.Fatalf("%s, %s, pieces of %d:\ngot  %q\nwant %q", tc.name, ending, piece, got, want)
				}
				if strings.Contains(tc.in, usageFrame) && s.State().Usage != (Usage{968, 896, 12}) {
					t.Errorf("%s: dropped but not counted: %+v", tc.name, s.State().Usage)
				}
			}
		}
	}
	s := NewStream(APIChat, StreamOptions{DropUsage: true})
	if got := feed(s, strings.TrimRight(usageFrame, "\n"), 5); got != "" || s.State().Usage.Prompt != 968 {
		t.Errorf("a last frame without newline: %q, %+v", got, s.State())
	}
}

func TestStreamHoldsBackOnlyAnUnfinishedFrame(t *testing.T) {
	s := NewStream(APIChat, StreamOptions{DropUsage: true})
	a, b := chunkFrame("a", ""), chunkFrame("b", "")
	if got := string(s.Write([]byte(a + b[:20]))); got != a {
		t.Errorf("got %q", got)
	}
	if s.MidFrame() {
		t.Error("the client has whole frames only")
	}
	if got := string(s.Write([]byte(b[20:]))); got != b {
		t.Errorf("got %q", got)
	}
}

func TestStreamDoesNotBelieveHalfAFrame(t *testing.T) {
	for cut := 1; cut < len(usageFrame)-2; cut++ {
		for _, o := range []StreamOptions{{}, {DropUsage: true}, {Requested: "alias"}} {
			s := NewStream(APIChat, o)
			in := chunkFrame("a", "") + usageFrame[:cut]
			got := feed(s, in, 50)
			if o.Requested == "" && got != in {
				t.Fatalf("cut at %d: got %q", cut, got)
			}
			if s.State() != (State{Usage: NoUsage(), First: true, Events: 1}) {
				t.Fatalf("cut at %d: %+v", cut, s.State())
			}
		}
	}
}

func TestStreamMidFrame(t *testing.T) {
	s := NewStream(APIChat, StreamOptions{})
	f := chunkFrame("a", "")
	s.Write([]byte(f[:10]))
	if !s.MidFrame() {
		t.Error("the client has half a frame")
	}
	s.Write([]byte(f[10:]))
	if s.MidFrame() {
		t.Error("the client has a whole frame")
	}
}

func TestStreamRestoresTheModelName(t *testing.T) {
	toolCalls := `data: {"model":"served","choices":[{"index":0,"delta":{"reasoning":"r","tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"model\":\"served\"}"}},{"index":1,"id":"c2"}]},"logprobs":{"content":[{"logprob":-0.10000}]}}], "n" : 1e-7}` + "\n\n"
	for _, tc := range []struct {
		name, in string
		api      API
		count    int // how often the name is restored
	}{
		{"chat", chatStream, APIChat, 4},
		{"tool calls and reasoning", toolCalls, APIChat, 1},
		{"messages", messagesStream, APIMessages, 1},
		{"responses", responsesStream, APIResponses, 3},
	} {
		for _, requested := range []string{"x", "a much longer name/with \"quotes\""} {
			old, name := []byte(`"model":"served"`), append([]byte(`"model":`), quote(requested)...)
			for ending, change := range endings {
				in := change(tc.in)
				want := string(bytes.ReplaceAll([]byte(in), old, name))
				if got := strings.Count(in, string(old)); got != tc.count {
					t.Fatalf("%s holds the name %d times", tc.name, got)
				}
				for piece := 1; piece < len(in)+13; piece += 13 {
					s := NewStream(tc.api, StreamOptions{Requested: requested, Served: "served"})
					if got := feed(s, in, piece); got != want {
						t.Fatalf("%s, %s, pieces of %d:\ngot  %q\nwant %q", tc.name, ending, piece, got, want)
					}
				}
			}
		}
	}
}

func TestStreamOfDataOverSeveralLines(t *testing.T) {
	in := "event: x\ndata: {\"model\":\ndata:\"served\",\ndata: \"choices\":[],\"usage\":{\"prompt_tokens\":3}}\nid: 7\n\n"
	s := NewStream(APIChat, StreamOptions{Requested: "r"})
	if got, want := feed(s, in, 3), strings.Replace(in, "served", "r", 1); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if s.State().Usage.Prompt != 3 {
		t.Errorf("usage of joined data: %+v", s.State().Usage)
	}
}

func TestStreamPassesAFrameTooLongToKeep(t *testing.T) {
	in := lastFrame + "data: " + strings.Repeat("x", maxFrame+2<<20) + "\n\n" + usageFrame + doneFrame
	s := NewStream(APIChat, StreamOptions{DropUsage: true, Requested: "r"})
	if got, want := feed(s, in, 1<<20), strings.Replace(strings.Replace(in, usageFrame, "", 1), "served", "r", 1); got != want {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
	if !s.State().Done {
		t.Error("what follows is not read")
	}
	watch := NewStream(APIChat, StreamOptions{})
	if got := feed(watch, in, 1<<20); got != in || watch.State().Usage.Prompt != 968 {
		t.Errorf("watching: %d bytes, %+v", len(got), watch.State())
	}
}

func TestStreamSplitsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := rapid.SampledFrom([]string{chatStream, messagesStream, responsesStream}).Draw(t, "stream")
		api := map[string]API{chatStream: APIChat, messagesStream: APIMessages, responsesStream: APIResponses}[stream]
		in := endings[rapid.SampledFrom([]string{"LF", "CRLF", "CR", "no last newline"}).Draw(t, "ending")](stream)
		o := StreamOptions{DropUsage: rapid.Bool().Draw(t, "drop")}
		if rapid.Bool().Draw(t, "rename") {
			o.Requested = "alias"
		}
		whole := NewStream(api, o)
		want := feed(whole, in, len(in))
		split := NewStream(api, o)
		var out bytes.Buffer
		for rest := in; len(rest) > 0; {
			n := rapid.IntRange(0, len(rest)).Draw(t, "piece")
			out.Write(split.Write([]byte(rest[:n])))
			rest = rest[n:]
			if n == 0 {
				out.Write(split.Write([]byte(rest[:1])))
				rest = rest[1:]
			}
		}
		out.Write(split.Close())
		if out.String() != want || split.State() != whole.State() {
			t.Fatalf("split: %+v, whole: %+v, same bytes: %v", split.State(), whole.State(), out.String() == want)
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(chatStream), uint8(3))
	f.Add([]byte(messagesStream), uint8(1))
	f.Add([]byte("\r\n\r\r\ndata\n\ndata:\n\n: \r\n\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		for _, api := range []API{APIChat, APIMessages, APIResponses} {
			n := int(piece)%64 + 1
			s := NewStream(api, StreamOptions{Answer: new(Answer)})
			if got := feed(s, string(in), n); got != string(in) {
				t.Fatalf("watching changed %q into %q", in, got)
			}
			// A name that is not there to be replaced: the bytes stay, whatever the frames.
			if bytes.Contains(in, []byte("model")) || bytes.Contains(in, []byte(`\u`)) {
				continue
			}
			r := NewStream(api, StreamOptions{Requested: "alias", Served: "served"})
			if got := feed(r, string(in), n); got != string(in) && !bytes.Contains(in, []byte("served")) {
				t.Fatalf("renaming changed %q into %q", in, got)
			}
			if r.State() != s.State() {
				t.Fatalf("two states of %q: %+v, %+v", in, r.State(), s.State())
			}
		}
	})
}

func BenchmarkStream(b *testing.B) {
	frame := []byte(chunkFrame(" doctest", ""))
	for _, bench := range []struct {
		name string
		o    StreamOptions
	}{
		{"watch", StreamOptions{}},
		{"drop", StreamOptions{DropUsage: true}},
		{"rename", StreamOptions{DropUsage: true, Requested: "alias", Served: "served"}},
		{"answer", StreamOptions{Answer: new(Answer)}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := NewStream(APIChat, bench.o)
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				s.Write(frame)
			}
		})
	}
}
