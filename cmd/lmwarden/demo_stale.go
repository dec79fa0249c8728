package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/lmwarden/lmwarden/supervisor"
)

const (
	demoPrefix = "lmwarden-demo-"
	// demoOwner is the file in a demo's directory that its process holds locked. The
	// kernel lets go of the lock when the process ends, however it ends, so that no
	// process id needs to be compared.
	demoOwner = "owner"
)

// demoDir makes a demo's directory, marked as owned by this process, and returns what
// removes it. What killed demos have left behind is cleared first.
func (a *app) demoDir() (dir string, remove func() error, err error) {
	a.clearStaleDemos(os.TempDir())
	dir, err = os.MkdirTemp("", demoPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("the demo needs a temporary directory: %w", err)
	}
	owner, err := own(dir)
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("the demo's directory cannot be marked as its own: %w", err), os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), owner.Close()) }, nil
}

// own locks the directory's owner file. It has its name only once it is locked, so that
// nobody takes a demo that is just starting for one that was killed.
func own(dir string) (*os.File, error) {
	path := filepath.Join(dir, demoOwner)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// clearStaleDemos ends the engines of killed demos and removes their directories. What
// cannot be cleared is reported and does not stop the new demo.
func (a *app) clearStaleDemos(temp string) {
	dirs, err := filepath.Glob(filepath.Join(temp, demoPrefix+"*"))
	if err != nil {
		return // the name of the temporary directory is a malformed pattern
	}
	for _, dir := range dirs {
		switch cleared, err := clearStaleDemo(dir); {
		case err != nil:
			fmt.Fprintf(a.err, "an earlier demo was killed and left %s behind, which cannot be cleared; end its engines and remove it: %v\n", dir, err)
		case cleared:
			fmt.Fprintf(a.err, "an earlier demo was killed; its engines are ended and %s is removed\n", dir)
		}
	}
}

// clearStaleDemo clears one directory, if it is this user's and its demo is dead. A
// directory without the mark is left alone: nobody knows whether somebody uses it.
func clearStaleDemo(dir string) (cleared bool, err error) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false, nil // gone in between, or never a demo's
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return false, nil
	}
	owner, err := os.OpenFile(filepath.Join(dir, demoOwner), os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, owner.Close()) }()
	err = unix.Flock(int(owner.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil // it runs, or another demo is clearing it
	}
	if err != nil {
		return false, err
	}
	if err := supervisor.EndLeftovers(dir, zerolog.Nop()); err != nil {
		return false, err
	}
	return true, os.RemoveAll(dir)
}
