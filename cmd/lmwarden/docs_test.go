package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/face"
)

// TestExampleFileIsCompleteAndValid keeps docs/lmwarden.yaml a file that a daemon takes,
// and one that has every setting.
func TestExampleFileIsCompleteAndValid(t *testing.T) {
	const path = "../../docs/lmwarden.yaml"
	got := lmwarden(t, nil, "", "config", "check", path)
	if got.code != 0 || got.err != "" {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	settings := []proto.Message{
		&lmwardenv1.Config{}, &lmwardenv1.EngineConfig{}, &lmwardenv1.InferenceAuth{}, &lmwardenv1.AdminAuth{},
		&lmwardenv1.ModelSpec{}, &lmwardenv1.RoutingSettings{}, &lmwardenv1.KeyLimits{}, &lmwardenv1.TlsFiles{},
	}
	for _, m := range settings {
		for _, f := range face.Fields(m.ProtoReflect().Descriptor()) {
			if !strings.Contains(string(data), " "+f.Name+":") && !strings.Contains(string(data), "\n"+f.Name+":") {
				t.Errorf("%s lacks %s of %T", path, f.Name, m)
			}
		}
	}
}

// TestExampleOfKeysIsValid takes the comments away from the keys of docs/lmwarden.yaml,
// which are one because declared limits are no longer set by the command line.
func TestExampleOfKeysIsValid(t *testing.T) {
	data, err := os.ReadFile("../../docs/lmwarden.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), "# inference_auth:\n")
	block, _, ends := strings.Cut(rest, "# admin_auth:\n")
	if !found || !ends || !strings.Contains(block, "#   keys:\n") {
		t.Fatalf("the file has no commented inference_auth with keys before admin_auth:\n%s", data)
	}
	keys, file := filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "keys.yaml")
	text := "inference_auth:\n" + strings.ReplaceAll("\n"+block, "\n#", "\n")
	text = strings.Replace(text, "/etc/lmwarden/keys", keys, 1)
	if err := errors.Join(os.WriteFile(keys, []byte("sk-one # team-a\n"), 0o600), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := lmwarden(t, nil, "", "config", "check", file); got.code != 0 || got.err != "" {
		t.Errorf("exit code %d: %s%s\n%s", got.code, got.stdout, got.err, text)
	}
}

// TestDocsNameEveryVerb keeps docs/command-line.md and the help in step: each verb and
// each exit code stands in both.
func TestDocsNameEveryVerb(t *testing.T) {
	data, err := os.ReadFile("../../docs/command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(data)
	root := (&app{streams: streams{getenv: func(string) string { return "" }}}).newRoot()
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		verb := strings.TrimPrefix(c.CommandPath(), "lmwarden ")
		if c != root && !c.HasSubCommands() && !strings.Contains(docs, "`"+verb) {
			t.Errorf("docs/command-line.md does not name %q", verb)
		}
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(root)
	for line := range strings.Lines(exitHelp) {
		code, _, found := strings.Cut(strings.TrimSpace(line), "  ")
		if found && !strings.Contains(docs, "| "+code+" |") {
			t.Errorf("docs/command-line.md has no row for exit code %s", code)
		}
	}
}

// TestHelpFitsATerminal keeps every line of every verb's help within 110 columns.
func TestHelpFitsATerminal(t *testing.T) {
	var out strings.Builder
	root := (&app{streams: streams{out: &out, err: &out, getenv: func(string) string { return "" }}}).newRoot()
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		out.Reset()
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > mostHelpColumns {
				t.Errorf("%s: a line of its help has %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for _, child := range c.Commands() {
			if child.Name() != "completion" { // its texts are the library's own
				visit(child)
			}
		}
	}
	visit(root)
	if help := lmwarden(t, nil, "", "model", "add", "--help").stdout; !strings.Contains(help, "--source") || strings.Contains(help, "Flags.") {
		t.Errorf("the help of model add is %s", help)
	}
}
