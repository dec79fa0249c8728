package proxy

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

// What the history keeps of a request must not keep the request: its body and its
// headers are the client's to choose, and thousands of records stay.
func TestRecordKeepsNothingOfTheRequestAlive(t *testing.T) {
	const (
		requests = 16
		size     = 1 << 20
	)
	long := strings.Repeat("B", size)
	tests := map[string]func() *http.Request{
		"a long model name": func() *http.Request {
			return post("/v1/chat/completions", `{"model":"nope`+long+`","messages":[]}`)
		},
		"a long model name with an escape": func() *http.Request {
			return post("/v1/chat/completions", `{"model":"\u006eope`+long+`","messages":[]}`)
		},
		"a long user agent": func() *http.Request {
			r := post("/v1/chat/completions", chat("nope", false))
			r.Header.Set("User-Agent", strings.Clone("agent/1 "+long))
			return r
		},
		"a long query": func() *http.Request {
			return post("/v1/chat/completions?q="+long, chat("nope", false))
		},
		"a long session": func() *http.Request {
			r := post("/v1/chat/completions", chat("nope", false))
			r.Header.Set("X-Session-Id", strings.Clone(long))
			return r
		},
		"a long broken form": func() *http.Request {
			r := post("/v1/audio/transcriptions", "--b\r\nbad"+long+"\r\n\r\n--b--")
			r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
			return r
		},
	}
	for name, request := range tests {
		t.Run(name, func(t *testing.T) {
			records := &memRecorder{}
			p := New(Options{Recorder: records})
			defer p.Close()
			p.Apply(&Snapshot{})
			before := heap()
			for range requests {
				p.ServeHTTP(httptest.NewRecorder(), request())
			}
			grown := heap() - before
			if len(records.all()) != requests {
				t.Fatalf("%d requests were recorded, want %d", len(records.all()), requests)
			}
			if grown > size {
				t.Errorf("%d records keep %d KiB; want less than one request of %d KiB", requests, grown>>10, size>>10)
			}
		})
	}
}

// post returns a request as a server would make it.
func post(target, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // pools let go with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A name is checked before it is looked up: a wildcard would take a long one, and each
// stored response and each piece of a stream would carry it.
func TestNamesThatAreNone(t *testing.T) {
	tests := map[string]struct {
		model  string // as it is written in JSON
		status int
		want   string
	}{
		"a number":     {`5`, http.StatusBadRequest, "Model must be a string."},
		"an object":    {`{"name":"m"}`, http.StatusBadRequest, "Model must be a string."},
		"true":         {`true`, http.StatusBadRequest, "Model must be a string."},
		"null":         {`null`, http.StatusNotFound, "names no model"},
		"text":         {`"m"`, http.StatusOK, ""},
		"a wildcard":   {`"claude-x"`, http.StatusOK, ""},
		"endless name": {`"claude-` + strings.Repeat("x", longestName) + `"`, http.StatusNotFound, "does not exist"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBox(t, 1, answers(1))
				got := b.post("/v1/chat/completions", `{"model":`+test.model+`,"messages":[{"role":"user","content":"x"}]}`)
				if got.status != test.status || !strings.Contains(got.body, test.want) {
					t.Errorf("got %d %s; want %d and %q", got.status, got.body, test.status, test.want)
				}
				b.wantIdle()
			})
		})
	}
}
