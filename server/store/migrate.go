package store

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
)

var (
	bucketMeta = []byte("meta")
	keySchema  = []byte("schema")
)

// migrations bring a database forward, one schema each: the first makes schema 1
// from an empty file. Only ever append; a released one is never changed.
var migrations = []func(*bbolt.Tx) error{
	func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucketModels)
		return err
	},
}

// migrate brings the database to the newest schema in one transaction, after a copy
// beside it when there is something to lose.
func migrate(db *bbolt.DB, path string) error {
	var schema uint64
	err := db.View(func(tx *bbolt.Tx) error {
		schema = readSchema(tx)
		return nil
	})
	ours := uint64(len(migrations))
	switch {
	case err != nil:
		return &CorruptError{Path: path, Err: err}
	case schema == ours:
		return nil
	case schema > ours:
		return &NewerSchemaError{Path: path, Schema: schema, Ours: ours}
	}
	if schema > 0 {
		if err := copyBefore(db, fmt.Sprintf("%s.schema-%d", path, schema)); err != nil {
			return &UnwritableError{Path: path, Err: err}
		}
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for n, step := range migrations[schema:] {
			if err := step(tx); err != nil {
				return fmt.Errorf("migration to schema %d: %w", schema+uint64(n)+1, err)
			}
		}
		return writeSchema(tx, ours)
	})
	if err != nil {
		return &UnwritableError{Path: path, Err: err}
	}
	return nil
}

func copyBefore(db *bbolt.DB, path string) error {
	return db.View(func(tx *bbolt.Tx) error { return tx.CopyFile(path, 0o600) })
}

// readSchema returns the schema of a database, 0 for an empty one.
func readSchema(tx *bbolt.Tx) uint64 {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return 0
	}
	if v := meta.Get(keySchema); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func writeSchema(tx *bbolt.Tx, schema uint64) error {
	meta, err := tx.CreateBucketIfNotExists(bucketMeta)
	if err != nil {
		return err
	}
	return meta.Put(keySchema, binary.BigEndian.AppendUint64(nil, schema))
}
