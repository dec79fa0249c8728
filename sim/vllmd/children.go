package vllmd

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// The roles of child processes, as the first argument of the program.
const (
	roleEngine      = "engine-core"
	roleWorker      = "worker"
	roleCoordinator = "dp-coordinator"
	roleFront       = "api-server"
	roleOrphan      = "orphan"
)

// child is a process that this one started.
type child struct {
	title string // "EngineCore_DP0"
	cmd   *exec.Cmd
	gone  chan struct{} // closed when it has ended
	up    chan struct{} // closed when it has started its own children, or has ended
	ended atomic.Bool   // this process ended it
}

// startChild starts the program again in a role. The child is in the group and session
// of its parent and outlives it. With a leash it sees its parent's end on its input.
func startChild(prefix []string, title, role string, stdout io.Writer, leash bool, args ...string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program to start %s: %w", title, err)
	}
	cmd := exec.Command(exe) //nolint:noctx // no context: it outlives its parent
	cmd.Args = append(append([]string{"VLLM::" + title}, prefix...), role, title)
	cmd.Args = append(cmd.Args, args...)
	// A file is inherited. Another writer would need a goroutine of the parent, and the
	// child would then not outlive it.
	if f, ok := stdout.(*os.File); ok {
		cmd.Stdout, cmd.Stderr = f, f
	}
	if leash {
		if _, err := cmd.StdinPipe(); err != nil {
			return nil, fmt.Errorf("make the input of %s: %w", title, err)
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the pipe by which %s says that it is up: %w", title, err)
	}
	cmd.ExtraFiles = []*os.File{write} // its file upFile
	err = cmd.Start()
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("start %s: %w", title, err)
	}
	c := &child{title: title, cmd: cmd, gone: make(chan struct{}), up: make(chan struct{})}
	go func() {
		defer close(c.up)
		// Nothing is written: the child closes its end, by itself or by dying.
		_, _ = io.Copy(io.Discard, read)
		read.Close()
	}()
	go func() {
		// How it ended does not matter; that it did is what the parent waits for.
		_ = cmd.Wait()
		close(c.gone)
	}()
	return c, nil
}

// kill ends a child and waits until it is gone.
func (c *child) kill(sig syscall.Signal) {
	c.ended.Store(true)
	// It fails only when the child is gone already.
	_ = c.cmd.Process.Signal(sig)
	<-c.gone
}

// upFile is the file that a child closes when it is up.
const upFile = 3

// runChild is what a child does: it lives until it is told to end. An engine core
// starts one worker for each card when there are several, as vLLM does.
func runChild(role string, args []string, stdout io.Writer) int {
	syscall.CloseOnExec(upFile) // or its own children would keep it open
	up := os.NewFile(upFile, "up")
	title := "EngineCore"
	if len(args) > 0 {
		title = args[0]
	}
	setTitle("VLLM::" + title)
	log := newLogger(stdout, title, os.Getpid())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	var lost <-chan string
	switch role {
	case roleWorker:
		// A worker sees the end of its engine core on its input, and ends with it.
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			log.info("multiproc_executor.py:843", "Parent process exited, terminating worker queues")
			os.Exit(exitOK)
		}()
	case roleOrphan:
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		up.Close()
		select {}
	case roleEngine:
		if len(args) > 1 {
			var err error
			if lost, err = startWorkers(title, args[1], stdout); err != nil {
				log.error("core.py:1400", "EngineCore failed to start. %v", err)
				return exitError
			}
		}
	}
	up.Close()
	select {
	case <-stop:
	case how := <-lost:
		select {
		case <-stop: // the signal was for the whole group
		case <-time.After(groupDelay):
			log.error("multiproc_executor.py:300", "%s, shutting down executor.", how)
			log.error("core.py:1420", "EngineCore encountered a fatal error.")
			return exitError
		}
	}
	if role == roleEngine {
		log.info("core.py:1454", "[shutdown] EngineCore: trigger received signal=SIGTERM")
		log.info("core.py:1635", "[shutdown] EngineCore: start mode=abort timeout=0s")
		log.info("core.py:1499", "[shutdown] EngineCore: exiting busy loop")
	}
	return exitOK
}

// startWorkers starts count workers of an engine core. The channel says of each how it
// ended.
func startWorkers(title, count string, stdout io.Writer) (lost <-chan string, err error) {
	n, err := strconv.Atoi(count)
	if err != nil {
		return nil, fmt.Errorf("number of workers: %w", err)
	}
	ends := make(chan string, n)
	// os.Args is NAME PREFIX... ROLE TITLE COUNT.
	prefix := os.Args[1 : len(os.Args)-3]
	dp := strings.TrimPrefix(title, "EngineCore")
	workers := make([]*child, 0, n)
	for i := range n {
		name := fmt.Sprintf("Worker_TP%d", i)
		if dp != "" {
			name = fmt.Sprintf("Worker%s_TP%d", dp, i)
		}
		c, err := startChild(prefix, name, roleWorker, stdout, true)
		if err != nil {
			return nil, err
		}
		workers = append(workers, c)
		go func() {
			<-c.gone
			code := c.cmd.ProcessState.ExitCode()
			if s, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
				code = -int(s.Signal()) // as Python has it
			}
			ends <- fmt.Sprintf("Worker proc VllmWorker-%d died unexpectedly (exit code: %d)", i, code)
		}()
	}
	for _, c := range workers {
		<-c.up
	}
	return ends, nil
}

// setTitle names the process for tools that show the short name. The long one is the
// first argument with which it was started.
func setTitle(title string) {
	// The kernel keeps 15 bytes. Without /proc the name stays as it is.
	_ = os.WriteFile("/proc/self/comm", []byte(title[:min(len(title), 15)]), 0)
}
