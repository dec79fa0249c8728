package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Lines that find no space are counted where they are missing, once there is space.
func TestLostLinesAreCounted(t *testing.T) {
	b := newLogbook(t.TempDir())
	if err := b.begin(1); err != nil {
		t.Fatal(err)
	}
	b.add(time.Now(), "before")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	good := b.file
	b.file = full
	for range 3 {
		b.add(time.Now(), "lost")
	}
	b.file = good
	b.add(time.Now(), "after")
	if err := b.end(); err == nil || !strings.Contains(err.Error(), "3 lines are missing") || !isFull(err) {
		t.Errorf("the end says %v", err)
	}
	lines, err := tailOf(b, 10)
	if err != nil || len(lines) != 3 || lines[0].Text != "before" || lines[2].Text != "after" ||
		!strings.HasPrefix(lines[1].Text, "[3 lines are missing") || !strings.Contains(lines[1].Text, "no space left") {
		t.Errorf("read %+v, %v", lines, err)
	}
}

// A log whose file could not be made begins later, in the same life.
func TestLogBeginsLate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := newLogbook(dir)
	now := time.Now()
	if err := b.begin(1); err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("a log in the place of a file: %v", err)
	}
	b.add(now, "lost")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	b.add(now.Add(reopenAfter/2), "too soon")
	b.add(now.Add(2*reopenAfter), "kept")
	lines, err := tailOf(b, 10)
	if err != nil || len(lines) != 2 || !strings.HasPrefix(lines[0].Text, "[2 lines are missing") || lines[1].Text != "kept" {
		t.Errorf("read %+v, %v", lines, err)
	}
	if err := b.end(); err == nil || !strings.Contains(err.Error(), "2 lines are missing") {
		t.Errorf("the end says %v", err)
	}
}
