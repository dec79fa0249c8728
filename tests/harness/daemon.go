package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
)

// Binary returns the path of the binary under test: $LMWARDEN_BINARY, or one that
// is built once for the test process.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("LMWARDEN_BINARY"); path != "" {
		return path
	}
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// buildOnce builds the binary into one place of the user's cache, so that runs leave
// one file behind and not one each.
var buildOnce = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the binary under test: %w", err)
	}
	dir := filepath.Join(cache, "lmwarden", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "lmwarden")
	// A run beside this one may be using the old file: it is replaced, not written.
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	build := exec.Command("go", "build", "-o", fresh, "github.com/lmwarden/lmwarden/cmd/lmwarden")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	return path, os.Rename(fresh, path)
})

// Daemon is one running daemon and its clients. The daemon chooses its ports itself: one
// that was free a moment ago may be somebody else's when it comes to listen. So the URLs
// and the clients are there when it has said where it listens, which [Start] waits for.
type Daemon struct {
	AdminURL     string // base URL of the admin API and the page
	InferenceURL string // base URL of the endpoints
	DataDir      string
	Mark         string // value of LMWARDEN_TEST_MARK in the daemon's environment

	Models   lmwardenv1connect.ModelServiceClient
	Replicas lmwardenv1connect.ReplicaServiceClient
	Routing  lmwardenv1connect.RoutingServiceClient
	Stats    lmwardenv1connect.StatsServiceClient
	Gpus     lmwardenv1connect.GpuServiceClient
	System   lmwardenv1connect.SystemServiceClient

	cmd    *exec.Cmd
	log    *lockedBuffer
	exited chan struct{}
	state  error
}

// Options of a daemon.
type Options struct {
	// Config is the YAML after the listeners and the data directory.
	Config string
	// DataDir is kept between two daemons of one test; empty means a new one.
	DataDir string
	// Args are further arguments of serve.
	Args []string
	// Env are further variables, "NAME=value".
	Env []string
}

// startLimit is how long a start may take on a machine that is busy with other tests.
const startLimit = time.Minute

// Start starts a daemon and waits until its API answers. The test's end stops it.
func Start(t testing.TB, o Options) *Daemon {
	t.Helper()
	d := Launch(t, o)
	deadline := time.Now().Add(startLimit)
	for {
		err := d.answers(t.Context())
		if err == nil {
			return d
		}
		select {
		case <-d.exited:
			t.Fatalf("the daemon ended at its start: %v\n%s", d.state, d.Log())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("the daemon's API did not answer within %s: %v\n%s", startLimit, err, d.Log())
		}
	}
}

// answers asks the daemon's API for something, where the daemon said that it listens.
func (d *Daemon) answers(ctx context.Context) error {
	admin, inference := d.announced("page and admin API "), d.announced("OpenAI and Anthropic API ")
	if admin == "" || inference == "" {
		return errors.New("it has not said where it listens")
	}
	d.AdminURL, d.InferenceURL = "http://"+admin, "http://"+inference
	d.connect()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := d.System.GetInfo(ctx, &lmwardenv1.GetInfoRequest{})
	return err
}

// announced returns the address in a whole line that begins with a text, or "".
func (d *Daemon) announced(begin string) string {
	for line := range strings.Lines(d.Log()) {
		if rest, ok := strings.CutPrefix(line, begin); ok && strings.HasSuffix(rest, "\n") {
			_, address, _ := strings.Cut(strings.TrimSpace(rest), "://")
			return address
		}
	}
	return ""
}

// Launch starts a daemon and does not wait for it; for starts that must fail.
func Launch(t testing.TB, o Options) *Daemon {
	t.Helper()
	if o.DataDir == "" {
		o.DataDir = t.TempDir()
	}
	d := &Daemon{
		DataDir: o.DataDir,
		Mark:    fmt.Sprintf("%s-%d", filepath.Base(t.Name()), time.Now().UnixNano()),
		log:     new(lockedBuffer),
		exited:  make(chan struct{}),
	}
	config := filepath.Join(t.TempDir(), "lmwarden.yaml")
	text := fmt.Sprintf("inference_listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\ndata_dir: %s\n%s", d.DataDir, o.Config)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.cmd = exec.Command(Binary(t), append([]string{"serve", "--config", config}, o.Args...)...)
	d.cmd.Env = append(append(os.Environ(), "LMWARDEN_TEST_MARK="+d.Mark), o.Env...)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.state = d.cmd.Wait()
		close(d.exited)
	}()
	t.Cleanup(func() {
		if code := d.Stop(60 * time.Second); code != 0 && code != -1 {
			t.Logf("the daemon ended with %d\n%s", code, d.Log())
		}
		if t.Failed() {
			t.Logf("log of the daemon:\n%s", d.Log())
		}
	})
	return d
}

