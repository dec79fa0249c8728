//go:build clients

package clients

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// clients returns the folder that holds the clients.
func clients(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("LMWARDEN_CLIENTS")
	if folder == "" {
		t.Fatal("LMWARDEN_CLIENTS is not set: run make test-clients")
	}
	return folder
}

// place is where one user of a client works.
type place struct{ home, project string }

// newPlace makes an empty home, and a project with one file. The project is not the
// home: some clients tell the engine what files are there, and they write into the home.
func newPlace(t *testing.T) place {
	p := place{t.TempDir(), t.TempDir()}
	writeFile(t, filepath.Join(p.project, "notes.txt"), "the answer is blue\n")
	return p
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command is one run of a client, which sees nothing else of the machine.
func command(t *testing.T, at place, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = at.project
	cmd.WaitDelay = 5 * time.Second
	// Some clients are two processes. They are a group, as at a terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + at.home, "TERM=dumb", "NO_COLOR=1", "LMWARDEN_CLIENTS=" + clients(t),
	}, env...)
	return cmd
}

// outcome is how a run of a client ended.
type outcome struct {
	Code   int    // exit code; -1 when a signal ended it
	Stdout string // what it printed
	stderr string
}

// run runs one client to its end.
func run(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind, if anything
	}
	// A child that it left behind may hold its pipes.
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("%s: %v\n%s\n%s", cmd, err, stdout.String(), stderr.String())
	}
	if cmd.ProcessState == nil { // it never ran
		return outcome{Code: -1}
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// program runs one client to its end, which must be a good one, and returns what it
// printed.
func program(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	end := run(t, cmd)
	if end.Code != 0 {
		t.Fatalf("%s ended with %d\n%s\n%s", cmd, end.Code, end.Stdout, end.stderr)
	}
	return end.Stdout
}
