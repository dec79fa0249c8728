package clients

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The headers that may differ between the two sides, as documented.
var (
	// requestEnds end at the proxy: what belongs to one connection, the client's
	// credentials, and the coding of the answer.
	requestEnds = []string{"Authorization", "X-Api-Key", "Accept-Encoding", "Connection", "Content-Length", "Expect", "Transfer-Encoding", "Keep-Alive", "Te"}
	// answerStates are of one connection.
	answerStates = []string{"Content-Length", "Date", "Transfer-Encoding", "Connection", "Keep-Alive"}
)

// faithful compares what both ends of the daemon had of one exchange.
func (b *box) faithful(t *testing.T, x exchange) {
	t.Helper()
	if x.engine == nil {
		if x.generates() && x.err == nil {
			t.Errorf("%s %s was answered with %d by the daemon itself: %.300s", x.method, x.uri, x.status, x.got)
		}
		return
	}
	e := x.engine
	if e.method != x.method || e.uri != x.uri {
		t.Errorf("%s %s reached the engine as %s %s", x.method, x.uri, e.method, e.uri)
	}
	sameHeaders(t, "request to "+x.uri, x.header, e.header, requestEnds, "")
	if want := b.bodyFor(x); !bytes.Equal(e.body, want) {
		t.Errorf("%s: the engine got another body than the client sent, %s", x.uri, firstDifference(want, e.body))
	}
	if x.status != e.status {
		t.Errorf("%s: the client got status %d, the engine sent %d", x.uri, x.status, e.status)
	}
	sameHeaders(t, "answer of "+x.uri, e.sentHeader, x.gotHeader, answerStates, "X-Lmwarden-")
	want, cut := b.answerFor(x), e.said.stall == cutInStream
	if cut { // what is there stays, and an error follows it
		if rest := x.got[min(len(want), len(x.got)):]; !bytes.HasPrefix(x.got, want) || !bytes.Contains(rest, []byte(`"error"`)) || x.err == nil {
			t.Errorf("%s: the engine's answer was cut, and the client got %q behind it and then %v", x.uri, rest, x.err)
		}
		want = x.got
	}
	if x.err != nil && len(x.got) <= len(want) {
		want = want[:len(x.got)] // the client left in between
	}
	if !bytes.Equal(x.got, want) {
		t.Errorf("%s: the client got other bytes than the engine sent, %s", x.uri, firstDifference(want, x.got))
	}
	for header, value := range map[string]string{
		"X-Lmwarden-Replica": fmt.Sprintf("%s/%d", model, x.record.GetReplica()), "X-Lmwarden-Decision": x.class(),
		"X-Lmwarden-Key-Source": x.record.GetKeySource(), "X-Lmwarden-Conversation": x.record.GetConversation(),
	} {
		if x.generates() && x.gotHeader.Get(header) != value {
			t.Errorf("%s: the header %s says %q, the record %q", x.uri, header, x.gotHeader.Get(header), value)
		}
	}
	if r := x.record; x.generates() && x.err != nil && !cut {
		// A client may leave as soon as it has the last frame: then the engine has told all.
		early := r.GetStatus() == 499 && r.CachedTokens == nil
		told := (r.GetStatus() == 499 || r.GetStatus() == http.StatusOK) && r.GetCachedTokens() == cachedTokens && r.GetCompletionTokens() == completionTokens
		if !early && !told {
			t.Errorf("%s: the client left, the record has status %d, %d cached tokens and %d of completion", x.uri, r.GetStatus(), r.GetCachedTokens(), r.GetCompletionTokens())
		}
	}
	if r := x.record; x.generates() && x.status == http.StatusOK && x.err == nil {
		if r.GetPromptTokens() != promptTokens || r.GetCachedTokens() != cachedTokens || r.GetCompletionTokens() != completionTokens {
			t.Errorf("%s: the record has %d prompt tokens, %d cached, %d completion; the engine said %d, %d, %d", x.uri,
				r.GetPromptTokens(), r.GetCachedTokens(), r.GetCompletionTokens(), promptTokens, cachedTokens, completionTokens)
		}
		if r.GetRequestedModel() != x.asked() {
			t.Errorf("%s: the record says that %q was asked for, not %q", x.uri, r.GetRequestedModel(), x.asked())
		}
	}
	if x.generates() && uint32(e.replica) != x.record.GetReplica() {
		t.Errorf("%s: the record names replica %d, but %d answered", x.uri, x.record.GetReplica(), e.replica)
	}
}

