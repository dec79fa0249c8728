package vllmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// testServer serves a model "tiny" in this process, a thousand times faster than real.
// It has 2,000 blocks of 16 tokens.
func testServer(t *testing.T, flags ...string) (*server, string) {
	t.Helper()
	return testServerAt(t, 1000, flags...)
}

func testServerAt(t *testing.T, speed float64, flags ...string) (*server, string) {
	t.Helper()
	return testServerOf(t, "", speed, flags...)
}

// testServerOf serves as a version of vLLM, or as the usual one.
func testServerOf(t *testing.T, version string, speed float64, flags ...string) (*server, string) {
	t.Helper()
	set, err := readSettings(func(name string) string {
		if name == "LMWARDEN_SIM_VERSION" {
			return version
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	opt, err := parseFlags(append([]string{"org/tiny", "--served-model-name", "tiny", "--num-gpu-blocks-override=2000", "--max-model-len", "8192"}, flags...), set.release)
	if err != nil {
		t.Fatal(err)
	}
	set.speed = speed
	s, err := newServer(opt, set, newLogger(io.Discard, "APIServer", 1))
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(s.handler)
	web.Config.ConnContext = s.accepted
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		s.close()
	})
	return s, web.URL
}

// send makes a request and returns its answer with the whole body.
func send(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	res, answer, err := try(t, method, url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return res, answer
}

// try is send for a server that may have gone.
func try(t *testing.T, method, url, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return res, string(raw), err
}

// post sends a body that must be answered with 200.
func post(t *testing.T, url, body string) string {
	t.Helper()
	res, answer := send(t, http.MethodPost, url, body)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("POST %s gave %d: %s", url, res.StatusCode, answer)
	}
	return answer
}

// shape describes a JSON text by its keys and types: {a:n,b:[s],c:null}.
func shape(t *testing.T, text string) string {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, text)
	}
	return shapeOf(v)
}

func shapeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "b"
	case json.Number:
		return "n"
	case string:
		return "s"
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		return "[" + shapeOf(v[0]) + "]"
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+":"+shapeOf(v[k]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	default:
		panic(fmt.Sprintf("%T is not from JSON", v))
	}
}

// dig returns the value under keys in a JSON object.
func dig(t *testing.T, text string, keys ...string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, text)
	}
	for _, k := range keys {
		if list, ok := v.([]any); ok {
			v = list[0]
		}
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("nothing under %q in %s", k, text)
		}
		v = m[k]
	}
	return v
}

// frames splits a stream into its events: the name, if any, and the data.
func frames(t *testing.T, text string) (names, data []string) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		name := ""
		if head, rest, ok := strings.Cut(block, "\n"); ok {
			name, block = strings.TrimPrefix(head, "event: "), rest
		}
		d, ok := strings.CutPrefix(block, "data: ")
		if !ok {
			t.Fatalf("not an event: %q", block)
		}
		names, data = append(names, name), append(data, d)
	}
	return names, data
}
