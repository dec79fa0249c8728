package proxyload

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a proxy that was started, with the processes that it started itself.
type process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{}
	said   chan string // the lines it writes, until the reader has enough

	mu   sync.Mutex
	last string // line
}

// begin starts a command line in a process group of its own, so that an interrupt at
// the terminal reaches only this program, which then stops the others in order.
func begin(name string, args ...string) (*process, error) {
	p := &process{name: name, exited: make(chan struct{}), said: make(chan string, 64)}
	// Not bound to a context: it is ended in an orderly way, with its children.
	p.cmd = exec.Command(args[0], args[1:]...) //nolint:noctx // see above
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second // a child of its own may hold the pipe
	lines, writer := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = writer, writer
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s does not start: %w", name, err)
	}
	var read sync.WaitGroup
	read.Go(func() { p.listen(lines) })
	go func() {
		_ = p.cmd.Wait() // how it ended is told by its last words
		_ = writer.Close()
		read.Wait()
		close(p.exited)
	}()
	return p, nil
}

// listen takes what the process writes, which must not block for want of a reader.
func (p *process) listen(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		p.mu.Lock()
		p.last = line
		p.mu.Unlock()
		select {
		case p.said <- line:
		default:
		}
	}
	_, _ = io.Copy(io.Discard, r) // after a line that is too long
}

// url waits for the line that begins with prefix and returns its last word, the
// address at which the process answers.
func (p *process) url(ctx context.Context, prefix string) (string, error) {
	for {
		select {
		case line := <-p.said:
			if strings.HasPrefix(line, prefix) {
				return line[strings.LastIndexByte(line, ' ')+1:], nil
			}
		case <-p.exited:
			return "", p.failure(errors.New("it ended at its start"))
		case <-ctx.Done():
			return "", p.failure(fmt.Errorf("it did not say where it answers: %w", context.Cause(ctx)))
		}
	}
}

// answers waits until try succeeds, or the process ends.
func (p *process) answers(ctx context.Context, try func(context.Context) error) error {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		err := try(ctx)
		select {
		case <-p.exited: // somebody else may have answered in its place
			return p.failure(errors.New("it ended at its start"))
		case <-ctx.Done():
			return p.failure(fmt.Errorf("it carries no stream: %w", err))
		case <-poll.C:
		}
		if err == nil {
			return nil
		}
	}
}

// failure says why a process is of no use, with its last line.
func (p *process) failure(why error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == "" {
		return fmt.Errorf("%s: %w", p.name, why)
	}
	return fmt.Errorf("%s: %w; its last words: %s", p.name, why, p.last)
}

// patience is how long a process may take to end when it is asked to.
const patience = 5 * time.Second

// stop ends the process and whatever is left of its group.
func (p *process) stop() {
	group := -p.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(patience):
	}
	_ = syscall.Kill(group, syscall.SIGKILL) // a group without processes has none to kill
	<-p.exited
}

// cpu returns the processor time that the process and its children have used so far.
// The children that count, nginx's workers, live as long as it does; one that ended
// takes its time away with it.
func (p *process) cpu() (time.Duration, error) {
	pids, err := family(p.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, pid := range pids {
		used, err := processorTime(pid)
		if err != nil && pid != p.cmd.Process.Pid {
			continue // it ended meanwhile
		}
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// processorTime reads the processor clock of another process, all its threads
// together. It counts nanoseconds, where /proc/PID/stat has steps of 10 ms.
func processorTime(pid int) (time.Duration, error) {
	// How Linux names the clock of a process: clock_getcpuclockid(3) does the same.
	const scheduled = 2
	clock := int32(^pid<<3 | scheduled)
	var used unix.Timespec
	if err := unix.ClockGettime(clock, &used); err != nil {
		return 0, fmt.Errorf("read the processor clock of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// family returns a process and its children.
func family(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	pids := []int{pid}
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		// The name stands in parentheses and may hold any; state and parent come after it.
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, child)
		}
	}
	return pids, nil
}
