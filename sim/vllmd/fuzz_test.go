package vllmd

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzBody sends any body to every API. The answer is tokens or a refusal with a body
// in JSON, and nothing is left in the engine.
func FuzzBody(f *testing.F) {
	opt, err := parseFlags([]string{"tiny", "--num-gpu-blocks-override=300", "--max-model-len", "512"}, defaultRelease)
	if err != nil {
		f.Fatal(err)
	}
	set, err := readSettings(func(string) string { return "" })
	if err != nil {
		f.Fatal(err)
	}
	set.speed = 1e6
	s, err := newServer(opt, set, newLogger(io.Discard, "APIServer", 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.close)
	for _, seed := range []string{
		`{"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url"}]}],"max_tokens":3}`,
		`{"model":"tiny","messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"x"}]}]}],"max_tokens":1,"system":[{"text":"y"}]}`,
		`{"model":"tiny","prompt":[[1,2,3]],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"tiny","input":[{"type":"function_call","name":"f","arguments":"{}"},{"type":"function_call_output","output":"1"}],"max_output_tokens":2}`,
		`{"messages":null}`, `[]`, `{"messages":5}`, `{"prompt":{}}`, ``, `{"max_tokens":-1,"prompt":"a"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/tokenize"} {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			s.handler.ServeHTTP(rec, req)
			switch rec.Code {
			case http.StatusOK, http.StatusNotFound:
			case http.StatusBadRequest:
				shape(t, rec.Body.String())
			default:
				t.Errorf("%s gave %d %s", path, rec.Code, rec.Body)
			}
		}
		if n := s.cores[0].busy(); n != 0 {
			t.Errorf("%d requests are left in the engine", n)
		}
	})
}

// FuzzFlags parses any command line: it gives usable options or an error, and says
// that a refused one is the user's mistake.
func FuzzFlags(f *testing.F) {
	for _, seed := range []string{"m --port 1", "m --x=1 --served-model-name a b", "-tp 2 m -O3", "--max-model-len 1e9k", "m --enable-auto-tool-choice", "- --= --no-"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		o, err := parseFlags(strings.Fields(line), defaultRelease)
		var usage *usageError
		if err == nil && (len(o.served) == 0 || o.blockSize < 1 || o.dp < 1 || o.tp < 1) {
			t.Errorf("%q gave %+v", line, o)
		}
		if errors.As(err, &usage) && usage.msg == "" {
			t.Errorf("%q is refused without a reason", line)
		}
	})
}
