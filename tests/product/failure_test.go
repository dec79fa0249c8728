package product

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/tests/harness"
)

const endless = `{"model":"` + model + `","stream":true,"max_tokens":8000,"ignore_eos":true,"messages":[{"role":"user","content":"go on"}]}`

// kill -9 of an engine's API server leaves its children alive: they are found and
// ended, the other replicas do not notice, and the replica comes back.
func TestKilledEngine(t *testing.T) {
	d := startBox(t, 2)
	one := longStream(t, d, "/v1/chat/completions", "conversation-one-1", endless)
	two := longStream(t, d, "/v1/chat/completions", "conversation-two-2", endless)
	home := one.Header.Get("X-Lmwarden-Replica")
	if other := two.Header.Get("X-Lmwarden-Replica"); home == "" || other == home {
		t.Fatalf("the conversations went to replicas %q and %q, want two", home, other)
	}
	firstBytes(t, one)
	firstBytes(t, two)

	before := replicasOf(t, d)
	victim := before[0]
	for _, r := range before {
		if fmt.Sprintf("%s/%d", model, r.GetIndex()) == home {
			victim = r
		}
	}
	marked := leftovers(d)
	if err := syscall.Kill(int(victim.GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(one.Body)
	if strings.Contains(string(rest), "[DONE]") || err == nil && !strings.Contains(string(rest), `"error"`) {
		t.Errorf("the cut stream looks whole to its client: err %v, ends with %q", err, last(rest))
	}
	harness.Within(t, 60*time.Second, func() error {
		now := replicasOf(t, d)
		for _, r := range now {
			if r.GetState() != lmwardenv1.ReplicaState_REPLICA_STATE_READY {
				return fmt.Errorf("replica %d is %s", r.GetIndex(), r.GetState())
			}
			if r.GetIndex() == victim.GetIndex() && r.GetIncarnation() <= victim.GetIncarnation() {
				return fmt.Errorf("replica %d has not restarted", r.GetIndex())
			}
		}
		return nil
	})
	d.Routed(t, model)
	if now := leftovers(d); len(now) != len(marked) {
		t.Errorf("%d engine processes after the restart, %d before: %v", len(now), len(marked), now)
	}
	if _, err := firstLine(two); err != nil {
		t.Errorf("the other conversation was disturbed: %v", err)
	}
	again := post(t, d, "/v1/chat/completions", chat("again"), "X-Session-Id", "conversation-one-1")
	if decision := again.header.Get("X-Lmwarden-Decision"); again.status != 200 || decision != "rehomed" && decision != "placed" {
		t.Errorf("the next turn: %d, %q; want 200 and rehomed or placed", again.status, decision)
	}
}

// A vLLM that gets SIGTERM while a stream is open hangs for ever, and its client
// with it. Stopping cuts what is left after the drain time and tells the client.
func TestStopUnderStream(t *testing.T) {
	for _, tc := range []struct{ name, path, body string }{
		{"chat", "/v1/chat/completions", endless},
		{"messages", "/v1/messages", endless},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := startBox(t, 1)
			open := longStream(t, d, tc.path, "conversation-one-1", tc.body)
			firstBytes(t, open)
			begin := time.Now()
			if _, err := d.Models.StopModel(t.Context(), &lmwardenv1.StopModelRequest{Name: model, Wait: true}); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(open.Body)
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("stopping took %s with a drain time of 2 s", took)
			}
			if !strings.Contains(string(rest), `"error"`) || strings.Contains(string(rest), "[DONE]") || strings.Contains(string(rest), "message_stop") {
				t.Errorf("the client was not told that its stream was cut; it ends with %q", last(rest))
			}
			if left := leftovers(d); len(left) > 0 {
				t.Errorf("processes are left over: %v", left)
			}
		})
	}
}

func TestCtrlCLeavesNoProcess(t *testing.T) {
	d := startBox(t, 2)
	firstBytes(t, longStream(t, d, "/v1/chat/completions", "conversation-one-1", endless))
	if code := d.Stop(time.Minute); code != 0 {
		t.Errorf("exit code %d after Ctrl-C, want 0", code)
	}
	if left := leftovers(d); len(left) > 0 {
		t.Errorf("processes are left over: %v", left)
	}
}

// A daemon that was killed leaves its engines behind. The next one ends them before
// it starts its own, so that no card is held twice.
func TestKilledDaemon(t *testing.T) {
	dir := t.TempDir()
	first := harness.Start(t, harness.Options{Config: declared(t, 2), Env: fast, DataDir: dir})
	waitReady(t, first, 2)
	first.Signal(syscall.SIGKILL)
	<-first.Exited()
	if len(leftovers(first)) == 0 {
		t.Fatal("no engine survived the daemon; the test has nothing to show")
	}
	second := harness.Start(t, harness.Options{Config: declared(t, 2), Env: fast, DataDir: dir})
	waitReady(t, second, 2)
	if left := leftovers(first); len(left) > 0 {
		t.Errorf("engines of the dead daemon still run: %v", left)
	}
}

// Requests that are aborted at any moment give their reservations back.
func TestAbortedRequestsLeaveNothing(t *testing.T) {
	d := startBox(t, 4)
	const requests, atOnce = 1000, 32
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range requests {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(120*time.Millisecond))
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.InferenceURL+"/v1/chat/completions", strings.NewReader(endless))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("X-Session-Id", fmt.Sprintf("aborted-conversation-%d", i%50))
			if answer, err := http.DefaultClient.Do(request); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		})
	}
	group.Wait()
	harness.Within(t, time.Minute, func() error {
		c := card(t, d)
		if c.GetInFlight() != 0 {
			return fmt.Errorf("%d requests are in flight with no client left", c.GetInFlight())
		}
		for _, r := range c.GetReplicas() {
			if r.GetRunning() != 0 || r.GetWaiting() != 0 {
				return fmt.Errorf("the engine of replica %d still runs %d and holds %d", r.GetIndex(), r.GetRunning(), r.GetWaiting())
			}
		}
		return nil
	})
	spread := map[string]int{}
	for i := range 8 {
		open := longStream(t, d, "/v1/chat/completions", fmt.Sprintf("conversation-after-%d", i), endless)
		spread[open.Header.Get("X-Lmwarden-Replica")]++
	}
	for replica, n := range spread {
		if n != 2 {
			t.Errorf("replica %s got %d of 8 new conversations, want 2: %v", replica, n, spread)
		}
	}
}

// firstBytes waits for the first event of a stream.
func firstBytes(t testing.TB, r *http.Response) {
	t.Helper()
	if line, err := firstLine(r); err != nil {
		t.Fatalf("the stream ended after %q: %v", line, err)
	}
}

func firstLine(r *http.Response) (string, error) {
	return bufio.NewReaderSize(r.Body, 16).ReadString('\n')
}

func last(text []byte) string { return string(text[max(0, len(text)-300):]) }