func (d *Daemon) connect() {
	client := connect.NewClient(connecthttp.NewTransport(http.DefaultClient, d.AdminURL))
	d.Models = lmwardenv1connect.NewModelServiceClient(client)
	d.Replicas = lmwardenv1connect.NewReplicaServiceClient(client)
	d.Routing = lmwardenv1connect.NewRoutingServiceClient(client)
	d.Stats = lmwardenv1connect.NewStatsServiceClient(client)
	d.Gpus = lmwardenv1connect.NewGpuServiceClient(client)
	d.System = lmwardenv1connect.NewSystemServiceClient(client)
}

// Routed returns when the daemon sends requests by the states that its replicas were shown
// in: they are shown a moment before the routing has them.
func (d *Daemon) Routed(t testing.TB, model string) {
	t.Helper()
	// For a replica that is in rotation it changes nothing, and answers when the routing
	// has all that was known before.
	if _, err := d.Replicas.ResumeReplica(t.Context(), &lmwardenv1.ResumeReplicaRequest{Model: model}); err != nil {
		t.Fatal(err)
	}
}

// Idle returns an error that names a replica of the model with requests in flight, or nil.
func (d *Daemon) Idle(ctx context.Context, model string) error {
	answer, err := d.Routing.GetRouting(ctx, &lmwardenv1.GetRoutingRequest{Model: model})
	if err != nil {
		return err
	}
	for i, r := range answer.GetCard().GetReplicas() {
		if r.GetInFlight() != 0 {
			return fmt.Errorf("replica %d still has %d requests in flight", i, r.GetInFlight())
		}
	}
	return nil
}

// Log returns what the daemon wrote so far.
func (d *Daemon) Log() string { return d.log.String() }

// PID returns the daemon's process id.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Exited is closed when the daemon ended.
func (d *Daemon) Exited() <-chan struct{} { return d.exited }

// ExitCode returns the daemon's exit code, or -1 while it runs or when a signal
// ended it.
func (d *Daemon) ExitCode() int {
	select {
	case <-d.exited:
		var exit *exec.ExitError
		if errors.As(d.state, &exit) {
			return exit.ExitCode()
		}
		return 0
	default:
		return -1
	}
}

// Signal sends a signal to the daemon alone.
func (d *Daemon) Signal(sig syscall.Signal) { _ = d.cmd.Process.Signal(sig) }

// Stop interrupts the daemon as Ctrl-C does, waits, and returns its exit code. One
// that does not end in time is killed and -1 returned.
func (d *Daemon) Stop(patience time.Duration) int {
	d.Signal(syscall.SIGINT)
	select {
	case <-d.exited:
		return d.ExitCode()
	case <-time.After(patience):
		_ = d.cmd.Process.Kill()
		<-d.exited
		return -1
	}
}

// FreeAddress returns a loopback address whose port is free now.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Within calls check every 50 ms until it returns nil, and fails the test with its
// last error after the given time.
func Within(t testing.TB, patience time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still after %s: %v", patience, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Processes returns the processes that have NAME=value in their environment, by
// process id, with their command lines.
func Processes(name, value string) map[int]string {
	found := map[int]string{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return found
	}
	want := []byte(name + "=" + value)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err != nil || !containsLine(environ, want) || zombie(entry.Name()) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		found[pid] = string(bytes.ReplaceAll(bytes.TrimRight(cmdline, "\x00"), []byte{0}, []byte{' '}))
	}
	return found
}

func containsLine(environ, want []byte) bool {
	for _, line := range bytes.Split(environ, []byte{0}) {
		if bytes.Equal(line, want) {
			return true
		}
	}
	return false
}

// zombie says whether a process has ended and only waits to be reaped.
func zombie(pid string) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return true
	}
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return bytes.HasPrefix(bytes.TrimSpace(after), []byte("Z"))
}

// lockedBuffer is a buffer that a process writes and a test reads.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
