package store

import "go.etcd.io/bbolt"

// Comparisons returns what is kept of comparisons by the name of their model, the broken
// records among them.
func (s *Store) Comparisons() ([]Record, error) { return s.records(bucketComparisons) }

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
