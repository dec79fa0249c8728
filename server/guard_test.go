package server

import (
	"strings"
	"testing"
)

// TestForeignPagesCannotUseTheModels calls the inference listener as a page of another
// site would, and as the clients do that it is there for.
func TestForeignPagesCannotUseTheModels(t *testing.T) {
	s, err := start(t, Options{Config: testConfig(t)})
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + s.InferenceAddr().String()
	port := base[strings.LastIndexByte(base, ':'):]
	const chat, messages, list = "/v1/chat/completions", "/v1/messages?beta=true", "/v1/models"
	tests := map[string]struct {
		method, path string
		header       []string
		code         int
		want         string
	}{
		"curl":                        {"POST", chat, nil, 404, "no model is configured"},
		"an SDK":                      {"POST", chat, []string{"User-Agent", "OpenAI/Python 2.1.0", "Host", "localhost" + port}, 404, "no model is configured"},
		"Claude Code":                 {"POST", messages, []string{"User-Agent", "claude-cli/2.1.197 (external, cli)", "Anthropic-Version", "2023-06-01"}, 404, `"not_found_error"`},
		"a browser's address bar":     {"GET", list, []string{"Sec-Fetch-Site", "none"}, 200, `"data"`},
		"a page of this very port":    {"POST", chat, []string{"Sec-Fetch-Site", "same-origin", "Origin", base}, 404, "no model is configured"},
		"an address behind a forward": {"GET", list, []string{"Host", "192.168.1.2" + port}, 200, `"data"`},
		"a rebound name reads":        {"GET", list, []string{"Host", "evil.example" + port}, 421, "inference_auth.keys_file"},
		"a rebound name asks":         {"POST", chat, []string{"Host", "evil.example" + port, "Origin", "http://evil.example" + port, "Sec-Fetch-Site", "same-origin"}, 421, `"error"`},
		"another site asks":           {"POST", chat, []string{"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site", "Content-Type", "text/plain"}, 403, `"error"`},
		"another site, old browser":   {"POST", messages, []string{"Origin", "http://evil.example", "Content-Type", "text/plain"}, 403, `"type":"error"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text := ""
			if test.method == "POST" {
				text = `{"model":"x","messages":[]}`
			}
			code, got := body(t, test.method, base+test.path, text, test.header...)
			if code != test.code || !strings.Contains(got, test.want) {
				t.Errorf("%d %s; want %d with %s", code, got, test.code, test.want)
			}
		})
	}
}
