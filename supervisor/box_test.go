package supervisor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
	limit := time.After(time.Minute)
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

// freeBase finds a first port that is free at this moment. It is none of those that the
// kernel gives to whoever asks for any: one of them would soon be somebody else's.
func freeBase(t *testing.T) int {
	t.Helper()
	for range 1000 {
		if port := 12000 + rand.IntN(20000); free(port) {
			return port
		}
	}
	t.Fatal("of a thousand ports none is free")
	return 0
}

// free says whether nobody has a port.
func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	return err == nil && l.Close() == nil
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
	number, err := said(b.Supervisor, id, "child ")
	pid, bad := strconv.Atoi(number)
	if err != nil || bad != nil {
		b.t.Fatalf("no child in the log: %q, %v", number, err)
	}
	return pid
}

// said waits for a line of the present life that begins so, and returns the rest of it. A
// line may reach the log after the engine that wrote it has answered a request.
func said(s *supervisor.Supervisor, id supervisor.ReplicaID, begin string) (rest string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	found := errors.New("found")
	err = s.Logs(ctx, id, supervisor.LogQuery{Tail: 100, Follow: true}, func(lines []supervisor.LogLine) error {
		for _, l := range lines {
			if r, ok := strings.CutPrefix(l.Text, begin); ok {
				rest = r
				return found
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, found):
		return rest, nil
	case err == nil:
		err = fmt.Errorf("the engine never said %q", begin)
	}
	return "", err
}
