package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// choiceFrame is a chunk of one of several choices; finish is JSON.
func choiceFrame(index int, content, finish, more string) string {
	return fmt.Sprintf(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"served","choices":[{"index":%d,"delta":{"content":%q},"logprobs":null,"finish_reason":%s,"stop_reason":null}]%s}`+"\n\n", index, content, finish, more)
}

const stamp = `,"system_fingerprint":"f"`

// TestStreamGivesTheFingerprintBack: where vLLM is asked for usage its fingerprint stands
// on the chunk of usage, and else on each chunk that ends a choice.
func TestStreamGivesTheFingerprintBack(t *testing.T) {
	a, b := choiceFrame(0, "a", `"stop"`, ""), choiceFrame(1, "b", `"length"`, "")
	stampedA, stampedB := choiceFrame(0, "a", `"stop"`, stamp), choiceFrame(1, "b", `"length"`, stamp)
	token := choiceFrame(1, "t", "null", "")
	text := `data: {"choices":[{"text":"x","finish_reason":"length"}]}` + "\n\n"
	bare := strings.Replace(usageFrame, `,"system_fingerprint":"f"`, "", 1)
	fault := `data: {"error":{"message":"gone"}}` + "\n\n"
	for _, tc := range []struct{ name, in, want string }{
		{"one choice", a + usageFrame + doneFrame, stampedA + doneFrame},
		{"a text", text + usageFrame + doneFrame, strings.Replace(text, "]}", `]`+stamp+"}", 1) + doneFrame},
		{"two choices end together", a + b + usageFrame + doneFrame, stampedA + stampedB + doneFrame},
		{"another choice goes on", a + token + token + b + usageFrame + doneFrame, token + token + stampedA + stampedB + doneFrame},
		{"a comment in between", a + ": waiting\n\n" + usageFrame + doneFrame, ": waiting\n\n" + stampedA + doneFrame},
		{"an engine without a fingerprint", a + bare + doneFrame, a + doneFrame},
		{"a fingerprint that is null", a + strings.Replace(usageFrame, `"f"`, "null", 1) + doneFrame, a + doneFrame},
		{"a fingerprint with an escape", a + strings.Replace(usageFrame, `"f"`, `"\"}\u00fc"`, 1) + doneFrame, strings.Replace(stampedA, `"f"`, `"\"}\u00fc"`, 1) + doneFrame},
		{"the chunk has one itself", choiceFrame(0, "a", `"stop"`, `,"system_fingerprint":"own"`) + usageFrame + doneFrame, choiceFrame(0, "a", `"stop"`, `,"system_fingerprint":"own"`) + doneFrame},
		{"space before the brace", strings.Replace(a, "]}", "] }", 1) + usageFrame, strings.Replace(a, "]}", "] "+stamp+"}", 1)},
		{"members behind the choices", choiceFrame(0, "a", `"stop"`, `,"n":1.50`) + usageFrame, choiceFrame(0, "a", `"stop"`, `,"n":1.50`+stamp)},
		{"no usage follows", a + doneFrame, a + doneFrame},
		{"an error follows", a + fault + doneFrame, a + fault + doneFrame},
		{"nothing follows", token + a, token + a},
		{"a chunk of broken JSON", `data: {"choices":[{"finish_reason":"stop"}` + "\n\n" + usageFrame, `data: {"choices":[{"finish_reason":"stop"}` + "\n\n"},
		{"data over several lines", strings.Replace(a, `,"choices"`, ",\ndata: \"choices\"", 1) + usageFrame, strings.Replace(stampedA, `,"choices"`, ",\ndata: \"choices\"", 1)},
		{"usage to everybody", choiceFrame(0, "", "null", `,"usage":{"prompt_tokens":1}`) + a + usageFrame + doneFrame, choiceFrame(0, "", "null", `,"usage":{"prompt_tokens":1}`) + a + usageFrame + doneFrame},
	} {
		for ending, change := range endings {
			if strings.Contains(ending, "last") {
				continue // the end of the whole is not the end of the dropped frame
			}
			for _, alias := range []string{"", `a "long" alias of the model`} {
				in, want := change(tc.in), change(tc.want)
				if alias != "" {
					want = strings.ReplaceAll(want, `"model":"served"`, `"model":`+string(quote(alias)))
				}
				for _, piece := range []int{1, 7, 64, len(in)} {
					s := NewStream(APIChat, StreamOptions{DropUsage: true, Requested: alias})
					if d := cmp.Diff(want, feed(s, in, piece)); d != "" {
						t.Fatalf("%s, %s, alias %q, pieces of %d (-want +got):\n%s", tc.name, ending, alias, piece, d)
					}
				}
			}
		}
	}
}

// TestStreamPassesTokensWhileAChunkWaits: only the last chunk of a choice waits.
func TestStreamPassesTokensWhileAChunkWaits(t *testing.T) {
	s := NewStream(APIChat, StreamOptions{DropUsage: true})
	token, last := choiceFrame(1, "t", "null", ""), choiceFrame(0, "a", `"stop"`, "")
	if got := string(s.Write([]byte(token + last))); got != token {
		t.Errorf("got %q, want the token", got)
	}
	if got := string(s.Write([]byte(token))); got != token {
		t.Errorf("got %q, want the token", got)
	}
	if got := string(s.Held()); got != last {
		t.Errorf("held was %q", got)
	}
	if got := append(s.Held(), s.Close()...); len(got) > 0 {
		t.Errorf("given twice: %q", got)
	}
}

// TestStreamHoldsABoundedAmount: chunks that end choices without end do not pile up.
func TestStreamHoldsABoundedAmount(t *testing.T) {
	s := NewStream(APIChat, StreamOptions{DropUsage: true})
	last := []byte(choiceFrame(0, strings.Repeat("x", 1<<20), `"stop"`, ""))
	passed := 0
	for range 3 * maxFrame / len(last) {
		passed += len(s.Write(last))
		if len(s.held.frames) > maxFrame {
			t.Fatalf("%d bytes are held", len(s.held.frames))
		}
	}
	if passed == 0 {
		t.Error("nothing was passed on")
	}
}

// TestStreamWithAndWithoutUsageAgree makes streams the two ways in which vLLM sends one,
// and compares what the client gets of the one it would not have had with the other.
func TestStreamWithAndWithoutUsageAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		choices := rapid.IntRange(1, 3).Draw(t, "choices")
		var with, without strings.Builder
		for open := choices; open > 0; {
			index := rapid.IntRange(0, choices-1).Draw(t, "choice")
			if strings.Contains(with.String(), fmt.Sprintf(`end of %d`, index)) {
				continue
			}
			if rapid.Bool().Draw(t, "ends") {
				open--
				end := fmt.Sprintf("end of %d", index)
				with.WriteString(choiceFrame(index, end, `"stop"`, ""))
				without.WriteString(choiceFrame(index, end, `"stop"`, stamp))
				continue
			}
			frame := choiceFrame(index, rapid.SampledFrom([]string{"ü", `"finish_reason":"stop"`, "}"}).Draw(t, "text"), "null", "")
			with.WriteString(frame)
			without.WriteString(frame)
		}
		change := endings[rapid.SampledFrom([]string{"LF", "CRLF", "CR"}).Draw(t, "ending")]
		in := change(with.String() + usageFrame + doneFrame)
		s := NewStream(APIChat, StreamOptions{DropUsage: true})
		var out bytes.Buffer
		for rest := in; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			out.Write(s.Write([]byte(rest[:n])))
			rest = rest[n:]
		}
		out.Write(s.Close())
		for index := range choices {
			want, got := ofChoice(t, index, change(without.String()+doneFrame)), ofChoice(t, index, out.String())
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("choice %d (-want +got):\n%s", index, d)
			}
		}
		if choices == 1 && out.String() != change(without.String()+doneFrame) {
			t.Fatalf("got %q, want %q", out.String(), without.String()+doneFrame)
		}
	})
}

// ofChoice returns the chunks of one choice in their order, and the end of the stream.
func ofChoice(t *rapid.T, index int, stream string) []string {
	var mine []string
	for _, frame := range strings.FieldsFunc(stream, func(r rune) bool { return r == '\n' || r == '\r' }) {
		data := strings.TrimPrefix(frame, "data: ")
		if data == "[DONE]" {
			mine = append(mine, data)
			continue
		}
		var chunk struct{ Choices []struct{ Index int } }
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || len(chunk.Choices) != 1 {
			t.Fatalf("a chunk is %q: %v", data, err)
		}
		if chunk.Choices[0].Index == index {
			mine = append(mine, data)
		}
	}
	return mine
}

// FuzzStreamOfOneChoice: whatever an engine sends, the pieces in which it comes do not
// matter, nothing is lost but the chunks of usage, and nothing comes twice.
func FuzzStreamOfOneChoice(f *testing.F) {
	f.Add([]byte(chatStream), uint8(3))
	f.Add([]byte(choiceFrame(0, "a", `"stop"`, "")+choiceFrame(1, "a", `"stop"`, "")+usageFrame+doneFrame), uint8(9))
	f.Add([]byte("a\ndata"), uint8(1))
	f.Add([]byte("data: {\"finish_reason\":\"x\"\r\ndata:}\r\n\r\n"+usageFrame), uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		whole, split := NewStream(APIChat, StreamOptions{DropUsage: true}), NewStream(APIChat, StreamOptions{DropUsage: true})
		want, got := feed(whole, string(in), max(len(in), 1)), feed(split, string(in), int(piece)%64+1)
		if want != got || whole.State() != split.State() {
			t.Fatalf("in pieces %q, whole %q", got, want)
		}
		if !bytes.Contains(in, keyUsage) && len(want) != len(in) {
			t.Fatalf("%q became %q", in, want)
		}
		again := feed(NewStream(APIChat, StreamOptions{DropUsage: true}), want, 1<<20)
		if again != want && !bytes.Contains([]byte(want), keyUsage) && len(again) != len(want) {
			t.Fatalf("%q is not at rest: %q", want, again)
		}
	})
}
