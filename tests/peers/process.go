package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a program that was started, with the children that it started itself.
type process struct {
	name   string
	log    string // path of what it wrote
	cmd    *exec.Cmd
	exited chan struct{}
}

// start runs a command line in a process group of its own. What it writes goes to a
// file in dir.
func start(dir, name string, env, args []string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep the log of %s: %w", name, err)
	}
	defer out.Close()
	// Not bound to a context: it is ended in an orderly way, with its children.
	p.cmd = exec.Command(args[0], args[1:]...) //nolint:noctx // see above
	p.cmd.Dir, p.cmd.Env = dir, append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s does not start: %w", name, err)
	}
	go func() {
		// How it ended is told by its log; that it did is what matters here.
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// patience is how long a process may take to end when it is asked to.
const patience = 5 * time.Second

// stop ends the process and whatever is left of its group.
func (p *process) stop() {
	if p == nil {
		return
	}
	group := -p.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(patience):
	}
	// A group without processes has none to kill.
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-p.exited
}

// failure says why a process is of no use, with the end of what it wrote.
func (p *process) failure(why error) error {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return errors.Join(why, err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return fmt.Errorf("%s: %w; its last words: %s", p.name, why, last)
	}
	return fmt.Errorf("%s: %w", p.name, why)
}

// ready waits until try succeeds, the process ends, or startLimit is over.
func (p *process) ready(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return p.failure(errors.New("it ended at its start"))
		case <-ctx.Done():
			return p.failure(fmt.Errorf("it is not ready: %w", err))
		case <-poll.C:
		}
	}
}

// startLimit bounds the start of a process.
const startLimit = 40 * time.Second

// answers asks for a URL and wants 200.
func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return nil
}

// freeAddresses returns n loopback addresses whose ports are free now.
func freeAddresses(n int) ([]string, error) {
	var found []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // only after all are found, so that none comes twice
		found = append(found, l.Addr().String())
	}
	return found, nil
}
