package store_test

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/lmwarden/lmwarden/server/store"
)

func TestKeyRecords(t *testing.T) {
	path := dbPath(t)
	s := open(t, path)
	var stale *store.StaleError
	if _, err := s.PutKey("team", 1, nil); !errors.As(err, &stale) || stale.Current != 0 {
		t.Errorf("a revision of nothing: %v, want a StaleError to 0", err)
	}
	for want := uint64(1); want <= 2; want++ {
		if rev, err := s.PutKey("team", want-1, []byte{byte(want)}); err != nil || rev != want {
			t.Fatalf("revision %d, %v; want %d", rev, err, want)
		}
	}
	if _, err := s.PutKey("team", 1, nil); !errors.As(err, &stale) || stale.Current != 2 {
		t.Errorf("stale change: %v, want a StaleError to 2", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	records, err := open(t, path).Keys()
	if err != nil || len(records) != 1 || records[0].Name != "team" || records[0].Revision != 2 || string(records[0].Data) != "\x02" {
		t.Errorf("after reopening: %+v, %v", records, err)
	}
	if got := models(t, open(t, dbPath(t))); len(got) != 0 {
		t.Errorf("keys are models: %v", got)
	}
}

// A database of before there were limits of keys is brought forward, after a copy.
func TestSchemaOneIsBroughtForward(t *testing.T) {
	path := dbPath(t)
	s := open(t, path)
	if _, err := s.CreateModel("m", []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket([]byte("keys")),
			tx.Bucket([]byte("meta")).Put([]byte("schema"), binary.BigEndian.AppendUint64(nil, 1)))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if got := models(t, s)["m"]; got != "old" {
		t.Errorf("the model is %q, want old", got)
	}
	if _, err := s.PutKey("team", 0, nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path + ".schema-1"); err != nil {
		t.Errorf("no copy from before: %v", err)
	}
}
