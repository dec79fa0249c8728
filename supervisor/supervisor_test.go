package supervisor_test

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lmwarden/lmwarden/supervisor"
)

// box is a supervisor under test that remembers every change and leaves no process.
type box struct {
	*supervisor.Supervisor
	t       *testing.T
	opts    supervisor.Options
	changes chan supervisor.Status

	mu    sync.Mutex
	order []string // what happened, for the order of things
}

func newBox(t *testing.T, change ...func(*supervisor.Options)) *box {
	t.Helper()
	b := &box{t: t, changes: make(chan supervisor.Status, 4096)}
	b.opts = supervisor.Options{
		Command:      []string{os.Args[0]},
		DataDir:      t.TempDir(),
		PortBase:     freeBase(t),
		DrainTimeout: fast.grace,
		Logger:       zerolog.Nop(),
		Timing: supervisor.Timing{
			StartProbe: fast.probe, Probe: fast.probe, DeadAfter: 5 * fast.probe,
			TermGrace: fast.grace, BackoffMin: time.Millisecond, BackoffMax: 4 * time.Millisecond,
		},
		Hooks: supervisor.Hooks{
			BeforeStop: func(_ context.Context, id supervisor.ReplicaID) { b.note("drain") },
			Changed: func(s supervisor.Status) {
				b.note(string(s.State))
				b.changes <- s
			},
		},
	}
	for _, c := range change {
		c(&b.opts)
	}
	b.open()
	return b
}

func (b *box) open() {
	b.t.Helper()
	s, err := supervisor.New(b.opts)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Supervisor = s
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			b.t.Error(err)
		}
		if left := processesWith(b.opts.DataDir); len(left) > 0 {
			b.t.Errorf("processes %v are left", left)
		}
	})
}

func (b *box) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.order) == 0 || b.order[len(b.order)-1] != what {
		b.order = append(b.order, what)
	}
}

func (b *box) happened() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.order, " ")
}

// until waits for a change that fits.
func (b *box) until(what string, fits func(supervisor.Status) bool) supervisor.Status {
	b.t.Helper()
	limit := time.After(20 * time.Second)
	var last supervisor.Status
	for {
		select {
		case last = <-b.changes:
			if fits(last) {
				return last
			}
		case <-limit:
			b.t.Fatalf("no change to %s; the last was %+v", what, last)
		}
	}
}

func (b *box) untilState(id supervisor.ReplicaID, state supervisor.State) supervisor.Status {
	b.t.Helper()
	return b.until(string(state), func(s supervisor.Status) bool { return s.ID == id && s.State == state })
}

var first = supervisor.ReplicaID{Model: "m", Index: 0}

// spec is an engine that does what args say. Its environment names the data directory,
// so that processes which stay behind are found.
func (b *box) spec(id supervisor.ReplicaID, args ...string) supervisor.Spec {
	return supervisor.Spec{
		ID: id, ServedModel: "m",
		Args: append([]string{"serve"}, args...),
		Env:  map[string]string{"BOX": b.opts.DataDir},
	}
}

// freeBase finds a first port that is free at this moment.
func freeBase(t *testing.T) int {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if port := l.Addr().(*net.TCPAddr).Port; port < 40000 {
			return port
		}
	}
}

