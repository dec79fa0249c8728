package supervisor_test

import (
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
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/lmwarden/lmwarden/supervisor"
)

func TestKilledRootTakesItsChildrenAlong(t *testing.T) {
	for _, kind := range []string{"session", "wipe"} {
		t.Run(kind, func(t *testing.T) {
			// Refused probes must not be what ends it: that its root is gone must be seen.
			b := newBox(t, func(o *supervisor.Options) { o.Timing.DeadAfter = time.Minute })
			b.Apply([]supervisor.Spec{b.spec(first, "-children", kind)})
			root := b.untilState(first, supervisor.Ready)
			child := b.childOf(first)
			if !alive(child) {
				t.Fatal("the child does not run")
			}
			// The census has seen the tree by the time the engine has been ready a while.
			for range 30 {
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
			if again.Port != root.Port && free(root.Port) {
				t.Errorf("port %d, want %d again", again.Port, root.Port)
			}
			// A probe may have failed before the exit was seen.
			got := strings.Replace(b.happened(), "suspect ", "", 1)
			if !strings.HasPrefix(got, "starting ready stopping drain stopping backoff starting") {
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
	reg := prometheus.NewRegistry()
	b := newBox(t, func(o *supervisor.Options) { o.Registerer = reg })
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
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, f := range families {
		counted[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
	}
	if counted["lmwarden_engine_starts_total"] != 3 || counted["lmwarden_engine_failures_total"] != 3 {
		t.Errorf("counted %v", counted)
	}
	if err := b.Restart(first); err != nil {
		t.Fatal(err)
	}
	again := b.until("the end of the next budget", func(s supervisor.Status) bool { return s.State == supervisor.Failed && s.Incarnation > 3 })
	if again.Incarnation != 6 || again.Restarts != 3 {
		t.Errorf("after a restart by hand: %+v", again)
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
		if err == nil { // else somebody else holds it, which is as good
			defer l.Close()
		}
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
	t.Run("another address", func(t *testing.T) {
		b := newBox(t)
		b.Apply([]supervisor.Spec{b.spec(first, "-addr-in-use", filepath.Join(t.TempDir(), "no such folder", "port"))})
		got := b.untilState(first, supervisor.Failed)
		if got.Restarts != 3 || !strings.Contains(got.Message, "it is not its port") || !strings.Contains(got.Message, "3 starts in a row failed") {
			t.Errorf("status %+v", got)
		}
	})
}

// A port that was free when an engine began may be answered by somebody else's before the
// engine listens. Its own would never be heard of, so another port is tried.
func TestPortThatAnotherEngineAnswers(t *testing.T) {
	b := newBox(t)
	answered := filepath.Join(t.TempDir(), "port")
	b.Apply([]supervisor.Spec{b.spec(first, "-stranger", answered)})
	failed := b.until("an end", func(s supervisor.Status) bool { return strings.Contains(s.Message, "belongs to somebody else") })
	got := b.untilState(first, supervisor.Ready)
	text, err := os.ReadFile(answered)
	if err != nil || string(text) == strconv.Itoa(got.Port) || got.Incarnation != 2 {
		t.Errorf("the port %s was another's (%v); status %+v after %+v", text, err, got, failed)
	}
}

func TestStalledStartIsReported(t *testing.T) {
	b := newBox(t, func(o *supervisor.Options) { o.StallTimeout = 5 * fast.probe })
	b.Apply([]supervisor.Spec{b.spec(first, "-hang", "-say", "Starting to load model X...|waiting for a friend")})
	// It may stand still between its lines as well, on a busy machine.
	got := b.until("a stall", func(s supervisor.Status) bool {
		return strings.Contains(s.Message, "stands still") && s.LastLine == "waiting for a friend"
	})
	if got.State != supervisor.Starting || got.Phase != "loading weights" || !alive(got.PID) {
		t.Errorf("status: %+v", got)
	}
}

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
	if got := b.untilState(first, supervisor.Ready); got.Incarnation != 2 || got.Port != base && free(base) {
		t.Errorf("status: %+v", got)
	}
}

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
	child, err := said(s, first, "child ")
	if err == nil {
		// Its last line: one that it writes when nobody reads any more would end it.
		_, err = said(s, first, "INFO:     Application startup complete.")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(root, child)
	select {}
}

// Who drains an engine is told whether somebody stopped it or it ended by itself.
func TestDrainKnowsWhoEndedTheEngine(t *testing.T) {
	for name, killed := range map[string]bool{"killed": true, "stopped": false} {
		t.Run(name, func(t *testing.T) {
			causes := make(chan error, 1)
			b := newBox(t, func(o *supervisor.Options) {
				o.Hooks.BeforeStop = func(ctx context.Context, _ supervisor.ReplicaID) {
					select {
					case causes <- context.Cause(ctx):
					default: // a later life
					}
				}
			})
			b.Apply([]supervisor.Spec{b.spec(first)})
			ready := b.untilState(first, supervisor.Ready)
			if killed {
				if err := syscall.Kill(ready.PID, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			} else {
				b.Apply(nil)
			}
			if cause := <-causes; errors.Is(cause, supervisor.ErrEngineEnded) != killed {
				t.Errorf("%s: the drain began with the cause %v", name, cause)
			}
		})
	}
}
