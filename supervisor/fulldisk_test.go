package supervisor_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lmwarden/lmwarden/supervisor"
)

// fill makes a file one that can be opened and takes no byte, as on a full disk.
func fill(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("/dev/full", path); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
}

// A disk that is full for longer than the budget of failed starts is waited for: the
// replica starts by itself when there is space.
func TestFullDiskIsWaitedFor(t *testing.T) {
	var full atomic.Int32 // starts that still find the disk full
	full.Store(8)
	var record string
	b := newBox(t, func(o *supervisor.Options) {
		record = filepath.Join(o.DataDir, "run", "m", "0.json.new")
		changed := o.Hooks.Changed
		o.Hooks.Changed = func(s supervisor.Status) {
			if s.State == supervisor.Starting && full.Add(-1) > 0 {
				fill(t, record)
			}
			changed(s)
		}
	})
	fill(t, record)
	b.Apply([]supervisor.Spec{b.spec(first)})
	got := b.untilState(first, supervisor.Backoff)
	for _, part := range []string{"no space left in " + b.opts.DataDir, "Free some", "tried again in"} {
		if !strings.Contains(got.Message, part) {
			t.Errorf("message %q lacks %q", got.Message, part)
		}
	}
	if got.NextStart.IsZero() || got.Restarts != 0 {
		t.Errorf("status: %+v", got)
	}
	b.until("a start with space", func(s supervisor.Status) bool {
		if s.State == supervisor.Failed {
			t.Fatalf("it was given up: %s", s.Message)
		}
		return s.State == supervisor.Ready
	})
	if n := strings.Count(b.happened(), "backoff"); n < 4 {
		t.Errorf("only %d starts found the disk full: %s", n, b.happened())
	}
}

// A log that cannot be written stops no engine: its lines reach those who follow.
func TestEngineServesWithoutALog(t *testing.T) {
	b := newBox(t)
	fill(t, filepath.Join(b.opts.DataDir, "logs", "m", "0", "1.log"))
	b.Apply([]supervisor.Spec{b.spec(first, "-say", "a line")})
	got := b.until("ready, with a line", func(s supervisor.Status) bool { return s.State == supervisor.Ready && s.LastLine != "" })
	if got.Incarnation != 1 {
		t.Errorf("status: %+v", got)
	}
	err := b.Logs(context.Background(), first, supervisor.LogQuery{Tail: 10}, func(lines []supervisor.LogLine) error {
		t.Errorf("a full disk has kept %v", lines)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
