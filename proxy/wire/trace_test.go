package wire

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// claude makes a messages body as Claude Code does: attribution, system text, tools.
func claude(attribution, system, tools string, messages ...string) string {
	return fmt.Sprintf(`{"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: %s"},{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}],"tools":[%s],"messages":[%s]}`,
		attribution, system, tools, strings.Join(messages, ","))
}

func says(role, text string) string {
	return fmt.Sprintf(`{"role":%q,"content":[{"type":"text","text":%q}]}`, role, text)
}

func traceOf(t testing.TB, body string) *Trace {
	t.Helper()
	return BuildTrace(APIMessages, mustScan(t, body), false)
}

func TestContinues(t *testing.T) {
	long := strings.Repeat("You are a coding agent. ", 100)
	ask, answer, next := says("user", strings.Repeat("fix it ", 60)), says("assistant", "done"), says("user", "more")
	reminder := says("user", strings.Repeat("x", 300)+"<system-reminder>todo</system-reminder>")
	plain := says("user", strings.Repeat("x", 300))
	a, b := `{"name":"a","input_schema":{}}`, `{"name":"b","input_schema":{}}`
	base := claude("v=1", long, a+","+b, ask)
	tests := []struct {
		name, before, after string
		want                *Break
	}{
		{"a next turn", base, claude("v=1", long, a+","+b, ask, answer, next), nil},
		{"the same again", base, base, nil},
		{"members in another order", base, strings.Replace(base, a, `{"input_schema":{},"name":"a"}`, 1), nil},
		{"a cache mark that moves", base, strings.ReplaceAll(base, `,"cache_control":{"type":"ephemeral"}`, ""), nil},
		{"the attribution changes", base, claude("v=2", long, a+","+b, ask, answer, next), &Break{Section: SectionSystem}},
		{
			"the system text changes", base, claude("v=1", strings.ReplaceAll(long, "agent", "helper"), a+","+b, ask),
			&Break{Section: SectionSystem},
		},
		{"tools in another order", base, claude("v=1", long, b+","+a, ask), &Break{Byte: -1, Block: -1, SameTools: true}},
		{"a tool less", base, claude("v=1", long, a, ask), &Break{Index: 1, Byte: -1, Block: -1}},
		{
			"a message is rewritten", base, claude("v=1", long, a+","+b, says("user", strings.Repeat("do it ", 60))),
			&Break{Section: SectionMessage, Byte: 2439, Block: 19},
		},
		{
			"a reminder has gone", claude("v=1", long, "", ask, reminder, answer, ask), claude("v=1", long, "", ask, plain, answer, ask),
			&Break{Section: SectionMessage, Index: 1, Byte: 24 * TraceBlock, Block: 24, Reminder: true},
		},
		{"the history is shorter", claude("v=1", long, "", ask, answer, ask), claude("v=1", long, ""), &Break{Section: SectionMessage, Byte: 2439, Block: 19, Shorter: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := traceOf(t, tt.after).Continues(traceOf(t, tt.before))
			switch {
			case (got == nil) != (tt.want == nil):
				t.Fatalf("got %+v, want %+v", got, tt.want)
			case got != nil && *got != *tt.want:
				t.Errorf("got %+v, want %+v", *got, *tt.want)
			}
		})
	}
}

func TestTraceTextIsWhatTheBreakPointsAt(t *testing.T) {
	long := strings.Repeat("You are a coding agent. ", 100)
	before := claude("v=1", long+"It is 10:41:07.", "", says("user", strings.Repeat("hi ", 200)))
	body := claude("v=1", long+"It is 10:42:33.", "", says("user", strings.Repeat("hi ", 200)))
	b := traceOf(t, body).Continues(traceOf(t, before))
	if b == nil {
		t.Fatal("no break was seen")
	}
	text := string(TraceText(APIMessages, mustScan(t, body), false, b.Byte, TraceBlock))
	if len(text) != TraceBlock || !strings.Contains(text, "10:42:33") {
		t.Errorf("the text at byte %d is %q", b.Byte, text)
	}
}

// TestTraceProperty appends to a prompt and changes one byte of it: appending never
// breaks, and a change is found in its own block.
func TestTraceProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abcdefgh")), 300, 3000, -1).Draw(t, "text")
		prompt := func(text string) *Trace {
			var s Scan
			if err := s.Scan([]byte(`{"model":"m","messages":[` + says("user", text) + `,` + says("user", strings.Repeat("z", 2*TraceBlock)) + `]}`)); err != nil {
				t.Fatal(err)
			}
			return BuildTrace(APIMessages, &s, false)
		}
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		changed := text[:at] + "Z" + text[at+1:]
		b := prompt(changed).Continues(prompt(text))
		if b == nil || b.Section != SectionMessage {
			t.Fatalf("a change of byte %d gives %+v", at, b)
		}
		// Before the text come the roles of the system text and of the message, and a kind.
		if real := at + len("rsystem") + len("ruser") + len("t"); real < b.Byte || real >= b.Byte+TraceBlock {
			t.Fatalf("a change of byte %d was found at %d", at, b.Byte)
		}
		if b := prompt(text).Continues(prompt(text)); b != nil {
			t.Fatalf("no change gives %+v", b)
		}
	})
}

// TestBareTraceHasNoAttribution leaves the attribution block out, as newer engines do.
func TestBareTraceHasNoAttribution(t *testing.T) {
	bare := func(version string) *Trace {
		return BuildTrace(APIMessages, mustScan(t, claude(version, "You are an agent.", "", says("user", "hi"))), true)
	}
	if b := bare("v=2").Continues(bare("v=1")); b != nil {
		t.Errorf("got %+v, want no break", b)
	}
}

func BenchmarkTrace(b *testing.B) {
	var messages []string
	for range 40 {
		messages = append(messages, says("user", strings.Repeat("word ", 250)), says("assistant", strings.Repeat("answer ", 150)))
	}
	body := claude("v=1", strings.Repeat("You are a coding agent. ", 500), "", messages...)
	s := mustScan(b, body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		BuildTrace(APIMessages, s, false)
	}
}
