package contract

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// stopAPI is how one API is asked with a text that ends the answer, and says so.
type stopAPI struct {
	path, ask, field string // the field holds the texts
	// read returns the text of an answer or of all events of a stream, why it ended and the
	// text that ended it.
	read func(t *testing.T, bodies []string) (said, reason string, stop any)
	ends string // the reason
}

var stopAPIs = []stopAPI{
	{chatPath, `"model":"tiny","messages":[{"role":"user","content":"count to eight"}],"max_tokens":12,"temperature":0,"ignore_eos":true`, "stop", readChoice, "stop"},
	{"/v1/completions", `"model":"tiny","prompt":"one two three","max_tokens":12,"temperature":0,"ignore_eos":true`, "stop", readChoice, "stop"},
	{"/v1/messages", `"model":"tiny","messages":[{"role":"user","content":"count to eight"}],"max_tokens":12,"temperature":0`, "stop_sequences", readMessage, "stop_sequence"},
}

// readChoice reads the chat and completions APIs.
func readChoice(t *testing.T, bodies []string) (said, reason string, stop any) {
	t.Helper()
	for _, raw := range bodies {
		var b struct {
			Choices []struct {
				Text    string                   `json:"text"`
				Message struct{ Content string } `json:"message"`
				Delta   struct{ Content string } `json:"delta"`
				Finish  string                   `json:"finish_reason"`
				Stop    any                      `json:"stop_reason"`
			} `json:"choices"`
		}
		if err := json.Unmarshal([]byte(raw), &b); err != nil || len(b.Choices) != 1 {
			t.Fatalf("%v: %s", err, raw)
		}
		c := b.Choices[0]
		said += c.Text + c.Message.Content + c.Delta.Content
		reason, stop = c.Finish, c.Stop
	}
	return said, reason, stop
}

// readMessage reads the messages API.
func readMessage(t *testing.T, bodies []string) (said, reason string, stop any) {
	t.Helper()
	for _, raw := range bodies {
		type end struct {
			Reason string `json:"stop_reason"`
			Stop   any    `json:"stop_sequence"`
		}
		var b struct {
			end
			Content []struct{ Text string } `json:"content"`
			Delta   struct {
				end
				Text string `json:"text"`
			} `json:"delta"`
		}
		if err := json.Unmarshal([]byte(raw), &b); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		for _, part := range b.Content {
			said += part.Text
		}
		said += b.Delta.Text
		for _, e := range []end{b.end, b.Delta.end} {
			if e.Reason != "" {
				reason, stop = e.Reason, e.Stop
			}
		}
	}
	return said, reason, stop
}

// say asks an API, whole or streamed, with more fields.
func (a stopAPI) say(t *testing.T, e *engine, more string, streamed bool) (said, reason string, stop any) {
	t.Helper()
	if streamed {
		more += `,"stream":true`
	}
	got, err := exchange{path: a.path, body: `{` + a.ask + more + `}`}.send(t.Context(), e.url)
	if err != nil || got.status != 200 {
		t.Fatalf("%s gave %d %s, %v", a.path, got.status, got.body, err)
	}
	bodies := []string{got.body}
	if streamed {
		bodies = nil
		for line := range strings.SplitSeq(got.body, "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" {
				bodies = append(bodies, data)
			}
		}
	}
	return a.read(t, bodies)
}

// letters is what a stop is made of: no engine writes half a letter of these.
var letters = regexp.MustCompile(`[a-z]{3}`)

// stops: a text of the client's ends the answer, is not shown, and is named. What the
// engine would have said is asked first; the temperature is zero.
func stops(t *testing.T, e *engine) {
	for _, a := range stopAPIs {
		whole, reason, _ := a.say(t, e, "", false)
		if reason == a.ends {
			t.Fatalf("%s ended with %s before anything was said about it", a.path, reason)
		}
		all := letters.FindAllString(whole, -1)
		if len(all) == 0 {
			t.Fatalf("%s says %q, in which there are no three letters", a.path, whole)
		}
		word := all[len(all)/2]
		want, _, _ := strings.Cut(whole, word)
		for _, streamed := range []bool{false, true} {
			said, reason, stop := a.say(t, e, fmt.Sprintf(`,"%s":["%s"]`, a.field, word), streamed)
			if said != want || reason != a.ends || stop != word {
				t.Errorf("%s, streamed %t: of %q with the stop %q it said %q and ended with %s, %v", a.path, streamed, whole, word, said, reason, stop)
			}
		}
		if a.path == "/v1/messages" {
			continue // it has no such field
		}
		said, _, _ := a.say(t, e, fmt.Sprintf(`,"%s":"%s","include_stop_str_in_output":true`, a.field, word), false)
		if said != want+word {
			t.Errorf("%s: of %q up to and with %q it said %q", a.path, whole, word, said)
		}
	}
}

// roundTrip: what becomes tokens comes back as the same text.
func roundTrip(t *testing.T, e *engine) {
	const said = "count to eight, then read the file"
	got, err := exchange{path: "/tokenize", body: `{"model":"tiny","prompt":"` + said + `"}`}.send(t.Context(), e.url)
	if err != nil {
		t.Fatal(err)
	}
	var reply struct {
		Tokens []int  `json:"tokens"`
		Prompt string `json:"prompt"`
	}
	if err := json.Unmarshal([]byte(got.body), &reply); err != nil {
		t.Fatalf("%v: %s", err, got.body)
	}
	ids, err := json.Marshal(reply.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = (exchange{path: "/detokenize", body: `{"model":"tiny","tokens":` + string(ids) + `}`}).send(t.Context(), e.url); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got.body), &reply); err != nil || reply.Prompt != said {
		t.Errorf("%q came back as %s, %v", said, got.body, err)
	}
}
