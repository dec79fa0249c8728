package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// A key that is taken out of the file stops working without a restart; a file that
// cannot be used locks nobody out and is reported once.
func TestKeysFollowTheirFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	// At once, as an editor does: the daemon looks at it whenever it likes, and half of a
	// file would be one more that cannot be used.
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("sk-one # alice\nsk-two # bob\n")
	r := newRig(t, &lmwardenv1.Config{InferenceAuth: &lmwardenv1.InferenceAuth{KeysFile: file}})
	for _, step := range []struct {
		name string
		do   func()
		want map[string]string
	}{
		{"at the start", func() {}, map[string]string{"sk-one": "alice", "sk-two": "bob"}},
		{"one taken out", func() { write("sk-two # bob\n") }, map[string]string{"sk-two": "bob"}},
		{"one added", func() { write("sk-two # bob\nsk-three # eve\n") }, map[string]string{"sk-two": "bob", "sk-three": "eve"}},
		{"emptied by a slip", func() { write("# nothing\n") }, map[string]string{"sk-two": "bob", "sk-three": "eve"}},
		{"gone", func() { os.Remove(file) }, map[string]string{"sk-two": "bob", "sk-three": "eve"}},
		{"written again", func() { write("sk-four # dan\n") }, map[string]string{"sk-four": "dan"}},
	} {
		step.do()
		if err := r.loop.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, r.plane.keys()); diff != "" {
			t.Errorf("%s:\n%s", step.name, diff)
		}
	}
	page, _ := r.events.Page("", 0, 100)
	count := map[string]int{}
	for _, e := range page {
		count[e.Kind]++
		if strings.Contains(e.Message, "sk-") {
			t.Errorf("an event tells a key: %s", e.Message)
		}
	}
	if count["keys_changed"] != 3 || count["keys_not_read"] != 2 {
		t.Errorf("events %v, want 3 changes and 2 that cannot be used", count)
	}
}
