package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/supervisor"
)

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

func TestMissingMetricsChangeNothing(t *testing.T) {
	b := newBox(t)
	b.Apply([]supervisor.Spec{b.spec(first, "-blind", "-say", "GPU KV cache size: 36,864 tokens")})
	for range 10 {
		got := b.untilState(first, supervisor.Ready)
		if e := got.Engine; !e.At.IsZero() || e.Running != nil || e.Version != "0.32.0" || *e.CapacityTokens != 36864 {
			t.Fatalf("figures: %+v", e)
		}
	}
	if got, want := b.happened(), "starting ready"; got != want {
		t.Errorf("happened: %s; want %s", got, want)
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
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() { b.Apply(specs) })
	}
	callers.Wait()
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
	b.Apply(nil)
	if last := b.untilState(c.ID, supervisor.Stopped); last.GPUs != nil {
		t.Errorf("a stopped replica holds %v", last.GPUs)
	}
}

func TestRemoteEngineIsOnlyWatched(t *testing.T) {
	host := newBox(t)
	open := host.spec(first)
	open.Args = append(open.Args, "-open")
	host.Apply([]supervisor.Spec{open})
	url := host.untilState(first, supervisor.Ready).URL
	b := newBox(t)
	b.Apply([]supervisor.Spec{{ID: first, Remote: url}})
	got := b.until("figures", func(s supervisor.Status) bool { return s.State == supervisor.Ready && s.Engine.Running != nil })
	if got.PID != 0 || got.URL != url || got.APIKey != "" {
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

// An engine asks for a key of its own, another one in each life, that stands neither on
// its command line nor in its log.
func TestEveryLifeHasAKeyOfItsOwn(t *testing.T) {
	b := newBox(t)
	file := filepath.Join(t.TempDir(), "env")
	seen := map[string]bool{}
	for life := range 2 {
		if life == 0 {
			b.Apply([]supervisor.Spec{b.spec(first, "-env-file", file, "-say-key")})
		} else if err := b.Restart(first); err != nil {
			t.Fatal(err)
		}
		got := b.until("ready", func(s supervisor.Status) bool {
			return s.State == supervisor.Ready && s.Incarnation == uint64(life+1)
		})
		if len(got.APIKey) < 20 || seen[got.APIKey] {
			t.Errorf("life %d: a key of %d letters, the same as before: %v", life, len(got.APIKey), seen[got.APIKey])
		}
		seen[got.APIKey] = true
		env, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(env), "VLLM_API_KEY="+got.APIKey) {
			t.Errorf("the engine was not told its key: %v", err)
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", got.PID))
		if err != nil || strings.Contains(string(line)+strings.Join(got.Command, " "), got.APIKey) {
			t.Errorf("the key stands on the command line (%v)", err)
		}
		if key, err := said(b.Supervisor, first, "my key is "); err != nil || key != "[secret]" {
			t.Errorf("the engine says that its key is %q, %v", key, err)
		}
		err = b.Logs(t.Context(), first, supervisor.LogQuery{Tail: 100}, func(lines []supervisor.LogLine) error {
			for _, l := range lines {
				if strings.Contains(l.Text, got.APIKey) {
					t.Error("the key stands in the log")
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	b.Apply(nil)
	if got := b.untilState(first, supervisor.Stopped); got.APIKey != "" {
		t.Error("a stopped replica keeps its key")
	}
}

// A replica on its way out does not start again, and does not say that it will.
func TestRestartOfALeavingReplicaIsRefused(t *testing.T) {
	drains, goOn := make(chan struct{}), make(chan struct{})
	b := newBox(t, func(o *supervisor.Options) {
		o.Hooks.BeforeStop = func(context.Context, supervisor.ReplicaID) {
			close(drains)
			<-goOn
		}
	})
	b.Apply([]supervisor.Spec{b.spec(first)})
	b.untilState(first, supervisor.Ready)
	b.Apply(nil)
	<-drains
	err := b.Restart(first)
	close(goOn)
	if err == nil || !strings.Contains(err.Error(), "start the model first") {
		t.Errorf("error: %v", err)
	}
	b.untilState(first, supervisor.Stopped)
}
