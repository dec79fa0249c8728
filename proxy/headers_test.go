package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Headers pass in both directions as a multiset, less those of the connection and the
// client's credentials.
func TestHeadersPassBothWays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Content-Type", "application/json")
			h.Set("X-Request-Id", "engine-id")
			h.Set("Retry-After", "3")
			h["X-Twice"] = []string{"a", "b"}
			h.Set("Keep-Alive", "timeout=5")
			h.Set("Connection", "X-Hop")
			h.Set("X-Hop", "1")
			h.Set(headerReplica, "forged")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, "{}")
		})
		got := b.post("/v1/messages?beta=true", chat("m", false),
			"Authorization", "Bearer mine", "X-Api-Key", "mine", "Anthropic-Beta", "x,y", "X-Request-Id", "client-id",
			"X-Twice", "a", "X-Twice", "b", "Connection", "X-Gone, Keep-Alive", "X-Gone", "1", "Te", "trailers",
			"User-Agent", "claude-cli/2.1 (external)", "Accept-Encoding", "gzip")
		seen := b.engines[0].requests()[0]
		want := http.Header{
			"Authorization": {"Bearer engine-key"}, "Anthropic-Beta": {"x,y"}, "X-Request-Id": {"client-id"},
			"X-Twice": {"a", "b"}, "User-Agent": {"claude-cli/2.1 (external)"}, "Content-Type": {"application/json"},
			"Content-Length": {fmt.Sprint(len(chat("m", false)))},
		}
		if d := cmp.Diff(want, seen.header); d != "" {
			t.Errorf("the engine got (-want +got):\n%s", d)
		}
		if seen.host != "engine0:8000" || seen.uri != "/v1/messages?beta=true" {
			t.Errorf("the engine got host %s, uri %s", seen.host, seen.uri)
		}
		for name, values := range map[string][]string{
			"X-Request-Id": {"engine-id"}, "Retry-After": {"3"}, "X-Twice": {"a", "b"}, "Keep-Alive": nil,
			"X-Hop": nil, headerReplica: {"m/0"}, "Content-Length": {"2"},
		} {
			if d := cmp.Diff(values, got.header.Values(name)); d != "" && len(values)+len(got.header.Values(name)) > 0 {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
		b.wantIdle()
		if r := b.records.all()[0]; r.Client != "claude-cli/2.1" || r.Path != "/v1/messages" {
			t.Errorf("client %q, path %q", r.Client, r.Path)
		}
	})
}

// A stream has the engine's headers and ours, and no other: what the engine says about
// buffering is kept, and nothing is said in its place.
func TestHeadersOfAStream(t *testing.T) {
	for _, buffering := range [][]string{nil, {"no"}} {
		bubble(t, func(t *testing.T) {
			b := newBox(t, 1, func(w http.ResponseWriter, r *http.Request) {
				if buffering != nil {
					w.Header()["X-Accel-Buffering"] = buffering
					w.Header().Set("Cache-Control", "no-store")
				}
				answers(1)(w, r)
			})
			got := b.post("/v1/chat/completions", chat("m", true))
			want := http.Header{"Content-Type": {eventStream}, "Date": got.header["Date"]}
			if buffering != nil {
				want["X-Accel-Buffering"], want["Cache-Control"] = buffering, []string{"no-store"}
			}
			for name := range got.header {
				if strings.HasPrefix(name, "X-Lmwarden-") {
					delete(got.header, name)
				}
			}
			if d := cmp.Diff(want, got.header); d != "" {
				t.Errorf("the client got (-want +got):\n%s", d)
			}
		})
	}
}

// Without a key of its own the engine gets none: never the client's.
func TestClientKeysEndAtTheProxy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		b.change(func(m *Model) { m.Replicas[0].APIKey = "" })
		b.post("/v1/chat/completions", chat("m", false), "Authorization", "Bearer mine", "X-Api-Key", "mine")
		if h := b.engines[0].requests()[0].header; h.Get("Authorization") != "" || h.Get("X-Api-Key") != "" {
			t.Errorf("the engine got %v", h)
		}
	})
}

