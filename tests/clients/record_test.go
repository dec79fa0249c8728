//go:build clients

package clients

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded compares what the client sent in this test with its recording: the same
// decisions, headers and members of the body. With LMWARDEN_RECORD set it writes the
// recording anew; that is done when a client's version changes.
func (b *box) recorded(t *testing.T, client string) {
	t.Helper()
	slices.SortStableFunc(b.kept, func(x, y keptTurn) int {
		return x.record.GetArrived().AsTime().Compare(y.record.GetArrived().AsTime())
	})
	var turns []recordedTurn
	for _, k := range b.kept {
		header := http.Header{}
		for name, values := range k.header {
			for _, value := range values {
				if name != "User-Agent" {
					value = shorten(t, value)
				}
				header.Add(name, value)
			}
		}
		header.Del("Content-Length")
		turns = append(turns, recordedTurn{
			Want: k.want, Source: k.source, Method: k.method, URI: k.uri, Header: header,
			Body: shortenJSON(t, k.body), Says: shortenReply(t, k.engine.said),
		})
	}
	file := filepath.Join("testdata", client+".jsonl")
	if os.Getenv("LMWARDEN_RECORD") != "" && !t.Failed() {
		writeFile(t, file, string(lines(t, turns)))
		return
	}
	if d := cmp.Diff(shapes(t, recording(t, file)), shapes(t, turns)); d != "" {
		t.Errorf("%s sends other requests than recorded; set LMWARDEN_RECORD=1 to record them anew (-recorded +sent):\n%s", client, d)
	}
}

// lines writes one turn a line.
func lines(t *testing.T, turns []recordedTurn) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for _, turn := range turns {
		if err := encoder.Encode(turn); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// shapes returns the headers and the members that requests of each kind have.
func shapes(t *testing.T, turns []recordedTurn) map[string][]string {
	t.Helper()
	all := map[string]map[string]bool{}
	for _, turn := range turns {
		kind := fmt.Sprintf("%s, key from %s, %s %s", turn.Want, turn.Source, turn.Method, turn.URI)
		if all[kind] == nil {
			all[kind] = map[string]bool{}
		}
		for name := range turn.Header {
			all[kind]["header "+name] = true
		}
		var body any
		if err := json.Unmarshal(turn.Body, &body); err != nil {
			t.Fatal(err)
		}
		members(body, "body", all[kind])
	}
	out := map[string][]string{}
	for kind, names := range all {
		out[kind] = slices.Sorted(maps.Keys(names))
	}
	return out
}

// members adds the paths of a body's members.
func members(v any, path string, to map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			members(element, path+"[]", to)
		}
	case map[string]any:
		for name, value := range v {
			to[path+"."+name] = true
			members(value, path+"."+name, to)
		}
	}
}

// Words by which a request is known for what it is stay where they were.
var telling = regexp.MustCompile(`x-anthropic-billing-header:[^\n]*|</?system-reminder>|[Ss]entence-case title|[Rr]eturn JSON|` +
	`word title|5-10|new conversation topic|Generate a title|\[SUGGESTION MODE:|</?transcript>|<policy_spec>|quota`)

var temporary = regexp.MustCompile(regexp.QuoteMeta(os.TempDir()) + `/Test[^/"'\\\s]*/\d+`)

// longestKept is the length up to which any text is kept: prompts and answers of these
// tests are not longer, and instructions of a vendor are.
const longestKept = 36

// shorten leaves out what a text says if it is long, and where it was said.
func shorten(t *testing.T, text string) string {
	text = temporary.ReplaceAllString(text, "/home/user")
	if strings.HasPrefix(text, "{") && json.Valid([]byte(text)) {
		return string(shortenJSON(t, []byte(text)))
	}
	if len(text) <= longestKept || !strings.ContainsAny(text, " \n") {
		return text
	}
	var out strings.Builder
	rest := func(part string) {
		if part != "" {
			out.WriteString(leaveOut(part))
		}
	}
	end := 0
	for _, at := range telling.FindAllStringIndex(text, -1) {
		rest(text[end:at[0]])
		out.WriteString(text[at[0]:at[1]])
		end = at[1]
	}
	rest(text[end:])
	return out.String()
}

// shortenReply does the same to an answer, so that it is what the next request repeats.
func shortenReply(t *testing.T, said reply) reply {
	t.Helper()
	if said.Args != nil {
		said.Args = json.RawMessage(shortenJSON(t, marshal(said.Args)))
	}
	return said
}

// shortenJSON shortens the texts of a JSON value and leaves everything else, the order
// of members too, as it is; of the schemas of tools nothing is kept.
func shortenJSON(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := shortenValue(t, decoder, &out); err != nil {
		t.Fatalf("a client sent no JSON: %v", err)
	}
	return out.Bytes()
}

// leaveOut returns what stands for a text that is not kept.
func leaveOut(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "‹" + hex.EncodeToString(sum[:4]) + ":" + strconv.Itoa(len(text)) + "›"
}

func shortenValue(t *testing.T, in *json.Decoder, out *bytes.Buffer) error {
	token, err := in.Token()
	if err != nil {
		return err
	}
	write := func(v any) error {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(v)
		out.Truncate(out.Len() - 1) // the end of the line
		return err
	}
	switch v := token.(type) {
	case string:
		return write(shorten(t, v))
	case json.Delim:
		out.WriteString(v.String())
		for first := true; in.More(); first = false {
			if !first {
				out.WriteByte(',')
			}
			if v == '{' {
				name, err := in.Token()
				if err != nil {
					return err
				}
				if err := write(name); err != nil {
					return err
				}
				out.WriteByte(':')
				if name == "input_schema" || name == "parameters" {
					var schema json.RawMessage
					if err := in.Decode(&schema); err != nil {
						return err
					}
					out.WriteString(`{"type":"object"}`)
					continue
				}
			}
			if err := shortenValue(t, in, out); err != nil {
				return err
			}
		}
		closing, err := in.Token()
		if err == nil {
			fmt.Fprint(out, closing)
		}
		return err
	}
	return write(token)
}
