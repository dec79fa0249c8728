package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

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