// A client that does not name itself stays unnamed.
func TestNoUserAgentIsInvented(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		b.post("/v1/chat/completions", chat("m", false), "User-Agent", "")
		if got := b.engines[0].requests()[0].header.Values("User-Agent"); len(got) > 0 {
			t.Errorf("the engine got the user agent %q", got)
		}
	})
}

// asked notes whether a body was read.
type asked struct {
	io.Reader
	read bool
}

func (a *asked) Read(p []byte) (int, error) { a.read = true; return a.Reader.Read(p) }
func (*asked) Close() error                 { return nil }

// A client that waits for 100-continue is not asked for a body that is refused, and is
// asked for one that is welcome.
func TestExpectContinue(t *testing.T) {
	for _, c := range []struct {
		size   int
		status int
		asked  bool
	}{{2 << 20, 200, true}, {4 << 20, 413, false}} {
		bubble(t, func(t *testing.T) {
			b := newBox(t, 1, answers(1), func(o *Options, _ *Snapshot) { o.MaxBodyBytes = 3 << 20 })
			body := chat("m", false)
			body += strings.Repeat(" ", c.size-len(body))
			r := b.request(context.Background(), "/v1/chat/completions", body, "Expect", "100-continue")
			a := &asked{Reader: strings.NewReader(body)}
			r.Body = a
			b.client.Transport.(*http.Transport).ExpectContinueTimeout = 1 << 40
			got := b.do(r)
			if got.status != c.status || a.read != c.asked {
				t.Errorf("%d bytes: got %d %v, body sent: %t; want %d, %t", c.size, got.status, got.err, a.read, c.status, c.asked)
			}
			for _, e := range b.engines[0].requests() {
				if e.header.Get("Expect") != "" || len(e.body) != len(body) {
					t.Errorf("the engine got Expect %q and %d bytes", e.header.Get("Expect"), len(e.body))
				}
			}
		})
	}
}

// Agents send megabytes; past the limit the refusal can be read, and pins nothing.
func TestBodySizes(t *testing.T) {
	if n := (Options{}).withDefaults().MaxBodyBytes; n != 64<<20 {
		t.Errorf("the default limit is %d bytes, want 64 MiB", n)
	}
	const limit = 8 << 20
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1), func(o *Options, _ *Snapshot) { o.MaxBodyBytes = limit })
		pad := func(size int) string {
			body := chat("m", false)
			return body[:len(body)-1] + `,"pad":"` + strings.Repeat("x", size-len(body)-9) + `"}`
		}
		for _, c := range []struct {
			size, status int
			chunked      bool
		}{
			{900 << 10, 200, false},
			{1100 << 10, 200, true},
			{5 << 20, 200, false},
			{limit, 200, false},
			{limit + 1, 413, false},
			{limit + 1, 413, true},
		} {
			r := b.request(context.Background(), "/v1/messages", pad(c.size), session(fmt.Sprintf("a-conversation-of-%d", c.size))...)
			if c.chunked {
				r.ContentLength = -1
			}
			got := b.do(r)
			if got.err != nil || got.status != c.status {
				t.Errorf("%d bytes: got %d %v, want %d", c.size, got.status, got.err, c.status)
			}
			if c.status == 413 && !strings.Contains(got.body, `{"type":"error","error":{"type":"request_too_large"`) {
				t.Errorf("%d bytes: got %s", c.size, got.body)
			}
		}
		if v, _ := b.proxy.View("m"); v.Conversations != 4 {
			t.Errorf("%d conversations, want 4: a refused request pins nothing", v.Conversations)
		}
	})
}

func TestConnectionListed(t *testing.T) {
	h := http.Header{"Connection": {"close, x-one", " X-Two ,,"}}
	if got := fmt.Sprint(connectionListed(h)); got != "map[Close:true X-One:true X-Two:true]" {
		t.Error(got)
	}
	if connectionListed(http.Header{}) != nil {
		t.Error("nothing is listed")
	}
}

func TestCompressedBodyIsRefused(t *testing.T) {
	p := New(Options{})
	defer p.Close()
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader([]byte{0x1f, 0x8b}))
	r.Header.Set("Content-Encoding", "gzip")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if w.Code != http.StatusUnsupportedMediaType || !strings.Contains(w.Body.String(), "Content-Encoding") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
