package contract

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// exchange is one entry of the table: a request, and what its answer must be.
type exchange struct {
	name   string
	method string // POST when empty
	path   string
	header []string // names and values in turn, beside a Content-Type of JSON
	body   string

	status  int      // 200 when 0
	names   []string // of the answer's headers; those of a JSON body when nil
	content string   // Content-Type; JSON when empty, none for a bodyless answer
	want    any      // shape of the JSON body
	events  []step   // of a stream
	atOnce  []step   // of one whose first and last token came together, where these are not its events less the runs
	// Comments may stand between the events: of a slow machine they do.
	comments bool
}

// noBody is the shape of an answer without a body.
const noBody kind = "no body"

// Names of the headers of answers.
var (
	jsonNames   = []string{"Content-Length", "Content-Type", "Date", "Server", "Vary"}
	emptyNames  = []string{"Content-Length", "Date", "Server", "Vary"}
	streamNames = []string{"Content-Type", "Date", "Server", "Transfer-Encoding", "Vary"}
	allowNames  = []string{"Allow", "Content-Length", "Content-Type", "Date", "Server", "Vary"}
)

const (
	jsonContent   = "application/json"
	streamContent = "text/event-stream; charset=utf-8"
)

// table is the whole surface, by what is called.
func table() []exchange {
	return slices.Concat(chatTable(), completionsTable(), messagesTable(), responsesTable(), plainTable(), tokenTable(), choicesTable(), logprobsTable(), echoTable(), errorTable(), otherModelsTable(), samplingErrors(), rankTable())
}

// client forgets its idle connections before an engine closes them: one must not be
// used while it is being closed.
var client = &http.Client{Transport: &http.Transport{IdleConnTimeout: 2 * time.Second, MaxIdleConnsPerHost: 8}}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// send makes a request and reads its answer whole.
func (x exchange) send(ctx context.Context, url string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	method := x.method
	if method == "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, url+x.path, strings.NewReader(x.body))
	if err != nil {
		return answer{}, err
	}
	if x.body != "" {
		request.Header.Set("Content-Type", jsonContent)
	}
	for i := 0; i+1 < len(x.header); i += 2 {
		request.Header.Set(x.header[i], x.header[i+1])
		if x.header[i+1] == "" {
			request.Header.Del(x.header[i])
		}
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("read the answer: %w", err)
	}
	// The client takes this header out of the others.
	if len(response.TransferEncoding) > 0 {
		response.Header["Transfer-Encoding"] = response.TransferEncoding
	}
	return answer{response.StatusCode, response.Header, string(body)}, nil
}

// hold asks an engine and holds its answer against the entry.
func (x exchange) hold(t *testing.T, url string) {
	t.Helper()
	for range 50 {
		got, err := x.send(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if !x.runless(got) {
			x.check(t, got)
			return
		}
	}
	t.Error("none of 50 answers showed the events between its first and its last")
}

// runless is true for the answer of an engine that this machine kept waiting: it tells of
// all its tokens, or all but the last, in one event, so that there is none of the runs of
// events that are to be looked at. All else of it must be right.
func (x exchange) runless(got answer) bool {
	rest := slices.DeleteFunc(slices.Clone(x.events), func(s step) bool { return s.many })
	if len(rest) == len(x.events) || got.status != http.StatusOK {
		return false
	}
	for _, steps := range [][]step{rest, x.atOnce} {
		x.events = steps
		if steps != nil && len(x.bodyDifferences(got.body)) == 0 {
			return true
		}
	}
	return false
}

// check holds an answer against an entry.
func (x exchange) check(t *testing.T, got answer) {
	t.Helper()
	status, names, content := x.status, x.names, x.content
	if status == 0 {
		status = http.StatusOK
	}
	if names == nil {
		names = jsonNames
	}
	if content == "" && x.want != noBody {
		content = jsonContent
	}
	if x.events != nil {
		content = streamContent
		if x.names == nil {
			names = streamNames
		}
	}
	if got.status != status {
		t.Errorf("status %d, want %d", got.status, status)
	}
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(got.header))); diff != "" {
		t.Errorf("header names (-want +got):\n%s", diff)
	}
	if c := got.header.Get("Content-Type"); c != content {
		t.Errorf("Content-Type is %q, want %q", c, content)
	}
	for _, difference := range x.bodyDifferences(got.body) {
		t.Error(difference)
	}
	if t.Failed() {
		t.Logf("the answer was %s", got.body)
	}
}

func (x exchange) bodyDifferences(body string) []string {
	if x.want == noBody {
		if body != "" {
			return []string{fmt.Sprintf("the body is %q, want none", body)}
		}
		return nil
	}
	if x.comments {
		body = strings.ReplaceAll(body, ": keep-alive\n\n", "")
	}
	if x.events != nil {
		events, err := parseEvents(body)
		if err != nil {
			return []string{err.Error()}
		}
		return follow(x.events, events)
	}
	value, err := decode([]byte(body))
	if err != nil {
		return []string{fmt.Sprintf("the body %q is no JSON: %v", body, err)}
	}
	return differences("", x.want, value)
}
