package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func TestConfigErrorsNameLineAndField(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"unknown field": {"inference_listen: 127.0.0.1:1\nadmin_lisen: x\n", []string{"c.yaml:2:1", "admin_lisen"}},
		"range":         {"engine:\n  port_base: 5\n", []string{"c.yaml:2:14", "engine.port_base", "1024", "60000"}},
		"model range":   {"models:\n- name: m\n  spec:\n    source: s\n    max_num_seqs: 99999\n", []string{"c.yaml:5:", "models[0].spec.max_num_seqs", "4096"}},
		"wrong kind":    {"insecure: perhaps\n", []string{"c.yaml:1:11"}},
		"not yaml":      {"a: [\n", []string{"c.yaml", "line"}},
		"no word":       {"models:\n- name: m\n  spec: {source: s}\n  routing:\n    admission: all\n", []string{"c.yaml:5:16", "models[0].routing.admission", `"none", "working set"`}},
		"no span":       {"engine:\n  drain_timeout: soon\n", []string{"c.yaml:2:18", "engine.drain_timeout", "10 min"}},
		"twice":         {"models:\n- {name: m, spec: {source: s}}\n- {name: m, spec: {source: s}}\n", []string{"\"m\" is declared twice"}},
		"alias":         {"models:\n- {name: a, spec: {source: s}}\n- {name: b, spec: {source: s, aliases: [a]}}\n", []string{"model \"b\"", "model \"a\""}},
		"no source":     {"models:\n- {name: a, spec: {replicas: 1}}\n", []string{"models: a", "source"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseConfig("c.yaml", []byte(test.text))
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
		})
	}
}

func TestEmptyConfigHasEveryDefault(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n---\n"} {
		cfg, err := parseConfig("c.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("STATE_DIRECTORY", "/var/lib/lmwarden:/other")
		cfg = withDefaults(cfg)
		e := cfg.GetEngine()
		if cfg.GetInferenceListen() != "127.0.0.1:8000" || cfg.GetAdminListen() != "127.0.0.1:8001" || cfg.GetDataDir() != "/var/lib/lmwarden" ||
			cfg.GetMaxBodyBytes() != 64<<20 || e.GetPortBase() != 18100 || e.GetCommand()[0] != "vllm" || e.GetDrainTimeout().AsDuration() != 30*time.Second {
			t.Errorf("%v", cfg)
		}
	}
}

func TestDefaultsDoNotChangeTheCallersConfig(t *testing.T) {
	cfg := &lmwardenv1.Config{}
	withDefaults(cfg)
	if cfg.GetInferenceListen() != "" || cfg.GetEngine() != nil {
		t.Errorf("changed to %v", cfg)
	}
}

func TestCheckConfigReturnsAllProblems(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("inference_listen: 0.0.0.0:8000\nadmin_listen: nowhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := CheckConfig(path)
	if err == nil || !strings.Contains(err.Error(), "keys_file") || !strings.Contains(err.Error(), "admin_listen") {
		t.Errorf("got %v, want both problems", err)
	}
	if _, err := CheckConfig(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a missing file is no error")
	}
}

func TestCheckConfigFindsWhatOnlyAStartWould(t *testing.T) {
	tests := map[string]struct {
		text      string
		note, err string // parts of them; empty for none
	}{
		"good":              {"default_model: m\nmodels: [{name: m, spec: {source: s}}]\n", "", ""},
		"default by alias":  {"default_model: claude-x\nmodels: [{name: m, spec: {source: s, aliases: [\"claude-*\"]}}]\n", "", ""},
		"default of nobody": {"default_model: zzz\n", `the name "zzz"`, ""},
		"keys file":         {"inference_auth: {keys_file: /nonexistent/keys}\n", "", "/nonexistent/keys"},
		"other's default":   {"inference_listen: 127.0.0.1:8001\n", "", "are one address"},
		"every interface":   {"insecure: on\nadmin_listen: 0.0.0.0:8000\n", "", "are one address"},
		"free ports":        {"inference_listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\n", "", ""},
		"remote password":   {"models: [{name: m, spec: {replica_mode: remote, remote_urls: [\"http://u:p@host\"]}}]\n", "", "models: m: spec.remote_urls[0]: the address \"…@host\" of an engine cannot be used: it holds a user"},
		"one word":          {"engine: {command: [x --y]}\n", "", "engine.command: [x, --y]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			notes, err := CheckConfig(path)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
			if got := strings.Join(notes, "\n"); (got == "") != (test.note == "") || !strings.Contains(got, test.note) {
				t.Errorf("notes %q, want %q", got, test.note)
			}
		})
	}
}

