package supervisor

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// record is the run file of a replica. It says which life is the present or last one,
// and how its processes are found. Adopting a running engine instead of ending it
// would begin from the same record.
type record struct {
	Incarnation uint64 `json:"incarnation"`
	Boot        string `json:"boot,omitempty"`
	Token       string `json:"token,omitempty"` // empty when no process is left
	PID         int    `json:"pid,omitempty"`
	Start       uint64 `json:"start,omitempty"` // clock ticks since boot
	Port        int    `json:"port,omitempty"`
}

// runDir keeps one record per replica, replica by replica owned by its goroutine.
type runDir struct {
	path   string
	boot   string
	booted time.Time // zero when not known
}

func openRunDir(path string) (*runDir, error) {
	boot, err := bootID()
	if err != nil {
		return nil, fmt.Errorf("this boot of the host cannot be told from others: %w", err)
	}
	d := &runDir{path: path, boot: boot}
	var up unix.Sysinfo_t
	if err := unix.Sysinfo(&up); err == nil {
		// A file that is written while the clock is set right stays on the safe side.
		d.booted = time.Now().Add(-time.Duration(up.Uptime)*time.Second - time.Minute)
	}
	return d, nil
}

// dirName makes a name of a file out of any model name.
func dirName(model string) string {
	name := url.PathEscape(model)
	if strings.Trim(name, ".") == "" {
		name = strings.ReplaceAll(name, ".", "%2E")
	}
	return name
}

func (d *runDir) file(id ReplicaID) string {
	return filepath.Join(d.path, dirName(id.Model), fmt.Sprintf("%d.json", id.Index))
}

// older says whether a file was written before this boot.
func (d *runDir) older(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.ModTime().Before(d.booted)
}

// next begins a new life: it counts on and makes a token, and writes both down before
// there is a process that could be lost.
func (d *runDir) next(id ReplicaID) (record, error) {
	last, err := readRecord(d.file(id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return record{}, err
	}
	rec := record{Incarnation: last.Incarnation + 1, Boot: d.boot}
	rec.Token = fmt.Sprintf("%s=%s/%d/%d/%s", tokenVar, id.Model, id.Index, rec.Incarnation, rand.Text())
	return rec, d.write(id, rec)
}

// write replaces the record whole, or not at all.
func (d *runDir) write(id ReplicaID, rec record) error { return writeRecord(d.file(id), rec) }

// ended notes that no process of the life is left.
func (d *runDir) ended(id ReplicaID, rec record) error {
	return d.write(id, record{Incarnation: rec.Incarnation})
}

func readRecord(path string) (record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return record{}, err
	}
	var rec record
	if err := json.Unmarshal(text, &rec); err != nil {
		return record{}, fmt.Errorf("the run file %s is damaged; end the engine that it stood for, if it runs, and delete the file: %w", path, err)
	}
	return rec, nil
}

func writeRecord(path string, rec record) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("the run file cannot be written: %w", err)
	}
	temp := path + ".new"
	if err := writeSynced(temp, append(text, '\n')); err != nil {
		_ = os.Remove(temp) // half of it helps nobody, and takes space
		return fmt.Errorf("the run file cannot be written: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("the run file cannot be written: %w", err)
	}
	return nil
}

// writeSynced writes a file and waits until the disk has it: renamed before that, a
// power cut would leave an empty record in the place of a good one.
func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// endLeftovers ends the engines that an earlier supervisor has left running, all at the
// same time. An error means that some run on: nothing may be started beside them.
func (d *runDir) endLeftovers(opts Options) error {
	files, err := filepath.Glob(filepath.Join(d.path, "*", "*.json"))
	if err != nil {
		return err
	}
	errs := make([]error, len(files))
	var group sync.WaitGroup
	for i, file := range files {
		group.Go(func() { errs[i] = d.endLeftover(file, opts) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (d *runDir) endLeftover(file string, opts Options) error {
	rec, err := readRecord(file)
	if err != nil {
		if !d.older(file) {
			return err
		}
		// No process of another boot is left, whatever stood there.
		aside := file + ".damaged"
		opts.Logger.Warn().Err(err).Str("moved_to", aside).Msg("a run file of an earlier boot is damaged; it is moved aside and its runs are counted anew")
		return os.Rename(file, aside)
	}
	if rec.Token == "" {
		return nil
	}
	if rec.Boot == d.boot {
		// os/exec does not know them, so that their exit status is ours to take.
		f := newFamily(rec.PID, rec.Start, rec.Token)
		left, err := f.members()
		if err == nil && len(left) > 0 {
			opts.Logger.Warn().Str("run_file", file).Int("processes", len(left)).
				Msg("ending an engine that an earlier daemon left running")
			err = f.end(context.Background(), opts.Timing.TermGrace, opts.Timing.KillGrace)
		}
		if err != nil {
			return fmt.Errorf("an engine of an earlier daemon (%s) cannot be ended: %w", file, err)
		}
	}
	err = writeRecord(file, record{Incarnation: rec.Incarnation})
	if isFull(err) { // nothing of it runs, and the next life writes the file anew
		opts.Logger.Warn().Err(err).Str("run_file", file).Msg("the disk is full; free some space")
		return nil
	}
	return err
}
