package vllmd

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// process is a running program with its log.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	url   string
	mu    sync.Mutex
	lines []string
	fresh chan struct{} // told of new lines
	done  chan struct{} // closed when the process has ended
}

// freePort asks the kernel for a port that nobody uses, and keeps it until the test ends:
// nobody else is given it, and who asks for it by its number can still have it.
func freePort(t *testing.T) int {
	t.Helper()
	s, err := bind("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	name, err := unix.Getsockname(s.fd)
	if err != nil {
		t.Fatal(err)
	}
	return name.(*unix.SockaddrInet4).Port
}

// launch starts the program in its own process group. Whatever happens, nothing of the
// group is left when the test ends.
func launch(t *testing.T, env string, flags ...string) *process {
	t.Helper()
	port := freePort(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{
		t: t, url: fmt.Sprintf("http://127.0.0.1:%d", port),
		fresh: make(chan struct{}, 1), done: make(chan struct{}),
	}
	args := append([]string{"serve", "org/tiny", "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--max-model-len", "8192"}, flags...)
	p.cmd = exec.Command(exe, args...)
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "LMWARDEN_SIM_START=100ms")
	p.cmd.Env = append(p.cmd.Env, strings.Fields(env)...)
	p.cmd.Stdout, p.cmd.Stderr = write, write
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	go func() {
		for s := bufio.NewScanner(read); s.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			p.mu.Unlock()
			select {
			case p.fresh <- struct{}{}:
			default:
			}
		}
	}()
	go func() {
		_ = p.cmd.Wait() // the exit code is read from ProcessState
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
		read.Close()
	})
	return p
}

// log returns what was written so far.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// expect waits for a line with that text.
func (p *process) expect(text string) {
	p.t.Helper()
	limit := time.After(patience)
	for !strings.Contains(p.log(), text) {
		select {
		case <-p.fresh:
		case <-limit:
			p.t.Fatalf("the log never says %q:\n%s", text, p.log())
		}
	}
}

// exit waits for the end and returns the exit code.
func (p *process) exit() (code int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("the process does not end:\n%s", p.log())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// enginePID returns the process id of the engine core, from the log.
func (p *process) enginePID() int {
	p.t.Helper()
	_, rest, ok := strings.Cut(p.log(), "(EngineCore pid=")
	digits, _, _ := strings.Cut(rest, ")")
	pid, err := strconv.Atoi(digits)
	if !ok || err != nil {
		p.t.Fatalf("the log names no engine core:\n%s", p.log())
	}
	return pid
}

// title returns the first argument of a process.
func title(pid int) string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(raw), "\x00")
	return first
}

// stream opens an endless answer and returns a reader of it after its first event.
func (p *process) stream(ctx context.Context, tokens int) *bufio.Reader {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/chat/completions",
		strings.NewReader(fmt.Sprintf(`{"model":"tiny","stream":true,"ignore_eos":true,"max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}`, tokens)))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { res.Body.Close() })
	r := bufio.NewReader(res.Body)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		p.t.Fatalf("the stream begins with %q, %v", line, err)
	}
	return r
}

// groupOf lists the titles of the living processes of a group.
func groupOf(t *testing.T, pgid int) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if g, err := syscall.Getpgid(pid); err == nil && g == pgid {
			if name := title(pid); name != "" { // a zombie has none
				titles = append(titles, name)
			}
		}
	}
	return titles
}
