package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/lmwarden/lmwarden/server/store"
)

func open(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func dbPath(t *testing.T) string { return filepath.Join(t.TempDir(), "state", "lmwarden.db") }

func models(t *testing.T, s *store.Store) map[string]string {
	t.Helper()
	records, err := s.Models()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, r := range records {
		if r.Broken != nil {
			out[r.Name] = "broken: " + r.Broken.Error()
		} else {
			out[r.Name] = string(r.Data)
		}
	}
	return out
}

func TestRecordsSurviveReopening(t *testing.T) {
	path := dbPath(t)
	s := open(t, path)
	for _, name := range []string{"a", "b"} {
		if rev, err := s.CreateModel(name, []byte("one "+name)); err != nil || rev != 1 {
			t.Fatalf("create %s: revision %d, %v", name, rev, err)
		}
	}
	if rev, err := s.UpdateModel("a", 1, []byte("two")); err != nil || rev != 2 {
		t.Fatalf("update: revision %d, %v", rev, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	if diff := cmp.Diff(map[string]string{"a": "two", "b": "one b"}, models(t, again)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the database has mode %v, %v; want 0600", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its directory has mode %v, %v; want 0700", info.Mode(), err)
	}
}

func TestRevisions(t *testing.T) {
	s := open(t, dbPath(t))
	if _, err := s.CreateModel("m", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateModel("m", nil); !errors.Is(err, store.ErrExists) {
		t.Errorf("second create: %v, want ErrExists", err)
	}
	if _, err := s.UpdateModel("other", 0, nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("update of nothing: %v, want ErrNotFound", err)
	}
	if _, err := s.UpdateModel("m", 0, []byte("y")); err != nil {
		t.Errorf("update without a revision: %v", err)
	}
	var stale *store.StaleError
	if _, err := s.UpdateModel("m", 1, []byte("z")); !errors.As(err, &stale) || stale.Current != 2 || stale.Seen != 1 {
		t.Errorf("stale update: %v, want a StaleError from 1 to 2", err)
	}
	if err := s.DeleteModel("m", 1); !errors.As(err, &stale) {
		t.Errorf("stale delete: %v, want a StaleError", err)
	}
	if got := models(t, s)["m"]; got != "y" {
		t.Errorf("refused changes left %q, want y", got)
	}
	if err := s.DeleteModel("m", 2); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := s.DeleteModel("m", 0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("second delete: %v, want ErrNotFound", err)
	}
}

// change edits the raw value of a record, as a bad disk would.
func change(t *testing.T, path, name string, edit func([]byte) []byte) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("models"))
		return b.Put([]byte(name), edit(bytes.Clone(b.Get([]byte(name)))))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBrokenRecordHidesNoOther(t *testing.T) {
	tests := map[string]struct {
		edit func([]byte) []byte
		want string
	}{
		"flipped bit": {func(v []byte) []byte { v[len(v)-1] ^= 1; return v }, "checksum"},
		"cut":         {func(v []byte) []byte { return v[:5] }, "cut short"},
		"format":      {func(v []byte) []byte { v[0] = 9; return v }, "unknown format 9"},
		"empty":       {func([]byte) []byte { return nil }, "cut short"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := dbPath(t)
			s := open(t, path)
			for _, m := range []string{"good", "ill"} {
				if _, err := s.CreateModel(m, []byte("data")); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			change(t, path, "ill", test.edit)
			s = open(t, path)
			got := models(t, s)
			if got["good"] != "data" || !strings.Contains(got["ill"], test.want) {
				t.Errorf("got %v, want good data and a broken record with %q", got, test.want)
			}
			if _, err := s.UpdateModel("ill", 0, []byte("x")); err == nil {
				t.Error("a broken record was replaced")
			}
			if err := s.DeleteModel("ill", 0); err != nil {
				t.Errorf("a broken record cannot be deleted: %v", err)
			}
			if got := models(t, s); len(got) != 1 {
				t.Errorf("after the delete: %v", got)
			}
		})
	}
}

func TestCorruptDatabaseIsNeverOverwritten(t *testing.T) {
	valid := func(t *testing.T) []byte {
		path := dbPath(t)
		s := open(t, path)
		for _, name := range []string{"a", "b", "c"} {
			if _, err := s.CreateModel(name, bytes.Repeat([]byte(name), 5000)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	tests := map[string]func(data []byte) []byte{
		"garbage":    func(data []byte) []byte { return bytes.Repeat([]byte("no database "), 4096) },
		"cut":        func(data []byte) []byte { return data[:len(data)/2] },
		"both metas": func(data []byte) []byte { clear(data[:2*os.Getpagesize()]); return data },
		"pages":      func(data []byte) []byte { clear(data[2*os.Getpagesize() : 10*os.Getpagesize()]); return data },
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			path := dbPath(t)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			data := damage(valid(t))
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			var corrupt *store.CorruptError
			if s, err := store.Open(path, store.Options{}); !errors.As(err, &corrupt) {
				t.Fatalf("opened as %v, %v; want a CorruptError", s, err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, data) {
				t.Fatalf("the refused file was changed (%v)", err)
			}
			s, err := store.Open(path, store.Options{MoveCorruptAside: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if aside, err := os.ReadFile(s.MovedAside); err != nil || !bytes.Equal(aside, data) {
				t.Errorf("the file moved aside is not the old one (%v)", err)
			}
			if got := models(t, s); len(got) != 0 {
				t.Errorf("the new database holds %v", got)
			}
		})
	}
}

func TestSecondDaemonIsRefused(t *testing.T) {
	path := dbPath(t)
	open(t, path)
	var locked *store.LockedError
	if _, err := store.Open(path, store.Options{LockTimeout: 10 * time.Millisecond, MoveCorruptAside: true}); !errors.As(err, &locked) {
		t.Errorf("second open: %v, want a LockedError", err)
	}
}

func TestUnwritableDirectory(t *testing.T) {
	// A file where the directory should be: root, too, cannot write below it.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var unwritable *store.UnwritableError
	if _, err := store.Open(filepath.Join(file, "lmwarden.db"), store.Options{}); !errors.As(err, &unwritable) {
		t.Errorf("got %v, want an UnwritableError", err)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := dbPath(t)
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte{0, 0, 0, 0, 0, 0, 0, 99})
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	var newer *store.NewerSchemaError
	if _, err := store.Open(path, store.Options{MoveCorruptAside: true}); !errors.As(err, &newer) || newer.Schema != 99 {
		t.Errorf("got %v, want a NewerSchemaError with 99", err)
	}
}

func TestBackupWhileInUse(t *testing.T) {
	s := open(t, dbPath(t))
	if _, err := s.CreateModel("m", []byte("before")); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	f, err := os.Create(copied)
	if err != nil {
		t.Fatal(err)
	}
	n, err := s.Backup(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(copied); err != nil || info.Size() != n {
		t.Errorf("the copy has %d bytes, reported were %d (%v)", info.Size(), n, err)
	}
	if _, err := s.UpdateModel("m", 0, []byte("after")); err != nil {
		t.Fatal(err)
	}
	if got := models(t, open(t, copied))["m"]; got != "before" {
		t.Errorf("the copy holds %q, want before", got)
	}
}
