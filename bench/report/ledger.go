package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Ledger keeps the finished runs of a series. With a path it writes them to a file
// after each one, and finds them there when the series is begun again.
type Ledger struct {
	path   string
	file   ledgerFile
	failed []Run // of this time, in no file
}

// ledgerFile is the form of the file.
type ledgerFile struct {
	Settings json.RawMessage `json:"settings"`
	Runs     []Run           `json:"runs"`
}

// OpenLedger opens the ledger of a series with these settings; an empty path keeps it
// in memory only. A file with other settings is refused: its runs do not belong to
// this series.
func OpenLedger(path string, settings any) (*Ledger, error) {
	mine, err := json.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("write the settings of the series: %w", err)
	}
	l := &Ledger{path: path, file: ledgerFile{Settings: mine}}
	if path == "" {
		return l, nil
	}
	found, err := readLedger(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, l.save()
	}
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, found.Settings); err != nil || !bytes.Equal(compact.Bytes(), mine) {
		return nil, fmt.Errorf("%s belongs to a series with other settings; give the same flags as before, or another file", path)
	}
	l.file.Runs = found.Runs
	return l, nil
}

// KeptSettings reads the settings of the series that path keeps into settings; false when
// there is none yet. What a series has measured before its first run is found there when
// it goes on.
func KeptSettings(path string, settings any) (bool, error) {
	if path == "" {
		return false, nil
	}
	found, err := readLedger(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := json.Unmarshal(found.Settings, settings); err != nil {
		return false, notALedger(path, err)
	}
	return true, nil
}

// readLedger reads the file of a series. The error of a file that does not exist is
// [fs.ErrNotExist].
func readLedger(path string) (ledgerFile, error) {
	var found ledgerFile
	data, err := os.ReadFile(path)
	if err != nil {
		return found, fmt.Errorf("the series cannot be resumed: %w", err)
	}
	if err := json.Unmarshal(data, &found); err != nil {
		return found, notALedger(path, err)
	}
	return found, nil
}

func notALedger(path string, err error) error {
	return fmt.Errorf("%s is not the file of a series (%w); name another file", path, err)
}

// Find returns a run that is in the ledger already. Partial ones do not count.
func (l *Ledger) Find(arm string, sessions, round int) (Run, bool) {
	for _, r := range l.file.Runs {
		if r.Arm == arm && r.Sessions == sessions && r.Round == round {
			return r, true
		}
	}
	return Run{}, false
}

// Add keeps a run, but for a partial one: the series will repeat it. It will also repeat
// one whose requests all failed, which is in [Ledger.All] and in no file.
func (l *Ledger) Add(r Run) error {
	switch {
	case r.Partial:
		return nil
	case r.failed():
		l.failed = append(l.failed, r)
		return nil
	}
	l.file.Runs = append(l.file.Runs, r)
	if l.path == "" {
		return nil
	}
	return l.save()
}

// Runs returns what the ledger holds, in the order in which it came.
func (l *Ledger) Runs() []Run { return l.file.Runs }

// All returns what the ledger holds, and behind that the runs of this time whose requests
// all failed.
func (l *Ledger) All() []Run { return slices.Concat(l.file.Runs, l.failed) }

// save replaces the file as a whole, so that an interrupted write loses nothing.
func (l *Ledger) save() error {
	data, err := json.MarshalIndent(l.file, "", "  ")
	if err != nil {
		return fmt.Errorf("keep the series: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(l.path), filepath.Base(l.path)+".*")
	if err != nil {
		return fmt.Errorf("keep the series: %w", err)
	}
	_, err = temp.Write(append(data, '\n'))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), l.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep the series: %w", err), os.Remove(temp.Name()))
	}
	return nil
}
