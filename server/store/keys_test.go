package store_test

import (
	"encoding/binary"
	"errors"
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

// A database without a limit of a key stays one that earlier releases can open.
func TestKeysAreMadeWithTheFirst(t *testing.T) {
	path := dbPath(t)
	s := open(t, path)
	if _, err := s.CreateModel("m", nil); err != nil {
		t.Fatal(err)
	}
	if records, err := s.Keys(); err != nil || len(records) != 0 {
		t.Errorf("a database without keys: %+v, %v", records, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if schema := tx.Bucket([]byte("meta")).Get([]byte("schema")); binary.BigEndian.Uint64(schema) != 1 || tx.Bucket([]byte("keys")) != nil {
			t.Errorf("schema %x, keys %v; want the first schema and no keys", schema, tx.Bucket([]byte("keys")))
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
