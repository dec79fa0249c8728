package product

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/tests/harness"
)

// A demo that is killed leaves engines and files behind. The next one ends and removes
// them, and says so.
func TestKilledDemo(t *testing.T) {
	mark := t.TempDir() // engines inherit TMPDIR, which tells them
	start := func(args ...string) (*exec.Cmd, *strings.Builder) {
		cmd := exec.CommandContext(t.Context(), harness.Binary(t), append([]string{"demo", "--speed", "20", "--inference-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)
		cmd.Env = append(os.Environ(), "TMPDIR="+mark)
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &said
	}
	first, _ := start("--no-traffic")
	harness.Within(t, time.Minute, func() error {
		if n := len(harness.Processes("TMPDIR", mark)); n < 1+4 {
			return fmt.Errorf("%d processes of the demo", n)
		}
		return nil
	})
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	left := harness.Processes("TMPDIR", mark)
	if len(left) == 0 {
		t.Fatal("no engine survived the demo; the test has nothing to show")
	}
	second, said := start("--for", "2s", "--sessions", "4")
	if err := second.Wait(); err != nil {
		t.Errorf("the next demo: %v\n%s", err, said)
	}
	if !strings.Contains(said.String(), "an earlier demo was killed; its engines are ended") {
		t.Errorf("the next demo said %s", said)
	}
	if now := harness.Processes("TMPDIR", mark); len(now) > 0 {
		t.Errorf("processes are left: %v", now)
	}
	if files, err := os.ReadDir(mark); err != nil || len(files) > 0 {
		t.Errorf("files are left: %v, %v", files, err)
	}
}
