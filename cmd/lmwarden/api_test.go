package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAPI calls methods that have no verb of their own.
func TestAPI(t *testing.T) {
	box := newFakeBox(t)
	file := filepath.Join(t.TempDir(), "request.json")
	if err := os.WriteFile(file, []byte(`{"model":"qwen3-4b"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		args  []string
		stdin string
		code  int
		lines int
		want  string
	}{
		{"empty request", []string{"SystemService.GetInfo"}, "", 0, 1, `"version":"1.0"`},
		{"with data", []string{"RoutingService.GetRouting", "-d", `{"model":"qwen3-4b"}`}, "", 0, 1, `"spillThreshold":8`},
		{"from a file", []string{"RoutingService.GetRouting", "-d", "@" + file}, "", 0, 1, `"spillThreshold":8`},
		{"from standard input", []string{"RoutingService.GetRouting", "-d", "-"}, `{"model":"qwen3-4b"}`, 0, 1, `"spillThreshold":8`},
		{"as grpcurl writes it", []string{"lmwarden.v1.RoutingService/GetRouting", "-d", "@" + file}, "", 0, 1, `"spillThreshold":8`},
		{"a stream", []string{"RoutingService.WatchRouting", "-d", "@" + file}, "", 0, 2, `"card":`},
		{"bytes", []string{"SystemService.Backup"}, "", 0, 2, `"data":"Zmlyc3Qg"`},
		{"another case", []string{"routingservice.getRouting"}, "", exitUsage, 0, "did you mean RoutingService.GetRouting"},
		{"method alone", []string{"GetRouting"}, "", exitUsage, 0, "did you mean RoutingService.GetRouting"},
		{"no method", []string{"Nope.Nope"}, "", exitUsage, 0, "no method of the API"},
		{"unknown field", []string{"RoutingService.GetRouting", "-d", `{"mdl":"x"}`}, "", exitUsage, 0, `unknown field "mdl"`},
		{"not JSON", []string{"RoutingService.GetRouting", "-d", `model`}, "", exitUsage, 0, "not a GetRoutingRequest"},
		{"no file", []string{"RoutingService.GetRouting", "-d", "@/nonexistent"}, "", exitUsage, 0, "cannot be read"},
		{"refused by the daemon", []string{"RoutingService.GetRouting", "-d", `{"model":"x"}`}, "", exitNotFound, 0, "there is qwen3-4b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := lmwarden(t, map[string]string{"LMWARDEN_ADDR": box.url}, test.stdin, append([]string{"api"}, test.args...)...)
			if got.code != test.code {
				t.Errorf("exit code %d, want %d", got.code, test.code)
			}
			if all := got.stdout + got.err; !strings.Contains(all, test.want) {
				t.Errorf("printed %q, want it to say %q", all, test.want)
			}
			lines := strings.Split(got.stdout, "\n")
			if len(lines)-1 != test.lines {
				t.Errorf("%d lines, want %d:\n%s", len(lines)-1, test.lines, got.stdout)
			}
			for _, line := range lines[:len(lines)-1] {
				if !json.Valid([]byte(line)) {
					t.Errorf("not a JSON line: %s", line)
				}
			}
		})
	}
}
