package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestRefusals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1), func(o *Options, s *Snapshot) {
			o.MaxBodyBytes = 1 << 20
			s.Keys = map[string]string{"secret": "team"}
			s.Models = append(s.Models, Model{Name: "cold", State: "starting: loading weights"}, Model{Name: "halted", State: "it is stopped; start it", Halted: true})
		})
		big := `{"model":"m","x":"` + strings.Repeat("y", 2<<20) + `"}`
		for _, c := range []struct {
			name, path, body, key string
			status                int
			says                  string
		}{
			{"no key", "/v1/chat/completions", chat("m", false), "", 401, "API key"},
			{"wrong key", "/v1/messages", chat("m", false), "guess", 401, "API key"},
			{"unknown model", "/v1/chat/completions", chat("nope", false), "secret", 404, "Names that do: alias, cold, halted, m, claude-*."},
			{"no model named", "/v1/chat/completions", `{"messages":[]}`, "secret", 404, "names no model"},
			{"unknown model, Anthropic", "/v1/messages", chat("nope", false), "secret", 404, "`nope`"},
			{"not JSON", "/v1/chat/completions", "hello", "secret", 400, "not one JSON object"},
			{"not JSON, Anthropic", "/v1/messages", "hello", "secret", 400, "not one JSON object"},
			{"truncated", "/v1/messages", `{"model":"m"`, "secret", 400, "not one JSON object"},
			{"too large", "/v1/chat/completions", big, "secret", 413, "1 MiB"},
			{"too large, Anthropic", "/v1/messages", big, "secret", 413, "1 MiB"},
			{"not ready", "/v1/messages", chat("cold", false), "secret", 503, "loading weights"},
			{"stopped", "/v1/messages", chat("halted", false), "secret", 503, "`halted` is ready: it is stopped"},
			{"no such path", "/v1/nothing", chat("m", false), "secret", 404, "nothing at this path"},
			{"unknown response", "/v1/responses/resp_1", "", "secret", 404, "resp_1"},
		} {
			got := b.post(c.path, c.body, "Authorization", "Bearer "+c.key)
			if got.status != c.status || !strings.Contains(got.body, c.says) {
				t.Errorf("%s: got %d %s, want %d and %q", c.name, got.status, got.body, c.status, c.says)
			}
			wantErrorShape(t, c.name, c.path, got)
			wait := map[string]string{"not ready": "5"}[c.name]
			if got.header.Get("Retry-After") != wait || strings.Contains(got.body, "Try again") != (wait != "") {
				t.Errorf("%s: Retry-After is %q, want %q; %s", c.name, got.header.Get("Retry-After"), wait, got.body)
			}
		}
		if got := b.post("/v1/messages", chat("m", false), "X-Api-Key", "secret"); got.status != 200 {
			t.Errorf("x-api-key: got %d %s", got.status, got.body)
		}
		b.wantIdle()
		if v, _ := b.proxy.View("m"); v.Conversations > 1 {
			t.Errorf("refused requests left %d conversations", v.Conversations)
		}
	})
}

// wantErrorShape checks that an error has the shape of the API that was called.
func wantErrorShape(t *testing.T, name, path string, got gotReply) {
	t.Helper()
	var e struct {
		Type  string `json:"type"`
		Error *struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Code    *int   `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(got.body), &e); err != nil || e.Error == nil {
		t.Errorf("%s: no error object: %s", name, got.body)
		return
	}
	anthropic := strings.HasPrefix(path, "/v1/messages")
	if anthropic && (e.Type != "error" || e.Error.Code != nil) {
		t.Errorf("%s: not Anthropic's shape: %s", name, got.body)
	}
	if !anthropic && (e.Error.Code == nil || *e.Error.Code != got.status) {
		t.Errorf("%s: not OpenAI's shape: %s", name, got.body)
	}
	if ct := got.header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("%s: content type %q", name, ct)
	}
}

func TestOtherMethodsAreToldWhichOneIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		for _, c := range []struct{ method, path, allow string }{
			{http.MethodGet, "/v1/chat/completions", "POST"},
			{http.MethodGet, "/v1/responses", "POST"},
			{http.MethodPost, "/v1/models", "GET, HEAD"},
			{http.MethodDelete, "/v1/responses/resp_1", "GET"},
			{http.MethodPost, "/health", "GET, HEAD"},
		} {
			r := b.request(context.Background(), c.path, "")
			r.Method = c.method
			got := b.do(r)
			if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != c.allow || !strings.Contains(got.body, "use "+c.allow) {
				t.Errorf("%s %s: got %d, Allow %q, %s; want 405 and %q", c.method, c.path, got.status, got.header.Get("Allow"), got.body, c.allow)
			}
			wantErrorShape(t, c.path, c.path, got)
		}
	})
}

func TestModelsAreOurs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		var list struct {
			Object string `json:"object"`
			Data   []struct {
				ID   string `json:"id"`
				Root string `json:"root"`
				Len  int    `json:"max_model_len"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(b.post("/v1/models?limit=1000", "").body), &list); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(list.Object, list.Data)
		if want := "list[{m m 4096} {alias m 4096}]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for name, status := range map[string]int{"m": 200, "alias": 200, "claude-opus-4-8": 200, "nope": 404} {
			if got := b.post("/v1/models/"+name, ""); got.status != status {
				t.Errorf("model %s: got %d, want %d", name, got.status, status)
			}
		}
		if n := len(b.engines[0].requests()); n != 0 {
			t.Errorf("the engine was asked %d times", n)
		}
		if n := len(b.records.all()); n != 0 {
			t.Errorf("%d records, want none", n)
		}
	})
}

func TestProbesAreAnsweredWithoutAKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 0, answers(1), func(_ *Options, s *Snapshot) { s.Keys = map[string]string{"secret": "team"} })
		for _, c := range []struct{ method, path string }{
			{http.MethodHead, "/"}, {http.MethodHead, "/api/hello"}, {http.MethodGet, "/api/hello"}, {http.MethodGet, "/health"},
		} {
			r := b.request(context.Background(), c.path, "")
			r.Method = c.method
			if got := b.do(r); got.status != 200 {
				t.Errorf("%s %s: got %d", c.method, c.path, got.status)
			}
		}
	})
}

// A default model serves names that nobody has, gives them back, and is not listed
// under them.
func TestDefaultModel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1), func(_ *Options, s *Snapshot) { s.DefaultModel = "m" })
		got := b.post("/v1/chat/completions", chat("gpt-9", false))
		if got.status != 200 || !strings.Contains(got.body, `"model":"gpt-9"`) {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if got := b.post("/v1/chat/completions", `{"messages":[]}`); got.status != 200 || got.body != chatWhole {
			t.Errorf("no name: got %d %s", got.status, got.body)
		}
		got = b.post("/v1/models/gpt-9", "", "Anthropic-Version", "2023-06-01")
		if got.status != 404 || !strings.HasPrefix(got.body, `{"type":"error"`) {
			t.Errorf("got %d %s", got.status, got.body)
		}
		b.wantIdle()
		for _, r := range b.records.all() {
			if r.Model != "m" {
				t.Errorf("recorded as %q", r.Model)
			}
		}
	})
}

func TestBadForms(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		part := "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n"
		for name, c := range map[string]struct{ kind, body string }{
			"no boundary": {"multipart/form-data", part + "--x--\r\n"},
			"truncated":   {"multipart/form-data; boundary=x", part},
			"no media":    {"multipart/;", part},
		} {
			r := b.request(context.Background(), "/v1/audio/transcriptions", c.body)
			r.Header.Set("Content-Type", c.kind)
			if got := b.do(r); got.status != 400 || !strings.Contains(got.body, "multipart form") {
				t.Errorf("%s: got %d %s", name, got.status, got.body)
			}
		}
		r := b.request(context.Background(), "/v1/audio/transcriptions", "--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nm\r\n--x--\r\n")
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		if got := b.do(r); got.status != 404 {
			t.Errorf("no model: got %d %s", got.status, got.body)
		}
		b.wantIdle()
	})
}

// A JSON answer that is too long to be read whole is passed on unread.
func TestLongWholeAnswerFlows(t *testing.T) {
	for length, flows := range map[int]bool{9: false, 10: false, 11: true} {
		a := &answer{resp: &http.Response{Body: io.NopCloser(strings.NewReader(strings.Repeat("x", length)))}}
		if err := a.readWhole(10); err != nil {
			t.Fatal(err)
		}
		got := len(a.whole)
		if a.flows {
			got = len(a.first)
		}
		if a.flows != flows || got != length {
			t.Errorf("%d bytes: flows %t with %d bytes, want %t", length, a.flows, got, flows)
		}
		a.close()
	}
}
