package contract

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lmwarden/lmwarden/tests/harness"
)

// The engine's model and its cache: small enough that a replay overflows it.
const (
	model       = "tiny"
	maxModelLen = 4096 // tokens
	blockSize   = 32   // tokens
	blocks      = 200  // one of them is the null block
	maxNumSeqs  = 4
)

// program is what is started: a command that takes the arguments of vllm, and what it
// needs besides.
type program struct {
	name    string
	command []string // up to and with "serve" and the model
	env     []string
	ready   time.Duration // longest start
}

const simulatedName = "the simulated engine"

// simulated is the simulated engine, at so many times the speed of a real card.
func simulated(t *testing.T, speed float64) program {
	t.Helper()
	return program{
		name:    simulatedName,
		command: []string{harness.Binary(t), "vllmd", "serve", "org/tiny"},
		env:     []string{fmt.Sprintf("LMWARDEN_SIM_SPEED=%g", speed), "LMWARDEN_SIM_START=200ms"},
		ready:   time.Minute,
	}
}

// engine is one running engine.
type engine struct {
	program
	address string // host:port
	url     string
	log     string // file
	cmd     *exec.Cmd
	gone    chan struct{} // closed when the API server's process has ended
}

// start starts an engine in a process group of its own. The test's end kills it.
func start(t *testing.T, p program) *engine {
	t.Helper()
	return startWith(t, p)
}

// startWith starts an engine with further flags.
func startWith(t *testing.T, p program, flags ...string) *engine {
	t.Helper()
	e := &engine{program: p, address: freeAddress(t), gone: make(chan struct{})}
	e.url = "http://" + e.address
	host, port, _ := strings.Cut(e.address, ":")
	e.log = filepath.Join(t.TempDir(), "engine.log")
	log, err := os.Create(e.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e.cmd = exec.Command(p.command[0], slices.Concat(p.command[1:], []string{
		"--served-model-name", model, "--host", host, "--port", port,
		"--max-model-len", fmt.Sprint(maxModelLen), "--max-num-seqs", fmt.Sprint(maxNumSeqs),
		"--block-size", fmt.Sprint(blockSize), "--num-gpu-blocks-override", fmt.Sprint(blocks),
		"--enable-prompt-tokens-details", "--load-format", "dummy", "--enforce-eager", "--dtype", "float32",
		"--generation-config", generationConfig(t),
	}, flags)...)
	e.cmd.Env = append(os.Environ(), p.env...)
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A file, not a pipe: children that outlive the server would keep a pipe open.
	e.cmd.Stdout, e.cmd.Stderr = log, log
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(e.gone)
		_ = e.cmd.Wait() // how it ended is in ProcessState
	}()
	t.Cleanup(func() {
		e.killGroup(t)
		if t.Failed() {
			text, _ := os.ReadFile(e.log)
			t.Logf("end of the log of %s:\n%s", p.name, text[max(0, len(text)-4000):])
		}
	})
	return e
}

// freeAddress returns a loopback address whose port is free, and keeps the port until the
// test ends: nobody else is given it, and who asks for it by its number can still have it.
func freeAddress(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", name.(*unix.SockaddrInet4).Port)
}

// generationConfig returns a folder with settings under which one token id in 4,096 ends
// an answer; by the model's own it would be one in sixteen, and answers would end by
// chance before their limit.
func generationConfig(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(`{"eos_token_id": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// waitReady waits until the engine answers.
func (e *engine) waitReady(t *testing.T) {
	t.Helper()
	begun := time.Now()
	harness.Within(t, e.ready, func() error {
		select {
		case <-e.gone:
			t.Fatalf("%s ended at its start with %v", e.name, e.cmd.ProcessState)
		default:
		}
		answer, err := client.Get(e.url + "/health")
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("/health is %s", answer.Status)
		}
		return nil
	})
	t.Logf("%s was ready after %.1f s", e.name, time.Since(begun).Seconds())
}

// pid is that of the API server, and the id of the group.
func (e *engine) pid() int { return e.cmd.Process.Pid }

func (e *engine) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := e.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// exitCode waits for the end of the API server. It is negative when a signal ended it.
func (e *engine) exitCode(t *testing.T, patience time.Duration) int {
	t.Helper()
	select {
	case <-e.gone:
		return e.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("the API server still runs after %s", patience)
		return 0
	}
}

// group returns the short names of the engine's living processes by process id.
func (e *engine) group() map[int]string { return harness.Group(e.pid()) }

// core returns the process id of the engine core, 0 when it has gone.
func (e *engine) core() int { return e.member("VLLM::EngineCor") }

// member returns the process id of the first of the engine's processes whose short name
// begins so, 0 when there is none.
func (e *engine) member(name string) int {
	found := 0
	for pid, n := range e.group() {
		if strings.HasPrefix(n, name) && (found == 0 || pid < found) {
			found = pid
		}
	}
	return found
}

// killGroup ends all processes of the engine.
func (e *engine) killGroup(t *testing.T) {
	t.Helper()
	_ = syscall.Kill(-e.pid(), syscall.SIGKILL) // fails when none is left
	<-e.gone
	e.waitEmpty(t, soon)
}

// soon is how long an engine may take for what it does at once, on a busy machine.
const soon = 20 * time.Second

// waitEmpty waits until no process of the engine is left.
func (e *engine) waitEmpty(t *testing.T, patience time.Duration) {
	t.Helper()
	harness.Within(t, patience, func() error {
		if left := e.group(); len(left) > 0 {
			return fmt.Errorf("processes are left over: %v", left)
		}
		return nil
	})
}
