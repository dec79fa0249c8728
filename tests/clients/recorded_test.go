package clients

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// recordedTurn is one request of a real client as testdata keeps it, and what became
// of it. Texts of a vendor are not kept: where one stood, its length and a digest
// stand, so that equal texts are equal and sizes are those of the client.
type recordedTurn struct {
	Want   string          `json:"want"` // class and name of the conversation, as expect takes them
	Source string          `json:"source"`
	Method string          `json:"method"`
	URI    string          `json:"uri"`
	Header http.Header     `json:"header"`
	Body   json.RawMessage `json:"body"`
	Says   reply           `json:"says"` // what the engine answered
}

// keptTurn is a turn that expect has looked at.
type keptTurn struct {
	exchange
	want, source string
}

// keep remembers a turn for a recording.
func (b *box) keep(x exchange, want, source string) {
	if !slices.ContainsFunc(b.kept, func(k keptTurn) bool { return k.seen == x.seen }) {
		b.kept = append(b.kept, keptTurn{x, want, source})
	}
}

// recording returns the turns of a file under testdata, in their order.
func recording(t *testing.T, file string) []recordedTurn {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var turns []recordedTurn
	for line := range bytes.Lines(text) {
		var turn recordedTurn
		if err := json.Unmarshal(line, &turn); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		turns = append(turns, turn)
	}
	return turns
}

// A text that is not kept is written as its digest and length.
var leftOut = regexp.MustCompile(`‹([0-9a-f]{8}):(\d+)›`)

// fillIn puts words of the right length where texts were left out.
func fillIn(body []byte) []byte {
	return leftOut.ReplaceAllFunc(body, func(mark []byte) []byte {
		m := leftOut.FindSubmatch(mark)
		n, _ := strconv.Atoi(string(m[2])) // digits stand there
		return bytes.Repeat(append(m[1], ' '), n/9+1)[:n]
	})
}

// TestRecordedClients sends what the real clients sent, as it was recorded, one request
// after the other, and looks for the same decisions. It needs no client, so that every
// run of the tests knows the requests of every client.
func TestRecordedClients(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) < 6 {
		t.Fatalf("there are recordings of %d clients, want at least 6: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			b, c := newBox(t), cast{}
			var want []string
			for _, turn := range recording(t, file) {
				_, name, _ := strings.Cut(turn.Want, " ")
				c[name], want = turn.Source, append(want, turn.Want)
				b.play(func(*question) reply { return turn.Says })
				b.again(t, turn)
			}
			b.expect(t, c, b.turns(t), want...)
		})
	}
}

// again sends a recorded request and reads its answer to the end.
func (b *box) again(t *testing.T, turn recordedTurn) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), turn.Method, b.tap.URL+turn.URI, bytes.NewReader(fillIn(turn.Body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = turn.Header
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Errorf("%s: %v", turn.Want, err)
	}
}
