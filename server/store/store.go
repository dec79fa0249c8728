package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// Options of [Open].
type Options struct {
	// MoveCorruptAside renames a database that cannot be read to NAME.corrupt-TIME and
	// begins an empty one.
	MoveCorruptAside bool
	// LockTimeout is the longest wait for another process's lock; 0 means 1 second.
	LockTimeout time.Duration
}

// Store is an open database. It is safe for concurrent use.
type Store struct {
	db *bbolt.DB
	// MovedAside is where a corrupt database was put at [Open], or empty.
	MovedAside string
}

// The first schema has the bucket of models. The others are made with their first record,
// so that a database without one can still be opened by a release that does not know them.
var (
	bucketModels      = []byte("models")
	bucketKeys        = []byte("keys")
	bucketComparisons = []byte("comparisons")
)

// Open opens the database at path and makes it, mode 0600, with its directory, mode
// 0700, when there is none. Its errors are *LockedError, *UnwritableError,
// *CorruptError and *NewerSchemaError.
func Open(path string, o Options) (*Store, error) {
	if o.LockTimeout == 0 {
		o.LockTimeout = time.Second
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, &UnwritableError{Path: filepath.Dir(path), Err: err}
	}
	s, err := open(path, o)
	if corrupt := (*CorruptError)(nil); !errors.As(err, &corrupt) || !o.MoveCorruptAside {
		return s, err
	}
	aside := path + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000Z")
	if err := os.Rename(path, aside); err != nil {
		return nil, &UnwritableError{Path: path, Err: err}
	}
	if s, err = open(path, o); err != nil {
		return nil, err
	}
	s.MovedAside = aside
	return s, nil
}

func open(path string, o Options) (*Store, error) {
	db, err := openBolt(path, o.LockTimeout)
	if err != nil {
		return nil, err
	}
	if err := check(db); err != nil {
		return nil, errors.Join(&CorruptError{Path: path, Err: err}, db.Close())
	}
	if err := migrate(db, path); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Store{db: db}, nil
}

// openBolt opens the file and sorts the errors. A cut file makes the library touch
// memory beyond its end: the fault becomes a panic, and the panic an error.
func openBolt(path string, timeout time.Duration) (db *bbolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var file *os.File
	defer func() {
		if p := recover(); p != nil {
			// The library did not come to close the file. Its mapping keeps the lock alive
			// beyond Close.
			unlock := unix.Flock(int(file.Fd()), unix.LOCK_UN)
			db, err = nil, errors.Join(&CorruptError{Path: path, Err: fmt.Errorf("%v", p)}, unlock, file.Close())
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: timeout,
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			file, err = os.OpenFile(name, flag, mode)
			return file, err
		},
	})
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, &LockedError{Path: path}
	case errors.Is(err, os.ErrPermission), isSystemError(err):
		return nil, &UnwritableError{Path: path, Err: err}
	}
	return nil, &CorruptError{Path: path, Err: err}
}

// isSystemError says whether the system refused, as with a full or read-only disk,
// and the file's content is not the cause.
func isSystemError(err error) bool {
	var path *os.PathError
	return errors.As(err, &path)
}

// check reads the whole tree: the database is small, and a damaged page is better
// found now than by the call that needs it.
func check(db *bbolt.DB) error {
	info, err := os.Stat(db.Path())
	if err != nil {
		return err
	}
	return db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("the file is cut short: %d of %d bytes", info.Size(), tx.Size())
		}
		var problems []error
		for err := range tx.Check() {
			if len(problems) < 3 {
				problems = append(problems, err)
			}
		}
		return errors.Join(problems...)
	})
}

// Close ends the use of the database after the transactions that run. Closing twice
// is harmless.
func (s *Store) Close() error { return s.db.Close() }

// Path returns the file of the database.
func (s *Store) Path() string { return s.db.Path() }

// Models returns all models by name, the broken ones among them.
func (s *Store) Models() ([]Record, error) { return s.records(bucketModels) }

// Keys returns what is stored of API keys by name, the broken records among them.
func (s *Store) Keys() ([]Record, error) { return s.records(bucketKeys) }