// TestRemoteURLsThatCouldNotBeUsed: an address that would be refused when a request is
// sent is refused before, and a password in it is not repeated.
func TestRemoteURLsThatCouldNotBeUsed(t *testing.T) {
	for url, want := range map[string]string{
		"http://10.0.0.7:8000":            "",
		"https://engines.example/a/":      "",
		"http://[::1]:8000":               "",
		"http://user:secret@host":         "holds a user or a password",
		"http://secret@host:8000/v1":      "holds a user or a password",
		"http://host:8000?key=secret":     "behind its path",
		"http://host:8000/a?":             "behind its path",
		"http://host:8000#secret":         "behind its path",
		"ftp://host":                      "write http:// or https://",
		"host:8000":                       "write http:// or https://",
		"http://":                         "names no host",
		"http://:8000":                    "names no host",
		"http://host:secret@x:y:8000/abc": "cannot be used",
	} {
		spec := &lmwardenv1.ModelSpec{ReplicaMode: lmwardenv1.ReplicaMode_REPLICA_MODE_REMOTE, RemoteUrls: []string{"http://good", url}}
		for door, err := range map[string]error{
			"the API":     checkModelSpec(&lmwardenv1.Model{Name: "m", Spec: spec}),
			"the file":    checkModels(&lmwardenv1.Config{Models: []*lmwardenv1.DeclaredModel{{Name: "m", Spec: spec}}}),
			"the message": checkConfigMessage(&lmwardenv1.Config{Models: []*lmwardenv1.DeclaredModel{{Name: "m", Spec: spec}}}),
		} {
			if (err == nil) != (want == "") {
				t.Errorf("%s, %s: %v", url, door, err)
				continue
			}
			if err == nil || door == "the message" { // where a rule of the field may be first
				continue
			}
			if text := err.Error(); !strings.Contains(text, want) || !strings.Contains(text, "remote_urls[1]") || strings.Contains(text, "secret") {
				t.Errorf("%s, %s: %v, want %q and no secret", url, door, err, want)
			}
		}
	}
}

func TestCheckSpec(t *testing.T) {
	tests := map[string]struct {
		spec *lmwardenv1.ModelSpec
		want string
	}{
		"good":             {&lmwardenv1.ModelSpec{Source: "s"}, ""},
		"good remote":      {&lmwardenv1.ModelSpec{ReplicaMode: lmwardenv1.ReplicaMode_REPLICA_MODE_REMOTE, RemoteUrls: []string{"http://a"}}, ""},
		"remote, no urls":  {&lmwardenv1.ModelSpec{ReplicaMode: lmwardenv1.ReplicaMode_REPLICA_MODE_REMOTE}, "remote_urls is empty"},
		"urls, not remote": {&lmwardenv1.ModelSpec{Source: "s", RemoteUrls: []string{"http://a"}}, "goes with replica mode remote"},
		"cards and size":   {&lmwardenv1.ModelSpec{Source: "s", TensorParallelSize: 2, Gpus: []string{"a", "b", "c"}}, "no multiple"},
		"one card":         {&lmwardenv1.ModelSpec{Source: "s", TensorParallelSize: 2, Gpus: []string{"a"}}, "names 1 card, which"},
		"too few cards":    {&lmwardenv1.ModelSpec{Source: "s", Replicas: 3, Gpus: []string{"a", "b"}}, "need 3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkSpec(test.spec)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
