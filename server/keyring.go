package server

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/lmwarden/lmwarden/server/auth"
)

// keyring holds the keys of the inference endpoint. It reads their file again when that
// has changed, so that a key that was taken out stops working without a restart.
type keyring struct {
	file string // empty when no key is asked for

	mu   sync.Mutex // guards what follows
	seen fileState  // of the file when it was last looked at
	keys map[string]string
}

// fileState tells one state of a file from the next. The time of a change has the grain of
// the kernel's clock, some milliseconds, and a copy may keep that of its original: so which
// file it is counts, and when anything of it changed.
type fileState struct {
	device, inode    uint64
	written, changed unix.Timespec
	size             int64
	err              string // why it cannot be looked at
}

func fileStateOf(file string) fileState {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return fileState{err: (&os.PathError{Op: "stat", Path: file, Err: err}).Error()}
	}
	return fileState{
		device: uint64(st.Dev), //nolint:unconvert // signed on some systems
		inode:  st.Ino, written: st.Mtim, changed: st.Ctim, size: st.Size,
	}
}

// openKeyring reads a file of keys; an empty name stands for none.
func openKeyring(file string) (*keyring, error) {
	k := &keyring{file: file}
	if file == "" {
		return k, nil
	}
	k.seen = fileStateOf(file) // before the reading: a change between the two is seen later
	var err error
	k.keys, err = auth.ReadKeys(file)
	return k, err
}

// current returns the keys with their tenants. The map is never changed.
func (k *keyring) current() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys
}

// refresh reads the file again if it has changed, and says whether it did. With an
// error the keys stay as they were: a slip of an editor must not lock everybody out.
// It is returned once for each state of the file.
func (k *keyring) refresh() (changed bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == "" {
		return false, nil
	}
	now := fileStateOf(k.file)
	if now == k.seen {
		return false, nil
	}
	k.seen = now
	if now.err != "" {
		err = errors.New(now.err)
	} else {
		var keys map[string]string
		if keys, err = auth.ReadKeys(k.file); err == nil {
			k.keys = keys
			return true, nil
		}
	}
	return false, fmt.Errorf("the changed keys file is not used, those read before still count; correct it: %w", err)
}