// records returns all records of a bucket by name, none when there is no bucket yet.
func (s *Store) records(bucket []byte) ([]Record, error) {
	var records []Record
	err := s.db.View(func(tx *bbolt.Tx) error {
		found := tx.Bucket(bucket)
		if found == nil {
			return nil
		}
		return found.ForEach(func(k, v []byte) error {
			records = append(records, decodeRecord(string(k), v))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("the %s cannot be read from %s: %w", bucket, s.db.Path(), err)
	}
	return records, nil
}

// CreateModel stores a new model at revision 1. ErrExists when the name is taken,
// also by a broken record.
func (s *Store) CreateModel(name string, data []byte) (revision uint64, err error) {
	err = s.update(func(models *bbolt.Bucket) error {
		if models.Get([]byte(name)) != nil {
			return ErrExists
		}
		revision = 1
		return models.Put([]byte(name), encodeRecord(name, revision, data))
	})
	return revision, err
}

// UpdateModel replaces a model and returns its new revision. Seen is the revision
// that the caller saw, 0 to skip the check. ErrNotFound, or a *StaleError with the
// current revision; a broken record cannot be replaced, only deleted.
func (s *Store) UpdateModel(name string, seen uint64, data []byte) (revision uint64, err error) {
	err = s.update(func(models *bbolt.Bucket) error {
		current, err := currentRevision(models, name, seen)
		if err != nil {
			return err
		}
		revision = current + 1
		return models.Put([]byte(name), encodeRecord(name, revision, data))
	})
	return revision, err
}

// DeleteModel removes a model, also a broken one. Seen and the errors are as in
// [Store.UpdateModel].
func (s *Store) DeleteModel(name string, seen uint64) error {
	return s.update(func(models *bbolt.Bucket) error {
		if value := models.Get([]byte(name)); value == nil || decodeRecord(name, value).Broken == nil {
			if _, err := currentRevision(models, name, seen); err != nil {
				return err
			}
		}
		return models.Delete([]byte(name))
	})
}

// PutKey stores what is said of an API key, also in the place of a broken record, and
// returns the new revision. Seen is the revision that the caller saw, 0 to skip the check;
// the error is a *StaleError with the current one, which is 0 when there is none.
func (s *Store) PutKey(name string, seen uint64, data []byte) (revision uint64, err error) {
	err = s.db.Update(func(tx *bbolt.Tx) error {
		keys, err := tx.CreateBucketIfNotExists(bucketKeys)
		if err != nil {
			return err
		}
		var current uint64
		if value := keys.Get([]byte(name)); value != nil {
			current = decodeRecord(name, value).Revision
		}
		if seen != 0 && seen != current {
			return &StaleError{Name: name, Seen: seen, Current: current}
		}
		revision = current + 1
		return keys.Put([]byte(name), encodeRecord(name, revision, data))
	})
	return revision, err
}

func currentRevision(models *bbolt.Bucket, name string, seen uint64) (uint64, error) {
	value := models.Get([]byte(name))
	if value == nil {
		return 0, ErrNotFound
	}
	r := decodeRecord(name, value)
	if r.Broken != nil {
		return 0, fmt.Errorf("the record of %q is broken: %w", name, r.Broken)
	}
	if seen != 0 && seen != r.Revision {
		return 0, &StaleError{Name: name, Seen: seen, Current: r.Revision}
	}
	return r.Revision, nil
}

// update runs one durable transaction on the models.
func (s *Store) update(f func(models *bbolt.Bucket) error) error {
	return s.db.Update(func(tx *bbolt.Tx) error { return f(tx.Bucket(bucketModels)) })
}

// Backup writes a consistent copy of the whole database to w while it is in use and
// returns its size in bytes.
func (s *Store) Backup(w io.Writer) (int64, error) {
	var n int64
	err := s.db.View(func(tx *bbolt.Tx) (err error) {
		n, err = tx.WriteTo(w)
		return err
	})
	if err != nil {
		return n, fmt.Errorf("the copy of %s was not finished: %w", s.db.Path(), err)
	}
	return n, nil
}