// sameHeaders compares two sets of headers but for names, and for those of the second
// that begin with added.
func sameHeaders(t *testing.T, of string, from, to http.Header, but []string, added string) {
	t.Helper()
	for name, values := range from {
		if !slices.Contains(but, name) && !slices.Equal(to[name], values) {
			t.Errorf("%s: header %s left as %q and arrived as %q", of, name, values, to[name])
		}
	}
	for name, values := range to {
		if from[name] == nil && !slices.Contains(but, name) && (added == "" || !strings.HasPrefix(name, added)) {
			t.Errorf("%s: header %s: %q was added on the way", of, name, values)
		}
	}
}

// asked returns the model's name in a client's request.
func (x exchange) asked() string {
	const member = `"model":"`
	i := bytes.Index(x.body, []byte(member))
	if i < 0 {
		return ""
	}
	name, _, _ := bytes.Cut(x.body[i+len(member):], []byte(`"`))
	return string(name)
}

// bodyFor returns what an engine must get of a client's body: the same bytes, but for
// an alias and the wish for usage of a stream.
func (b *box) bodyFor(x exchange) []byte {
	body := x.body
	if asked := x.asked(); asked != model {
		body = bytes.Replace(body, []byte(`"model":"`+asked+`"`), []byte(`"model":"`+model+`"`), 1)
	}
	if x.usageAdded() {
		body = slices.Concat([]byte(`{"stream_options":{"include_usage":true},`), body[1:])
	}
	return body
}

// usageAdded says whether the daemon asks for usage in the client's place.
func (x exchange) usageAdded() bool {
	return x.path() == "/v1/chat/completions" && bytes.Contains(x.body, []byte(`"stream":true`)) &&
		!bytes.Contains(x.body, []byte(`"stream_options"`))
}

// answerFor returns what a client must get of an engine's answer: the same bytes, but
// for the name that it asked with, and the usage that it did not ask for. The fingerprint
// stands where it stands without usage.
func (b *box) answerFor(x exchange) []byte {
	sent := x.engine.sent
	if asked := x.asked(); asked != "" && asked != model {
		sent = bytes.ReplaceAll(sent, []byte(`"model":"`+model+`"`), []byte(`"model":"`+asked+`"`))
	}
	if !x.usageAdded() {
		return sent
	}
	var out []byte
	stamp := []byte(`,"system_fingerprint":"` + fingerprint + `"}`)
	for _, frame := range bytes.SplitAfter(sent, []byte("\n\n")) {
		switch {
		case bytes.Contains(frame, []byte(`"choices":[]`)):
		case bytes.Contains(frame, []byte(`"finish_reason":"`)) && bytes.Contains(sent, stamp[:len(stamp)-1]):
			out = slices.Concat(out, bytes.TrimSuffix(frame, []byte("}\n\n")), stamp, []byte("\n\n"))
		default:
			out = append(out, frame...)
		}
	}
	return out
}

// firstDifference tells where two texts part, without showing more than a few bytes.
func firstDifference(want, got []byte) string {
	n := 0
	for n < min(len(want), len(got)) && want[n] == got[n] {
		n++
	}
	part := func(b []byte) []byte { return b[max(0, n-20):min(len(b), n+60)] }
	return fmt.Sprintf("first at byte %d of %d and %d: want ...%q, got ...%q", n, len(want), len(got), part(want), part(got))
}
