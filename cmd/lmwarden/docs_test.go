package main

import (
	"os"
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
