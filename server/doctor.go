package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/supervisor"
)

// Below these the doctor complains: a database needs little, logs and a model's files
// need more; tensor parallel engines exchange data through shared memory; each request
// that is served takes two open files.
const (
	minDiskBytes   = 1 << 30
	minSharedBytes = 1 << 30
	minOpenFiles   = 4096
)

// doctor runs every check, in the order in which a person would look.
func (c *control) doctor(ctx context.Context) []*lmwardenv1.Check {
	return []*lmwardenv1.Check{
		c.checkDataDir(),
		c.checkDatabase(),
		c.checkCards(ctx),
		c.checkEngineCommand(),
		c.checkSharedMemory(),
		checkOpenFiles(openFiles()),
		c.checkAccess(),
		c.checkServedCertificates(),
		c.checkReplicas(ctx),
	}
}

func passed(name, format string, args ...any) *lmwardenv1.Check {
	return &lmwardenv1.Check{Name: name, Ok: true, Message: fmt.Sprintf(format, args...)}
}

func failed(name, fix, format string, args ...any) *lmwardenv1.Check {
	return &lmwardenv1.Check{Name: name, Message: fmt.Sprintf(format, args...), Fix: fix}
}

func (c *control) checkDataDir() *lmwardenv1.Check {
	const name = "data directory"
	dir := c.cfg.GetDataDir()
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return failed(name, "Give the daemon's user write access, or choose another data_dir.", "%s cannot be written: %v", dir, err)
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return failed(name, "See the kernel's log (dmesg) for errors of the disk.", "a file in %s cannot be closed and removed: %v", dir, err)
	}
	free, err := freeBytes(dir)
	if err == nil && free < minDiskBytes {
		return failed(name, "Make room: old engine logs are in "+filepath.Join(dir, "logs")+".", "%s has %d MiB left", dir, free>>20)
	}
	return passed(name, "%s can be written, %d GiB are free", dir, free>>30)
}

func freeBytes(dir string) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}

func (c *control) checkDatabase() *lmwardenv1.Check {
	const name = "database"
	var broken []string
	all := c.models.list()
	for _, e := range all {
		if e.broken != nil {
			broken = append(broken, e.name())
		}
	}
	if len(broken) > 0 {
		return failed(name, "Delete them and make them anew, or put a backup in place.", "these records cannot be read: %s", strings.Join(broken, ", "))
	}
	return passed(name, "every record can be read; models: %d", len(all))
}

func (c *control) checkCards(ctx context.Context) *lmwardenv1.Check {
	const name = "cards"
	if c.cards.none != "" {
		return passed(name, "%s", c.cards.none)
	}
	inventory, none := c.cards.read(ctx)
	if none != "" {
		return failed(name, "Install NVIDIA's driver; nvidia-smi must list the cards. Without cards set engine.device: cpu.", "%s", none)
	}
	for _, d := range inventory.Devices {
		if d.Message != "" {
			return failed(name, "See the kernel's log (dmesg) for Xid errors; a reset or a reboot may bring the card back.", "card %d, %s: %s", d.Index, d.UUID, d.Message)
		}
	}
	return passed(name, "%s, driver %s", cardsSummary(inventory.Devices), or(inventory.DriverVersion, "not reported"))
}

func (c *control) checkEngineCommand() *lmwardenv1.Check {
	const name = "engine command"
	command := c.cfg.GetEngine().GetCommand()
	path, err := exec.LookPath(command[0])
	if err != nil {
		return failed(name, "Install vLLM, or set engine.command to its path.", "%s cannot be run: %v", command[0], err)
	}
	return passed(name, "%s is %s", strings.Join(command, " "), path)
}

func (c *control) checkSharedMemory() *lmwardenv1.Check {
	const name, dir = "shared memory", "/dev/shm"
	free, err := freeBytes(dir)
	switch {
	case err != nil:
		return failed(name, "Mount a tmpfs there; in a container pass --ipc=host.", "%s cannot be read: %v", dir, err)
	case free < minSharedBytes:
		return failed(name, "Give it more: mount -o remount,size=16G /dev/shm, or --shm-size=16g for a container.", "%s has %d MiB left; replicas over several cards need more", dir, free>>20)
	}
	return passed(name, "%s has %d GiB free", dir, free>>30)
}

// openFiles returns how many files this process may have open at once. Go has raised the
// soft limit to the hard one before main began.
func openFiles() (uint64, error) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err //nolint:unconvert // signed on some systems
}

func checkOpenFiles(limit uint64, err error) *lmwardenv1.Check {
	const name = "open files"
	switch {
	case err != nil:
		return failed(name, "See the limits of the service manager.", "the limit of open files cannot be read: %v", err)
	case limit < minOpenFiles:
		return failed(name, fmt.Sprintf("Raise the hard limit to %d or more and restart: ulimit -Hn, or LimitNOFILE of the service.", minOpenFiles), "this process may have %d open, and a request takes two: beyond %d requests at once engines cannot be reached", limit, limit/2)
	}
	return passed(name, "this process may have %d open", limit)
}

func (c *control) checkAccess() *lmwardenv1.Check {
	const name = "access"
	if len(c.access.warnings) > 0 {
		return failed(name, "Remove insecure: true and set inference_auth.keys_file.", "%s", strings.Join(c.access.warnings, "; "))
	}
	inference, admin := "no key, loopback only", "no token, loopback only"
	if n := len(c.access.keys.current()); n > 0 {
		inference = plural(n, "key", "keys")
	}
	if c.access.token != nil {
		admin = "a token"
	}
	return passed(name, "inference asks for %s; admin asks for %s", inference, admin)
}

func (c *control) checkServedCertificates() *lmwardenv1.Check {
	const name = "certificates"
	var served []string
	for _, one := range []*certificate{c.access.inference, c.access.admin} {
		if one == nil {
			continue
		}
		leaf := one.served.Load().Leaf
		if is := ageOf(leaf, c.now()); is != valid {
			return failed(name, renewIt, "the %s", one.old(is))
		}
		served = append(served, fmt.Sprintf("that of %s is valid until %s", one.field, leaf.NotAfter.Format(time.RFC3339)))
	}
	if len(served) == 0 {
		return passed(name, "none is needed, no listener speaks TLS")
	}
	return passed(name, "%s", strings.Join(served, "; "))
}

func (c *control) checkReplicas(ctx context.Context) *lmwardenv1.Check {
	const name = "replicas"
	ready, all := 0, c.engines.Status()
	for _, st := range all {
		switch st.State {
		case supervisor.Failed, supervisor.Backoff, supervisor.Suspect:
			return failed(name, fmt.Sprintf("Do what it says; \"lmwarden model logs %s --replica %d\" shows the engine's log if it wrote one.", st.ID.Model, st.ID.Index), "replica %d of %s is in the state %s: %s", st.ID.Index, st.ID.Model, st.State, st.Message)
		case supervisor.Ready:
			ready++
		}
	}
	for _, e := range c.models.list() {
		why := c.loop.problem(e.name())
		if why == "" {
			continue
		}
		fix := "Stop another model or ask for fewer cards."
		if _, none := c.cards.read(ctx); none != "" {
			fix = "Do what the check of the cards says."
		}
		return failed(name, fix, "%s", why)
	}
	return passed(name, "none has failed; %d of %d are ready", ready, len(all))
}

// plural chooses the word for a number.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
