package store

import (
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

// TestComparisons keeps the last one of each model over a reopening, and shows a damaged
// one as broken.
func TestComparisons(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := s.Comparisons(); err != nil || len(all) != 0 {
		t.Fatalf("a new database has %v, %v", all, err)
	}
	if err := s.DeleteComparison("m"); err != nil {
		t.Fatal(err)
	}
	for _, put := range [][2]string{{"m", "first"}, {"n", "other"}, {"m", "second"}, {"o", "gone"}} {
		if err := s.PutComparison(put[0], []byte(put[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DeleteComparison("o"); err != nil {
		t.Fatal(err)
	}
	err = s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketComparisons).Put([]byte("n"), []byte("damaged, and long enough"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path, Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all, err := s.Comparisons()
	if err != nil || len(all) != 2 || all[0].Name != "m" || string(all[0].Data) != "second" || all[1].Broken == nil {
		t.Errorf("after reopening: %v, %v", all, err)
	}
}
