package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect/v2"
)

// TestExitCodes holds codes and sentences together: a script reads the one, a person
// the other.
func TestExitCodes(t *testing.T) {
	box := newFakeBox(t)
	badConfig := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(badConfig, []byte("admin_listen: 127.0.0.1:8001\nengine:\n  port_base: 80\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	goodConfig := filepath.Join(t.TempDir(), "good.yaml")
	if err := os.WriteFile(goodConfig, []byte("admin_listen: 127.0.0.1:8001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		code int
		want string // part of what is printed
	}{
		{"version", []string{"version"}, 0, "lmwarden "},
		{"help", []string{"--help"}, 0, "Exit codes:"},
		{"a group alone", []string{"model"}, 0, "Usage:"},
		{"completion", []string{"completion", "bash"}, 0, "bash completion"},
		{"good configuration", []string{"config", "check", goodConfig}, 0, "is a valid configuration"},

		{"unknown verb", []string{"modell"}, exitUsage, "did you mean model?"},
		{"unknown verb of a group", []string{"model", "lst"}, exitUsage, "choose from add, list, logs"},
		{"unknown flag", []string{"model", "list", "--nope"}, exitUsage, "--nope"},
		{"help of no verb", []string{"help", "nope"}, exitUsage, "\"nope\" is not a verb"},
		{"help of no verb of a group", []string{"help", "model", "nope"}, exitUsage, "\"nope\" is not a verb of lmwarden model"},
		{"help of a verb", []string{"help", "model", "add"}, 0, "--source"},
		{"completion of no shell", []string{"completion", "tcsh"}, exitUsage, "choose from bash, fish"},
		{"not a number", []string{"model", "logs", "m", "--replica", "x"}, exitUsage, "it is not a number"},
		{"missing argument", []string{"model", "show"}, exitUsage, "MODEL is missing: lmwarden model show MODEL"},
		{"argument too many", []string{"model", "show", "a", "b"}, exitUsage, `"b" is one argument too many`},
		{"unknown form", []string{"model", "list", "-o", "xml"}, exitUsage, "choose table, wide, json or yaml"},
		{"form of another verb", []string{"model", "list", "-o", "csv"}, exitUsage, "has no form"},
		{"bad address", []string{"model", "list", "--addr", "ftp://x"}, exitUsage, "not the address of a daemon"},
		{"value out of range", []string{"routing", "set", "qwen3-4b", "--spill-threshold", "0"}, exitUsage, "from 1 to 4096"},
		{"not a switch", []string{"routing", "set", "qwen3-4b", "--affinity", "maybe"}, exitUsage, "affinity"},
		{"no choice", []string{"routing", "set", "qwen3-4b", "--policy", "best"}, exitUsage, "there are \"least loaded\", \"hash\""},
		{"nothing to set", []string{"routing", "set", "qwen3-4b"}, exitUsage, "nothing to set"},
		{"nothing to set on a model", []string{"model", "set", "qwen3-4b"}, exitUsage, "nothing to set"},
		{"no index", []string{"replica", "restart", "qwen3-4b", "two"}, exitUsage, "not the index"},
		{"no class", []string{"request", "list", "--decision", "best"}, exitUsage, "choose from placed, sticky"},
		{"no client", []string{"connect", "emacs"}, exitUsage, "claude-code, codex"},
		{"bad configuration", []string{"config", "check", badConfig}, exitUsage, "port_base"},
		{"missing configuration", []string{"serve", "--config", "/nonexistent/x.yaml"}, exitUsage, "cannot be read"},
		{"bad setting of serve", []string{"serve", "--admin-listen", "nowhere"}, exitUsage, "admin_listen"},
		{"bad log level", []string{"serve", "--log-level", "loud"}, exitUsage, "log_level"},
		{"demo without sessions", []string{"demo", "--sessions", "0"}, exitUsage, "choose 1 to 1024"},
		{"demo too fast", []string{"demo", "--speed", "1000"}, exitUsage, "choose 0.1 to 100"},
		{"demo with half an affinity", []string{"demo", "--affinity", "half"}, exitUsage, "neither on nor off"},
		{"demo in a form of its own", []string{"demo", "-o", "yaml"}, exitUsage, "table or json"},
		{"demo for no time", []string{"demo", "--for", "-1s"}, exitUsage, "negative"},
		{"bench without a step", []string{"bench", "sessions", "--duration", "0s"}, exitUsage, "too short"},
		{"bench with no sessions", []string{"bench", "sessions", "--steps", "0"}, exitUsage, "0 sessions"},
		{"bench with an unknown arm", []string{"bench", "sessions", "--arms", "best"}, exitUsage, "arm"},
		{"bench with an unknown API", []string{"bench", "sessions", "--api", "grpc"}, exitUsage, "messages or chat"},
		{"bench of a URL without a model", []string{"bench", "sessions", "--url", "http://127.0.0.1:1"}, exitUsage, "--model"},
		{"bench of a dead URL", []string{"bench", "sessions", "--url", "http://127.0.0.1:1", "--model", "m"}, exitFailure, "cannot be measured"},

		{"nobody there", []string{"model", "list", "--addr", "127.0.0.1:1"}, exitUnreachable, "start one with \"lmwarden serve\""},
		{"no such model", []string{"model", "show", "nope"}, exitNotFound, "there is qwen3-4b"},
		{"no such model to watch", []string{"routing", "watch", "nope"}, exitNotFound, "there is qwen3-4b"},
		{"no such request", []string{"request", "explain", "r9"}, exitNotFound, "r9"},
		{"no such model to connect to", []string{"connect", "codex", "--model", "nope"}, exitNotFound, "there are qwen3-4b"},
		{"changed meanwhile", []string{"model", "set", "qwen3-4b", "--replicas", "1", "--revision", "3"}, exitConflict, "its revision is 7"},
		{"not in this daemon", []string{"replica", "resume", "qwen3-4b", "0"}, exitFailure, "of this version"},
		{"a failed check", []string{"doctor"}, exitFailure, "mount it with 1 GiB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := box.lmwarden(t, test.args...)
			if got.code != test.code {
				t.Errorf("exit code %d, want %d", got.code, test.code)
			}
			if all := got.stdout + got.err; !strings.Contains(all, test.want) {
				t.Errorf("printed %q, want it to say %q", all, test.want)
			}
			if test.code != 0 && strings.Count(strings.TrimSpace(got.err), "\n") > 3 {
				t.Errorf("the error is more than a sentence or two:\n%s", got.err)
			}
		})
	}
}

// TestRemoteErrors maps every code that a daemon answers.
func TestRemoteErrors(t *testing.T) {
	box := newFakeBox(t)
	for code, want := range map[connect.Code]int{
		connect.CodeInvalidArgument:    exitUsage,
		connect.CodeNotFound:           exitNotFound,
		connect.CodeAlreadyExists:      exitConflict,
		connect.CodeFailedPrecondition: exitConflict,
		connect.CodeUnauthenticated:    exitRefused,
		connect.CodePermissionDenied:   exitRefused,
		connect.CodeInternal:           exitFailure,
		connect.CodeUnavailable:        exitFailure,
	} {
		box.fail = connect.NewError(code, "a sentence from the daemon")
		got := box.lmwarden(t, "model", "list")
		if got.code != want || got.err != "lmwarden: a sentence from the daemon\n" {
			t.Errorf("%s: exit code %d, want %d; printed %q", code, got.code, want, got.err)
		}
	}
}

// TestSignals ends the context at the first signal and hurries at the second.
func TestSignals(t *testing.T) {
	ctx, stop := watchSignals(t.Context())
	defer stop()
	raise := func(s syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	raise(syscall.SIGHUP) // the terminal was closed
	<-ctx.Done()
	if hurry(ctx).Err() != nil {
		t.Fatal("the first signal hurries already")
	}
	raise(syscall.SIGTERM)
	<-hurry(ctx).Done()
	if code := exitCode(errInterrupted); code != exitInterrupted {
		t.Errorf("exit code %d after a signal, want %d", code, exitInterrupted)
	}
}
