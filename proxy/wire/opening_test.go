package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// What a client has sent comes back in announcements, in tokens and in errors. Only an
// error that is vLLM's own word for a dead engine is one.
func TestEngineDead(t *testing.T) {
	const (
		message  = "EngineCore encountered an issue. See stack trace (above) for the root cause."
		created  = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"error\":null,\"instructions\":\"EngineDeadError\",\"metadata\":{\"error\":\"EngineDeadError\"}}}\n\n"
		token    = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"\\\"error\\\" EngineDeadError\"}\n\n"
		failed   = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"instructions\":\"EngineDeadError\",\"error\":{\"code\":\"server_error\",\"message\":%q}}}\n\n"
		event    = "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":%q}\n\n"
		start    = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n"
		claude   = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"internal_error\",\"message\":%q}}\n\n"
		chunk    = "data: {\"error\":{\"message\":%q,\"type\":\"InternalServerError\",\"param\":null,\"code\":%d}}\n\n"
		content  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\\"error\\\": EngineDeadError\"}}],\"error\":null}\n\n"
		typed    = "data: {\"error\":{\"message\":\"\",\"type\":\"EngineDeadError\"}}\n\n"
		quoting  = "The template raised: EngineDeadError"
		shutdown = "cannot schedule new futures after shutdown"
	)
	for _, c := range []struct {
		name string
		api  API
		said string
		want Verdict
	}{
		{"an announcement that repeats the words", APIResponses, created, Undecided},
		{"a token with the words", APIResponses, created + token, Begun},
		{"a failure behind the announcement", APIResponses, created + fmt.Sprintf(failed, message), EngineDead},
		{"a failure that quotes", APIResponses, created + fmt.Sprintf(failed, quoting), Begun},
		{"an error behind the announcement", APIResponses, created + fmt.Sprintf(event, message), EngineDead},
		{"an error that quotes", APIResponses, created + fmt.Sprintf(event, quoting), Begun},
		{"a dead engine behind a token", APIResponses, created + token + fmt.Sprintf(failed, message), Begun},
		{"a message", APIMessages, start + fmt.Sprintf(claude, shutdown), EngineDead},
		{"a message that quotes", APIMessages, start + fmt.Sprintf(claude, quoting), Begun},
		{"a chat", APIChat, fmt.Sprintf(chunk, message, 500), EngineDead},
		{"a chat, by its type", APIChat, typed, EngineDead},
		{"a chat that quotes", APIChat, fmt.Sprintf(chunk, quoting, 500), Begun},
		{"a chat whose client is at fault", APIChat, fmt.Sprintf(chunk, message, 400), Begun},
		{"a chat with the words", APIChat, content, Begun},
		{"a completion", APICompletions, "data: {\"error\":\"EngineDeadError: gone\"}\n\n", EngineDead},
		{"a transcription", APIAudio, fmt.Sprintf(chunk, message, 500), EngineDead},
		{"a transcription with the words", APIAudio, content, Begun},
	} {
		o := NewOpening(c.api)
		if got := o.Read([]byte(c.said)); got != c.want {
			t.Errorf("%s: got verdict %d, want %d", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		status int
		body   string
		want   Verdict
	}{
		{500, `{"error":{"message":"EngineCore encountered an issue. See","type":"InternalServerError","code":500}}`, EngineDead},
		{500, `{"type":"error","error":{"type":"InternalServerError","message":"cannot schedule new futures after shutdown"}}`, EngineDead},
		{503, `{"error":{"message":"gone","type":"EngineDeadError"}}`, EngineDead},
		{500, `{"error":{"message":"no such thing: EngineDeadError","type":"InternalServerError","param":"EngineDeadError"}}`, Begun},
		{500, `{"detail":"EngineDeadError","error":null}`, Begun},
		{500, `EngineDeadError`, Begun},
		{400, `{"error":{"message":"EngineDeadError","type":"BadRequestError","code":400}}`, Begun},
		{200, `{"error":{"message":"EngineDeadError"},"choices":[{"message":{"content":"EngineDeadError"}}]}`, Begun},
	} {
		if got := WholeVerdict(APIChat, c.status, []byte(c.body)); got != c.want {
			t.Errorf("%d %s: got verdict %d, want %d", c.status, c.body, got, c.want)
		}
	}
}

// However long an announcement is and however it is cut, no byte that was looked at is
// looked at again: they are overwritten here with what would decide otherwise.
func TestOpeningLooksOnce(t *testing.T) {
	said := []byte(strings.Repeat("event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"response\":{\"instructions\":\""+strings.Repeat("x", 500)+"\"}}\n\n", 50))
	token := []byte("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"t\"}\n\n")
	trap := []byte("event: error\ndata: {\"message\":\"EngineDeadError\"}\n\n")
	said = append(said, token...)
	b := NewOpening(APIResponses)
	for n := 7; n < len(said)-len(token); n += 7 {
		if v := b.Read(said[:n]); v != Undecided {
			t.Fatalf("verdict %d behind %d bytes of announcements", v, n)
		}
		if end := bytes.LastIndex(said[:n], []byte("\n\n")); end > len(trap) {
			for i := 0; i+len(trap) <= end; i += len(trap) {
				copy(said[i:], trap)
			}
		}
		// Of the current frame the end is not looked for again either.
		if b.seen != n {
			t.Fatalf("of %d bytes %d were looked at", n, b.seen)
		}
	}
	if v := b.Read(said); v != Begun {
		t.Errorf("verdict %d behind a token, want %d", v, Begun)
	}
}

// BenchmarkOpening reads announcements of 64 KiB and of 1 MiB that come in pieces of
// 4 KiB: the cost of a byte is the same.
func BenchmarkOpening(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		said := []byte("data: {\"type\":\"response.created\",\"response\":{\"instructions\":\"" + strings.Repeat("x", size) + "\"}}\n\n")
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(said)))
			b.ReportAllocs()
			for b.Loop() {
				r := NewOpening(APIResponses)
				for n := 4 << 10; n < len(said); n += 4 << 10 {
					if r.Read(said[:n]) != Undecided {
						b.Fatal("decided in an announcement")
					}
				}
			}
		})
	}
}

func TestClosed(t *testing.T) {
	for body, want := range map[string]bool{
		``: false, ` `: false, `{`: false, `{"a":[1,2`: false, `{"a":"}`: false, `[`: false, `"abc`: false, `{"a":{}`: false,
		`{}`: true, "\n{\"a\":NaN}\n": true, `[1]`: true, `"abc"`: true, `null`: true, `gone`: true,
	} {
		if got := Closed([]byte(body)); got != want {
			t.Errorf("%q: got %t, want %t", body, got, want)
		}
	}
}
