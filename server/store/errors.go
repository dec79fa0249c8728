package store

import (
	"errors"
	"fmt"
)

// Errors of a record.
var (
	// ErrNotFound says that there is no record of the name.
	ErrNotFound = errors.New("no such record")
	// ErrExists says that there is already a record of the name.
	ErrExists = errors.New("the record exists already")
)

// StaleError says that a record changed since the caller saw it.
type StaleError struct {
	Name    string
	Seen    uint64 // revision that the caller saw
	Current uint64 // revision in the store
}

// Error returns a sentence with both revisions.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%q changed meanwhile: it is at revision %d, not %d; look at it again and repeat the change", e.Name, e.Current, e.Seen)
}

// LockedError says that another process has the database open.
type LockedError struct{ Path string }

// Error returns a sentence with the fix.
func (e *LockedError) Error() string {
	return fmt.Sprintf("the database %s is in use by another daemon; stop that one or choose another data_dir", e.Path)
}

// UnwritableError says that the database or its directory cannot be written.
type UnwritableError struct {
	Path string
	Err  error
}

// Error returns a sentence with the fix.
func (e *UnwritableError) Error() string {
	return fmt.Sprintf("%s cannot be written: %v; give this user write access or choose another data_dir", e.Path, e.Err)
}

// Unwrap returns the error of the system.
func (e *UnwritableError) Unwrap() error { return e.Err }

// CorruptError says that the database cannot be read. The file is untouched.
type CorruptError struct {
	Path string
	Err  error
}

// Error returns a sentence with the fix.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("the database %s cannot be read: %v; put a backup in its place, or start once with --move-corrupt-database to set it aside and begin empty", e.Path, e.Err)
}

// Unwrap returns what was found.
func (e *CorruptError) Unwrap() error { return e.Err }

// NewerSchemaError says that a later version of the daemon wrote the database.
type NewerSchemaError struct {
	Path         string
	Schema, Ours uint64
}

// Error returns a sentence with the fix.
func (e *NewerSchemaError) Error() string {
	return fmt.Sprintf("the database %s has schema %d and this version knows up to %d; run the newer version, or put a backup of this one in its place", e.Path, e.Schema, e.Ours)
}