// processesWith lists the processes whose environment has BOX=dir.
func processesWith(dir string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var pids []int
	for _, f := range files {
		env, err := os.ReadFile(f)
		if err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == "BOX="+dir }) {
			pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

// childOf reads the number of the child that an engine says it has started.
func (b *box) childOf(id supervisor.ReplicaID) int {
	b.t.Helper()
	pid := 0
	err := b.Logs(context.Background(), id, supervisor.LogQuery{Tail: 100}, func(lines []supervisor.LogLine) error {
		for _, l := range lines {
			if n, ok := strings.CutPrefix(l.Text, "child "); ok {
				pid, _ = strconv.Atoi(n)
			}
		}
		return nil
	})
	if err != nil || pid == 0 {
		b.t.Fatalf("no child in the log: %v", err)
	}
	return pid
}

func TestReadyMeansATokenWasAnswered(t *testing.T) {
	b := newBox(t)
	b.Apply([]supervisor.Spec{b.spec(first, "-say", "CPU KV cache size: 6,400 tokens|'max_num_seqs': 8")})
	got := b.until("figures", func(s supervisor.Status) bool {
		return s.State == supervisor.Ready && s.Engine.MaxNumSeqs != nil
	})
	if got.Port < b.opts.PortBase || got.PID == 0 || got.Incarnation != 1 || got.URL != fmt.Sprintf("http://127.0.0.1:%d", got.Port) {
		t.Errorf("status: %+v", got)
	}
	e := got.Engine
	if e.Version != "0.32.0" || *e.MaxModelLen != 4096 || *e.CapacityTokens != 1600 || *e.Running != 2 || *e.MaxNumSeqs != 8 || e.Waiting != nil || e.At.IsZero() {
		t.Errorf("figures: %+v", e)
	}
	want := []string{os.Args[0], "serve", "-say", "CPU KV cache size: 6,400 tokens|'max_num_seqs': 8", "--host", "127.0.0.1", "--port", strconv.Itoa(got.Port)}
	if !slices.Equal(got.Command, want) {
		t.Errorf("command %q, want %q", got.Command, want)
	}
}

func TestHealthWithoutATokenIsNotReady(t *testing.T) {
	b := newBox(t)
	b.Apply([]supervisor.Spec{b.spec(first, "-mute")})
	got := b.until("a refusal", func(s supervisor.Status) bool { return strings.Contains(s.Message, "one token") })
	if got.State != supervisor.Starting {
		t.Errorf("state %s, want starting", got.State)
	}
}

func TestApplyIsDeclarative(t *testing.T) {
	b := newBox(t)
	second := supervisor.ReplicaID{Model: "m", Index: 1}
	specs := []supervisor.Spec{b.spec(first), b.spec(second)}
	b.Apply(specs)
	one := b.untilState(first, supervisor.Ready)
	two, _ := b.StatusOf(second)
	if two.State != supervisor.Ready {
		two = b.untilState(second, supervisor.Ready)
	}
	for range 50 {
		b.Apply(specs)
	}
	if now, _ := b.StatusOf(first); now.PID != one.PID || one.Port == two.Port {
		t.Errorf("the same specs changed pid %d to %d; ports %d and %d", one.PID, now.PID, one.Port, two.Port)
	}
	b.Apply(specs[1:])
	b.untilState(first, supervisor.Stopped)
	if alive(one.PID) || !alive(two.PID) {
		t.Error("the wrong engine was ended")
	}
	b.Apply(nil)
	if err := b.WaitStopped(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	if all := b.Status(); len(all) != 0 {
		t.Errorf("left: %+v", all)
	}
	b.Apply(specs[:1])
	if again := b.untilState(first, supervisor.Ready); again.Incarnation != 2 {
		t.Errorf("incarnation %d, want 2", again.Incarnation)
	}
}

func TestChangedSpecReplacesTheEngine(t *testing.T) {
	b := newBox(t)
	b.Apply([]supervisor.Spec{b.spec(first)})
	old := b.untilState(first, supervisor.Ready)
	b.Apply([]supervisor.Spec{b.spec(first, "-say", "new")})
	now := b.until("its successor", func(s supervisor.Status) bool { return s.State == supervisor.Ready && s.Incarnation == 2 })
	if alive(old.PID) || now.PID == old.PID || now.Restarts != 0 {
		t.Errorf("old %+v, now %+v", old, now)
	}
}

func TestStopDrainsBeforeTheSignal(t *testing.T) {
	b := newBox(t)
	b.Apply([]supervisor.Spec{b.spec(first)})
	pid := b.untilState(first, supervisor.Ready).PID
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := b.happened(), "starting ready stopping drain stopping stopped"; got != want {
		t.Errorf("happened: %s; want %s", got, want)
	}
	if alive(pid) {
		t.Error("the engine is still there")
	}
}

func TestStopEndsAnEngineThatIgnoresIt(t *testing.T) {
	for _, args := range [][]string{{"-deaf", "-children", "session"}, {"-hang", "-deaf", "-say", "stuck"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			b := newBox(t, func(o *supervisor.Options) { o.Timing.TermGrace = 50 * time.Millisecond })
			b.Apply([]supervisor.Spec{b.spec(first, args...)})
			pid := b.until("a process", func(s supervisor.Status) bool { return s.PID != 0 && s.LastLine != "" || s.State == supervisor.Ready }).PID
			if err := b.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if alive(pid) {
				t.Error("the engine is still there")
			}
		})
	}
}

func TestStopThatRunsOutOfTimeKills(t *testing.T) {
	b := newBox(t, func(o *supervisor.Options) {
		o.Timing.TermGrace, o.DrainTimeout = time.Hour, time.Hour
		o.Hooks.BeforeStop = func(ctx context.Context, _ supervisor.ReplicaID) { <-ctx.Done() }
	})
	b.Apply([]supervisor.Spec{b.spec(first, "-deaf")})
	pid := b.untilState(first, supervisor.Ready).PID
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.Stop(ctx); err != nil || alive(pid) {
		t.Errorf("stop: %v; alive: %v", err, alive(pid))
	}
}

// An API server that is killed with -9 leaves its children with the card's memory and
// frees its port, so that a naive supervisor starts beside them. See also the child
// that has wiped its environment and made a session of its own: nothing tells it but
// that it was seen as a child before.
func TestKilledRootTakesItsChildrenAlong(t *testing.T) {
	for _, kind := range []string{"session", "wipe"} {
		t.Run(kind, func(t *testing.T) {
			b := newBox(t)
			b.Apply([]supervisor.Spec{b.spec(first, "-children", kind)})
			root := b.untilState(first, supervisor.Ready)
			child := b.childOf(first)
			if !alive(child) {
				t.Fatal("the child does not run")
			}
			// The census has seen the tree by the time the engine has been ready a while.
			for range 12 {
				b.untilState(first, supervisor.Ready)
			}
			if err := syscall.Kill(root.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			next := b.until("its successor", func(s supervisor.Status) bool { return s.Incarnation == 2 && s.PID != 0 })
			if alive(child) {
				t.Error("the successor was started while a child still ran")
			}
			if next.LastExit != 128+9 {
				t.Errorf("last exit %d, want 137", next.LastExit)
			}
			again := b.untilState(first, supervisor.Ready)
			if again.Port != root.Port {
				t.Errorf("port %d, want %d again", again.Port, root.Port)
			}
			if got := b.happened(); !strings.HasPrefix(got, "starting ready stopping drain stopping backoff starting") {
				t.Errorf("happened: %s", got)
			}
		})
	}
}

func TestDeadEngineIsReplaced(t *testing.T) {
	b := newBox(t)
	b.Apply([]supervisor.Spec{b.spec(first)})
	got := b.untilState(first, supervisor.Ready)
	resp, err := http.Post(got.URL+"/sick", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	suspect := b.untilState(first, supervisor.Suspect)
	if !strings.Contains(suspect.Message, "503") || suspect.PID != got.PID {
		t.Errorf("suspect: %+v", suspect)
	}
	failed := b.untilState(first, supervisor.Backoff)
	if !strings.Contains(failed.Message, "refused every health probe") || failed.NextStart.IsZero() {
		t.Errorf("backoff: %+v", failed)
	}
	b.untilState(first, supervisor.Ready)
}

func TestFailedStartsEndAtTheBudget(t *testing.T) {
	b := newBox(t)
	b.Apply([]supervisor.Spec{b.spec(first, "-say", "Traceback|ValueError: the first thing|EngineCore failed to start.", "-exit", "3")})
	got := b.untilState(first, supervisor.Failed)
	for _, part := range []string{"code 3", "ValueError: the first thing", "3 starts in a row", "“EngineCore failed to start.”"} {
		if !strings.Contains(got.Message, part) {
			t.Errorf("message %q lacks %q", got.Message, part)
		}
	}
	if got.Incarnation != 3 || got.LastExit != 3 || got.Restarts != 3 {
		t.Errorf("status: %+v", got)
	}
	if err := b.Restart(first); err != nil {
		t.Fatal(err)
	}
	if got = b.untilState(first, supervisor.Failed); got.Incarnation != 6 {
		t.Errorf("after a restart by hand, incarnation %d, want 6", got.Incarnation)
	}
}

func TestWrongSettingsAreNotTriedAgain(t *testing.T) {
	b := newBox(t)
	b.Apply([]supervisor.Spec{b.spec(first, "-say", "vllm: error: unrecognized arguments: --nonsense", "-exit", "2")})
	got := b.untilState(first, supervisor.Failed)
	if got.Incarnation != 1 || !strings.Contains(got.Message, "--nonsense") || !strings.Contains(got.Message, "needs a person") {
		t.Errorf("status: %+v", got)
	}
}

func TestMissingCommand(t *testing.T) {
	b := newBox(t, func(o *supervisor.Options) { o.Command = []string{"/nowhere/vllm"} })
	b.Apply([]supervisor.Spec{b.spec(first)})
	got := b.untilState(first, supervisor.Failed)
	if !strings.Contains(got.Message, `"/nowhere/vllm"`) || !strings.Contains(got.Message, "install vLLM") {
		t.Errorf("message: %s", got.Message)
	}
}

func TestTakenPorts(t *testing.T) {
	t.Run("held by a stranger", func(t *testing.T) {
		b := newBox(t)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", b.opts.PortBase))
		if err != nil {
			t.Skip("the port was taken by another test")
		}
		defer l.Close()
		b.Apply([]supervisor.Spec{b.spec(first)})
		if got := b.untilState(first, supervisor.Ready); got.Port == b.opts.PortBase {
			t.Errorf("port %d", got.Port)
		}
	})
	t.Run("lost in a race", func(t *testing.T) {
		b := newBox(t)
		lost := filepath.Join(t.TempDir(), "port")
		b.Apply([]supervisor.Spec{b.spec(first, "-addr-in-use", lost)})
		got := b.untilState(first, supervisor.Ready)
		text, err := os.ReadFile(lost)
		if err != nil || string(text) == strconv.Itoa(got.Port) || got.Incarnation != 2 {
			t.Errorf("the port %s was lost (%v); status %+v", text, err, got)
		}
	})
}

func TestStalledStartIsReported(t *testing.T) {
	b := newBox(t, func(o *supervisor.Options) { o.StallTimeout = 5 * fast.probe })
	b.Apply([]supervisor.Spec{b.spec(first, "-hang", "-say", "Starting to load model X...|waiting for a friend")})
	got := b.until("a stall", func(s supervisor.Status) bool { return strings.Contains(s.Message, "stands still") })
	if got.State != supervisor.Starting || got.LastLine != "waiting for a friend" || got.Phase != "loading weights" || !alive(got.PID) {
		t.Errorf("status: %+v", got)
	}
}

func TestEnvironmentIsBuiltFromNothing(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "7")
	t.Setenv("PYTHONPATH", "/leak")
	t.Setenv("WANTED", "yes")
	b := newBox(t, func(o *supervisor.Options) { o.PassEnv = []string{"WANTED", "ABSENT"} })
	file := filepath.Join(t.TempDir(), "env")
	spec := b.spec(first, "-env-file", file)
	spec.GPUs = []string{"GPU-bb", "GPU-aa"}
	b.Apply([]supervisor.Spec{spec})
	b.untilState(first, supervisor.Ready)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	for name, want := range map[string]string{
		"CUDA_VISIBLE_DEVICES": "GPU-bb,GPU-aa", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
		"WANTED": "yes", "PATH": os.Getenv("PATH"), "BOX": b.opts.DataDir, "PYTHONPATH": "", "ABSENT": "",
		"VLLM_PROCESS_NAME_PREFIX": "m/0",
	} {
		if env[name] != want {
			t.Errorf("%s=%q, want %q", name, env[name], want)
		}
	}
	if !strings.HasPrefix(env["LMWARDEN_REPLICA"], "m/0/1/") || env["VLLM_PORT"] == "" {
		t.Errorf("marks: %q, %q", env["LMWARDEN_REPLICA"], env["VLLM_PORT"])
	}
}

func TestCardsAreNeverShared(t *testing.T) {
	b := newBox(t)
	a, c := b.spec(supervisor.ReplicaID{Model: "a"}), b.spec(supervisor.ReplicaID{Model: "c"})
	a.GPUs, c.GPUs = []string{"GPU-1"}, []string{"GPU-1"}
	b.Apply([]supervisor.Spec{a})
	held := b.untilState(a.ID, supervisor.Ready)
	b.Apply([]supervisor.Spec{a, c})
	waits := b.until("a wait", func(s supervisor.Status) bool { return s.ID == c.ID && s.Phase == "waiting for a card" })
	if !strings.Contains(waits.Message, "GPU-1 is still held by model a replica 0") || waits.PID != 0 {
		t.Errorf("status: %+v", waits)
	}
	b.Apply([]supervisor.Spec{c})
	b.until("the start", func(s supervisor.Status) bool { return s.ID == c.ID && s.PID != 0 })
	if alive(held.PID) {
		t.Error("the card was lent twice")
	}
}

func TestRemoteEngineIsOnlyWatched(t *testing.T) {
	host := newBox(t)
	host.Apply([]supervisor.Spec{host.spec(first)})
	url := host.untilState(first, supervisor.Ready).URL
	b := newBox(t)
	b.Apply([]supervisor.Spec{{ID: first, Remote: url}})
	got := b.until("figures", func(s supervisor.Status) bool { return s.State == supervisor.Ready && s.Engine.Running != nil })
	if got.PID != 0 || got.URL != url {
		t.Errorf("status: %+v", got)
	}
	host.Apply(nil)
	b.untilState(first, supervisor.Suspect)
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRestartOfNothing(t *testing.T) {
	b := newBox(t)
	if err := b.Restart(first); err == nil || !strings.Contains(err.Error(), "start the model first") {
		t.Errorf("error: %v", err)
	}
	err := b.Logs(t.Context(), first, supervisor.LogQuery{}, nil)
	if !errors.Is(err, supervisor.ErrNoLog) {
		t.Errorf("logs: %v", err)
	}
}

// A daemon that is killed with -9 leaves its engines running. The next one over the
// same directory must end them before it starts anything beside them.
func TestEnginesOfAKilledDaemonAreEnded(t *testing.T) {
	dir, base := t.TempDir(), freeBase(t)
	daemon := exec.CommandContext(t.Context(), os.Args[0], "daemon", dir, strconv.Itoa(base))
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	daemon.Stderr = os.Stderr
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	var root, child int
	if _, err := fmt.Fscan(out, &root, &child); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // it was killed
	if !alive(root) || !alive(child) {
		t.Fatal("the engine died with its daemon; the test shows nothing")
	}
	b := newBox(t, func(o *supervisor.Options) { o.DataDir, o.PortBase = dir, base })
	if alive(root) || alive(child) {
		t.Error("an engine of the killed daemon still runs")
	}
	b.Apply([]supervisor.Spec{b.spec(first)})
	if got := b.untilState(first, supervisor.Ready); got.Incarnation != 2 || got.Port != base {
		t.Errorf("status: %+v", got)
	}
}

// daemon is what such a daemon does: it starts one engine and says who it is.
func daemon(dir, base string) int {
	ready := make(chan supervisor.Status, 1)
	port, _ := strconv.Atoi(base)
	s, err := supervisor.New(supervisor.Options{
		Command: []string{os.Args[0]}, DataDir: dir, PortBase: port, Logger: zerolog.Nop(),
		Timing: supervisor.Timing{StartProbe: fast.probe},
		Hooks: supervisor.Hooks{Changed: func(s supervisor.Status) {
			if s.State == supervisor.Ready {
				select {
				case ready <- s:
				default:
				}
			}
		}},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.Apply([]supervisor.Spec{{ID: first, ServedModel: "m", Args: []string{"serve", "-children", "session"}, Env: map[string]string{"BOX": dir}}})
	root := (<-ready).PID
	err = s.Logs(context.Background(), first, supervisor.LogQuery{Tail: 100}, func(lines []supervisor.LogLine) error {
		for _, l := range lines {
			if n, ok := strings.CutPrefix(l.Text, "child "); ok {
				fmt.Println(root, n)
			}
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	select {}
}

func TestLogsFollowFromLifeToLife(t *testing.T) {
	b := newBox(t)
	spec := b.spec(first, "-say", "one|half\r50%\rwhole|token is s3cret-value and hf_abcdefghijklmnopqrst")
	spec.Env["HF_TOKEN"] = "s3cret-value"
	b.Apply([]supervisor.Spec{spec})
	b.untilState(first, supervisor.Ready)
	ctx, cancel := context.WithCancel(t.Context())
	lines := make(chan supervisor.LogLine, 100)
	done := make(chan error, 1)
	go func() {
		done <- b.Logs(ctx, first, supervisor.LogQuery{Tail: 100, Follow: true}, func(batch []supervisor.LogLine) error {
			for _, l := range batch {
				lines <- l
			}
			return nil
		})
	}()
	want := []string{"one", "half", "50%", "whole", "token is [secret] and [secret]", "INFO:     Application startup complete."}
	for life := uint64(1); life <= 2; life++ {
		for _, text := range want {
			if l := <-lines; l.Text != text || l.Incarnation != life || time.Since(l.Time) > time.Minute {
				t.Fatalf("line %+v, want %q of life %d", l, text, life)
			}
		}
		if life == 1 {
			if err := b.Restart(first); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	var old []string
	err := b.Logs(t.Context(), first, supervisor.LogQuery{Tail: 2, Follow: true, Incarnation: 1}, func(batch []supervisor.LogLine) error {
		for _, l := range batch {
			old = append(old, l.Text)
		}
		return nil
	})
	if err != nil || !slices.Equal(old, want[4:]) {
		t.Errorf("the first life's end: %q, %v", old, err)
	}
	if err := b.Logs(t.Context(), first, supervisor.LogQuery{Incarnation: 9}, nil); !errors.Is(err, supervisor.ErrNoLog) {
		t.Errorf("a life that never was: %v", err)
	}
}
