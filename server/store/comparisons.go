package store

import (
	"fmt"

	"go.etcd.io/bbolt"
)

// bucketComparisons is made with the first comparison, so that a database without one can
// still be opened by a release that does not know it.
var bucketComparisons = []byte("comparisons")

// Comparisons returns what is kept of comparisons by the name of their model, the broken
// records among them.
func (s *Store) Comparisons() ([]Record, error) {
	var records []Record
	err := s.db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bucketComparisons)
		if bucket == nil {
			return nil
		}
		return bucket.ForEach(func(k, v []byte) error {
			records = append(records, decodeRecord(string(k), v))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("the comparisons cannot be read from %s: %w", s.db.Path(), err)
	}
	return records, nil
}

// PutComparison keeps the comparison of a model in place of the one before.
func (s *Store) PutComparison(model string, data []byte) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists(bucketComparisons)
		if err != nil {
			return err
		}
		return bucket.Put([]byte(model), encodeRecord(model, 1, data))
	})
}

// DeleteComparison forgets the comparison of a model, if there is one.
func (s *Store) DeleteComparison(model string) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bucketComparisons)
		if bucket == nil {
			return nil
		}
		return bucket.Delete([]byte(model))
	})
}
