package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/tests/harness"
)

// TestStaleDemos clears what a killed demo left, engine included, and nothing else.
func TestStaleDemos(t *testing.T) {
	temp := t.TempDir()
	makeDir := func(name string) string {
		dir := filepath.Join(temp, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	lock := func(dir string) *os.File {
		f, err := own(dir)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	dead, living := makeDir(demoPrefix+"dead"), makeDir(demoPrefix+"living")
	unmarked, other := makeDir(demoPrefix+"unmarked"), makeDir("other")
	lock(other).Close()
	lock(dead).Close()
	defer lock(living).Close()
	if err := os.Symlink(other, filepath.Join(temp, demoPrefix+"link")); err != nil {
		t.Fatal(err)
	}
	engines := map[string]*exec.Cmd{dead: leaveEngine(t, dead), living: leaveEngine(t, living)}

	said := &strings.Builder{}
	(&app{streams: streams{err: said}}).clearStaleDemos(temp)

	if _, err := os.Stat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the dead demo's directory: %v", err)
	}
	if err := engines[dead].Wait(); err == nil {
		t.Error("the dead demo's engine ended by itself")
	}
	for _, dir := range []string{living, unmarked, other} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	if p := engines[living]; p.Process.Kill() != nil {
		t.Error("the living demo's engine was ended")
	} else {
		_ = p.Wait() // it was killed
	}
	if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, dead+" is removed") {
		t.Errorf("said %q", got)
	}
}

// leaveEngine starts a process that a supervisor over dir takes for one of its engines.
func leaveEngine(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	token := "LMWARDEN_REPLICA=m/0/1/" + filepath.Base(dir)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	record := `{"incarnation":1,"boot":"` + strings.TrimSpace(string(boot)) + `","token":"` + token + `"}`
	if err := os.MkdirAll(filepath.Join(dir, "run", "m"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run", "m", "0.json"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	engine := exec.CommandContext(t.Context(), "sleep", "1000")
	engine.Env = []string{token}
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	// It runs a moment before the kernel shows its environment, by which it is found.
	harness.Within(t, time.Minute, func() error {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", engine.Process.Pid))
		if err == nil && !strings.Contains(string(environ), token) {
			err = fmt.Errorf("its environment is %q", environ)
		}
		return err
	})
	return engine
}

// TestStaleDemoWithDamage is left where it is, and the reason is told.
func TestStaleDemoWithDamage(t *testing.T) {
	temp := t.TempDir()
	dir := filepath.Join(temp, demoPrefix+"damaged")
	if err := os.MkdirAll(filepath.Join(dir, "run", "m"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := own(dir)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.WriteFile(filepath.Join(dir, "run", "m", "0.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := &strings.Builder{}
	(&app{streams: streams{err: said}}).clearStaleDemos(temp)
	if _, err := os.Stat(dir); err != nil || !strings.Contains(said.String(), "is damaged") {
		t.Errorf("%v; said %q", err, said)
	}
}
