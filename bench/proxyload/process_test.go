package proxyload

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// shell starts a script as a process; the test's end stops it.
func shell(t *testing.T, script string) *process {
	t.Helper()
	p, err := begin("script", "/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return p
}

// TestProcessorTime counts what a process and its children compute, and nobody else.
func TestProcessorTime(t *testing.T) {
	// A child that only stays is there before the one that computes for a while, says so,
	// and stays. No shell becomes its last command, for it is another one.
	p := shell(t, `sleep 1000 & sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo "child at here"; exec sleep 1000'; :`)
	if _, err := p.url(t.Context(), "child at"); err != nil {
		t.Fatal(err)
	}
	all, err := p.cpu()
	if err != nil {
		t.Fatal(err)
	}
	alone, err := processorTime(p.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if alone <= 0 || all <= alone {
		t.Errorf("%s with its children and %s alone; the child computed", all, alone)
	}
	pids, err := family(p.cmd.Process.Pid)
	if err != nil || len(pids) != 3 || slices.Contains(pids, os.Getpid()) {
		t.Errorf("the family is %v, %v; want the process and two children", pids, err)
	}
	// The clock of this process is the one that the kernel has for whoever asks for his own.
	mine := func() time.Duration {
		var used unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &used); err != nil {
			t.Fatal(err)
		}
		return time.Duration(used.Nano())
	}
	before := mine()
	own, err := processorTime(os.Getpid())
	if after := mine(); err != nil || own < before || own > after {
		t.Errorf("this process used %s, %v; by its own clock %s before and %s after", own, err, before, after)
	}
}

// TestProcessSaysWhere takes the address from the line that has it.
func TestProcessSaysWhere(t *testing.T) {
	p := shell(t, "echo hello; echo; echo 'answers at http://127.0.0.1:1'; exec sleep 1000")
	if url, err := p.url(t.Context(), "answers at"); err != nil || url != "http://127.0.0.1:1" {
		t.Errorf("got %q, %v", url, err)
	}
	tired, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.answers(tired, func(context.Context) error { return errors.New("refused") }); err == nil || !strings.Contains(err.Error(), "carries no stream: refused") {
		t.Errorf("a process that never answers: %v", err)
	}
}

// TestProcessThatEnds is told with its last words, also when somebody else answers.
func TestProcessThatEnds(t *testing.T) {
	p := shell(t, "echo 'the port is taken' >&2; exit 3")
	if _, err := p.url(t.Context(), "answers at"); err == nil || !strings.Contains(err.Error(), "its last words: the port is taken") {
		t.Errorf("got %v", err)
	}
	if err := p.answers(t.Context(), func(context.Context) error { return nil }); err == nil {
		t.Error("it has ended, so another process answered")
	}
	if _, err := begin("script", "/no/such/program"); err == nil {
		t.Error("a program that does not exist was started")
	}
}

// TestStopEndsTheGroup leaves no child behind.
func TestStopEndsTheGroup(t *testing.T) {
	p := shell(t, `(trap '' TERM; exec sleep 1000) & echo "child at $!"; wait`)
	child, err := p.url(t.Context(), "child at")
	if err != nil {
		t.Fatal(err)
	}
	p.stop()
	// It was killed before stop came back; the kernel may take a moment to clear it away.
	for end := time.After(10 * time.Second); ; {
		data, err := os.ReadFile("/proc/" + child + "/stat")
		if err != nil || strings.Contains(string(data), ") Z ") {
			return
		}
		select {
		case <-end:
			t.Fatalf("the child lives on: %s", data)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestNginxMissing says what to install, and refuses what is no nginx.
func TestNginxMissing(t *testing.T) {
	for program, want := range map[string]string{"no-such-nginx": "nginx-light", "true": "does not tell the version"} {
		if path, _, missing := findNginx(t.Context(), program); path != "" || !strings.Contains(missing, want) {
			t.Errorf("%s: got %q and %q, want %q", program, path, missing, want)
		}
	}
}

// TestNginxTakesTheConfiguration has the real nginx check it.
func TestNginxTakesTheConfiguration(t *testing.T) {
	path, _, missing := findNginx(t.Context(), "nginx")
	if path == "" {
		t.Skip(missing)
	}
	address, err := freeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/nginx.conf", []byte(nginxConfig(dir, address, []string{"http://127.0.0.1:1"})), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), path, "-p", dir, "-e", "stderr", "-t", "-c", dir+"/nginx.conf").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
