package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the box and say what to do; exits 1 when a check fails",
		Args:  arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			report, err := cs.system.RunDoctor(c.Context(), &lmwardenv1.RunDoctorRequest{})
			if err != nil {
				return err
			}
			failed := 0
			for _, check := range report.GetChecks() {
				if !check.GetOk() {
					failed++
				}
			}
			err = a.show(report, func(w io.Writer) { a.printChecks(w, report.GetChecks()) })
			if err == nil && failed > 0 {
				err = fmt.Errorf("%s failed", plural(failed, "check", "checks"))
			}
			return err
		},
	}
}

func (a *app) printChecks(w io.Writer, checks []*lmwardenv1.Check) {
	t := a.newTable("check", "result", "found")
	for _, check := range checks {
		result := cell{"ok", green}
		if !check.GetOk() {
			result = cell{"failed", red}
		}
		t.add(check.GetName(), result, check.GetMessage())
	}
	t.print(w)
	for _, check := range checks {
		if check.GetFix() != "" {
			_, _ = fmt.Fprintf(w, "%s: %s\n", check.GetName(), check.GetFix())
		}
	}
}

func (a *app) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the daemon's database into a file while it is in use",
		Args:  arguments("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := os.Lstat(args[0]); err == nil {
				return usageErrorf("%s exists already; choose another name, a backup never overwrites", args[0])
			}
			cs, err := a.dial()
			if err != nil {
				return err
			}
			stream, err := cs.system.Backup(c.Context(), &lmwardenv1.BackupRequest{})
			if err != nil {
				return err
			}
			n, err := writeBackup(args[0], stream)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "wrote %d bytes to %s\n", n, args[0])
			return nil
		},
	}
}

// writeBackup writes the stream into a file beside the wanted one and names it only
// when it is whole and on the disk.
func writeBackup(path string, stream receiver[*lmwardenv1.BackupResponse]) (n int64, err error) {
	defer stream.Close() //nolint:errcheck // nothing is sent any more
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-*")
	if err != nil {
		return 0, fmt.Errorf("the backup cannot be written: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	defer f.Close()
	for {
		piece, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, err
		}
		if _, err := f.Write(piece.GetData()); err != nil {
			return n, fmt.Errorf("the backup cannot be written: %w", err)
		}
		n += int64(len(piece.GetData()))
	}
	if err := errors.Join(f.Sync(), f.Close(), os.Rename(f.Name(), path)); err != nil {
		return n, fmt.Errorf("the backup cannot be written: %w", err)
	}
	return n, nil
}
