package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is what /proc/PID/stat says of one process. A pid alone names nothing, since
// pids are used again; with the start time it does.
type process struct {
	pid, parent, session int
	state                byte
	start                uint64 // clock ticks since boot
}

// readProcess reads one process; an error means that it is gone.
func readProcess(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	// The name, in parentheses, may hold spaces and parentheses itself.
	end := bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[end+1:]))
	if end < 0 || len(fields) < 20 {
		return process{}, fmt.Errorf("/proc/%d/stat has an unknown form", pid)
	}
	number := func(i int) int { n, _ := strconv.Atoi(fields[i]); return n }
	start, _ := strconv.ParseUint(fields[19], 10, 64)
	return process{pid: pid, state: fields[0][0], parent: number(1), session: number(3), start: start}, nil
}

// processes lists all processes of the box, except this one.
func processes() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("the processes of the box cannot be listed: %w", err)
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// family is every process of one life of a replica: the engine's root, what descends
// from it, and what was left when parents died. A process belongs to it when it is in
// the root's session, when its environment carries the token, when its parent belongs
// to it, or when it once did. The last two find even a process that has made a session
// of its own and wiped its environment.
type family struct {
	root  int
	start uint64 // of the root
	token string // "LMWARDEN_REPLICA=…", or "" when not known
	ours  bool   // os/exec waits for the root
	known map[int]uint64
}

func newFamily(root int, start uint64, token string) *family {
	f := &family{root: root, start: start, token: token, known: map[int]uint64{}}
	if root != 0 {
		f.known[root] = start
	}
	return f
}

// members returns the processes of the family that run, and reaps those that have
// ended and are ours to reap.
func (f *family) members() ([]process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	session := f.root
	belongs := map[int]bool{}
	for _, p := range all {
		if p.pid == f.root && p.start != f.start {
			session = 0 // the number has been given to a stranger
		}
	}
	for _, p := range all {
		start, known := f.known[p.pid]
		switch {
		case known && start == p.start,
			session != 0 && p.session == session,
			f.carriesToken(p.pid):
			belongs[p.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if belongs[p.parent] && !belongs[p.pid] {
				belongs[p.pid], grown = true, true
			}
		}
	}
	var alive []process
	for _, p := range all {
		if !belongs[p.pid] {
			continue
		}
		f.known[p.pid] = p.start
		if p.state == 'Z' || p.state == 'X' {
			f.reap(p)
			continue
		}
		alive = append(alive, p)
	}
	return alive, nil
}

// reap takes the exit status of an orphan that the kernel gave to us. The root's own
// belongs to os/exec where we started it, so only this one pid is waited for.
func (f *family) reap(p process) {
	if (p.pid != f.root || !f.ours) && p.parent == os.Getpid() {
		_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
	}
}

func (f *family) carriesToken(pid int) bool {
	if f.token == "" {
		return false
	}
	// Processes of other users cannot be read, and are not ours.
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool {
		return string(v) == f.token
	})
}

// signal sends sig to one process, if it still is the one that was seen.
func signal(p process, sig unix.Signal) {
	if now, err := readProcess(p.pid); err == nil && now.start == p.start {
		_ = unix.Kill(p.pid, sig) // it may have ended by itself in between
	}
}

// errAlive is wrapped when processes stay although they were killed.
var errAlive = errors.New("processes of the engine do not end")

// end ends the whole family: SIGTERM, then after term or when ctx ends SIGKILL, and it
// looks again until nobody is left. The error names who stays for longer than kill.
func (f *family) end(ctx context.Context, term, kill time.Duration) error {
	gentle, cancel := context.WithTimeout(ctx, term)
	defer cancel()
	left, err := f.members()
	if err != nil || len(left) == 0 {
		return err
	}
	// The root first: it ends its children in good order.
	slices.SortStableFunc(left, func(a, b process) int { return order(a, f.root) - order(b, f.root) })
	for _, p := range left {
		signal(p, unix.SIGTERM)
	}
	if left, err = f.gone(gentle, func(process) {}); err != nil || len(left) == 0 {
		return err
	}
	hard, cancel := context.WithTimeout(context.WithoutCancel(ctx), kill)
	defer cancel()
	left, err = f.gone(hard, func(p process) { signal(p, unix.SIGKILL) })
	if err != nil || len(left) == 0 {
		return err
	}
	names := make([]string, len(left))
	for i, p := range left {
		names[i] = fmt.Sprintf("%d (state %c)", p.pid, p.state)
	}
	return fmt.Errorf("%w: %s stay after SIGKILL; a process in state D waits for a driver or a disk", errAlive, strings.Join(names, ", "))
}

func order(p process, root int) int {
	if p.pid == root {
		return 0
	}
	return 1
}

// gone looks again and again until no member is left or ctx ends, and calls each for
// every member that it sees. It looks often at first, as most families end at once.
func (f *family) gone(ctx context.Context, each func(process)) ([]process, error) {
	const first, most = 5 * time.Millisecond, 200 * time.Millisecond
	for pause := first; ; pause = min(2*pause, most) {
		left, err := f.members()
		if err != nil || len(left) == 0 {
			return nil, err
		}
		for _, p := range left {
			each(p)
		}
		select {
		case <-ctx.Done():
			return left, nil
		case <-time.After(pause):
		}
	}
}

// bootID names this boot of the host: pids of another one mean nothing.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("there is no /proc; the supervisor needs Linux with /proc mounted")
	}
	return strings.TrimSpace(string(id)), err
}
