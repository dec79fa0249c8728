package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// drain calls Drain with a budget and returns a channel with what it cut.
func (b *box) drain(id ReplicaID, budget time.Duration) <-chan int {
	done := make(chan int, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), budget)
		defer cancel()
		n, err := b.proxy.Drain(ctx, id)
		if err != nil {
			b.t.Error(err)
		}
		done <- n
	}()
	synctest.Wait()
	return done
}

// What ends within the budget ends well, and Drain returns at that moment.
func TestDrainWaitsForWhatEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, func(w http.ResponseWriter, _ *http.Request) {
			sendFrames(w, append(chatChunks(8), doneFrame), time.Second)
		})
		resp, body := b.openStream(context.Background(), headerRank, "0")
		defer func() { _ = resp.Body.Close() }()
		start := time.Now()
		done := b.drain("m/0", time.Minute)
		for range 4 {
			if got := b.post("/v1/embeddings", `{"model":"m","input":"x"}`); got.header.Get(headerReplica) != "m/1" {
				t.Errorf("a draining replica got a request")
			}
		}
		rest, err := io.ReadAll(body)
		if err != nil || !strings.HasSuffix(string(rest), doneFrame) {
			t.Errorf("the stream was cut: %v %q", err, rest)
		}
		if n := <-done; n != 0 {
			t.Errorf("%d requests were cut, want none", n)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("Drain took %v", took)
		}
	})
}

// What does not end is cut when the budget is over: those that had begun get an error
// event and a broken transfer, those without a byte go to another replica.
func TestDrainCutsWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(1))
		b.engines[0].does(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "chat") {
				tokensUntilGone(time.Second)(w, r)
			} else {
				silentUntilGone(w, r)
			}
		})
		resp, body := b.openStream(context.Background(), session("conversation-number-one")...)
		defer func() { _ = resp.Body.Close() }()
		if resp.Header.Get(headerReplica) != "m/0" {
			t.Fatalf("the stream went to %s", resp.Header.Get(headerReplica))
		}
		waiting := make(chan gotReply, 1)
		go func() {
			waiting <- b.post("/v1/completions", `{"model":"m","prompt":"x"}`, session("conversation-number-one")...)
		}()
		synctest.Wait()
		if n := b.proxy.InFlight("m/0"); n != 2 {
			t.Fatalf("%d in flight, want 2", n)
		}
		start := time.Now()
		done := b.drain("m/0", 20*time.Second)
		rest, err := io.ReadAll(body)
		if err == nil || !strings.Contains(string(rest), `"error"`) || strings.Contains(string(rest), "[DONE]") {
			t.Errorf("the stream ended with %v: %q", err, rest[max(0, len(rest)-300):])
		}
		if got := <-waiting; got.status != 200 || got.header.Get(headerReplica) != "m/1" {
			t.Errorf("the silent request: %d from %s, want 200 from m/1: %s", got.status, got.header.Get(headerReplica), got.body)
		}
		if n := <-done; n != 2 {
			t.Errorf("%d requests were cut, want 2", n)
		}
		if took := time.Since(start); took != 20*time.Second {
			t.Errorf("Drain took %v, want its budget of 20s", took)
		}
		b.wantIdle()
		if n := b.engines[0].aborted(); n != 2 {
			t.Errorf("the engine has %d of 2 connections closed", n)
		}
	})
}

// Nothing in flight is nothing to wait for; resume and a new incarnation bring it back.
func TestDrainResumeAndNewLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		if n := <-b.drain("m/0", time.Hour); n != 0 {
			t.Errorf("%d cut", n)
		}
		b.change(func(*Model) {})
		if got := b.post("/v1/chat/completions", chat("m", false)); got.status != 503 {
			t.Errorf("drained: got %d, want 503 also after a new snapshot", got.status)
		}
		if err := b.proxy.Resume("m/0"); err != nil {
			t.Fatal(err)
		}
		if got := b.post("/v1/chat/completions", chat("m", false)); got.status != 200 {
			t.Errorf("resumed: got %d", got.status)
		}
		<-b.drain("m/0", time.Hour)
		b.change(func(m *Model) { m.Replicas[0].Route.Incarnation = 2 })
		if got := b.post("/v1/chat/completions", chat("m", false)); got.status != 200 {
			t.Errorf("new incarnation: got %d", got.status)
		}
		if _, err := b.proxy.Drain(context.Background(), "m/7"); !errors.Is(err, ErrUnknownReplica) {
			t.Errorf("got %v", err)
		}
		if err := b.proxy.Resume("m/7"); !errors.Is(err, ErrUnknownReplica) {
			t.Errorf("got %v", err)
		}
	})
}

// Somebody who takes a replica back saves what Drain would have cut.
func TestResumeEndsADrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, tokensUntilGone(time.Second))
		ctx, cancel := context.WithCancel(context.Background())
		_, body := b.openStream(ctx)
		done := b.drain("m/0", 10*time.Second)
		if err := b.proxy.Resume("m/0"); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, body) }()
		if n := <-done; n != 0 {
			t.Errorf("%d requests were cut", n)
		}
		if n := b.proxy.InFlight("m/0"); n != 1 {
			t.Errorf("%d in flight, want 1", n)
		}
		cancel()
		b.wantIdle()
	})
}

// A model that leaves the snapshot keeps what is in flight until it has ended.
func TestRemovedModelEndsInPeace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, func(w http.ResponseWriter, _ *http.Request) {
			sendFrames(w, append(chatChunks(3), doneFrame), time.Second)
		})
		resp, body := b.openStream(context.Background())
		defer func() { _ = resp.Body.Close() }()
		b.proxy.Apply(&Snapshot{})
		if got := b.post("/v1/chat/completions", chat("m", false)); got.status != 404 {
			t.Errorf("got %d, want 404", got.status)
		}
		if n := b.proxy.InFlight("m/0"); n != 1 {
			t.Errorf("%d in flight, want 1", n)
		}
		if rest, err := io.ReadAll(body); err != nil || !strings.HasSuffix(string(rest), doneFrame) {
			t.Errorf("the stream was cut: %v", err)
		}
		synctest.Wait()
		b.proxy.Apply(&Snapshot{})
		b.proxy.mu.Lock()
		defer b.proxy.mu.Unlock()
		if n := len(b.proxy.models); n != 0 {
			t.Errorf("%d models are remembered", n)
		}
	})
}

// Close tells those who are still there, and refuses those who come later.
func TestCloseCutsAndRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, tokensUntilGone(time.Second))
		resp, body := b.openStream(context.Background())
		defer func() { _ = resp.Body.Close() }()
		b.proxy.Close()
		rest, err := io.ReadAll(body)
		if err == nil || !strings.Contains(string(rest), "shutting down") {
			t.Errorf("the stream ended with %v: %q", err, rest)
		}
		if got := b.post("/v1/chat/completions", chat("m", false)); got.status != 503 {
			t.Errorf("got %d, want 503", got.status)
		}
		b.wantIdle()
	})
}

// Clients of an engine that has died are not told that somebody stopped it.
func TestDrainOfADeadEngineSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, tokensUntilGone(time.Second))
		resp, body := b.openStream(context.Background())
		defer func() { _ = resp.Body.Close() }()
		ctx, end := context.WithCancelCause(context.Background())
		end(ErrEngineDied)
		if n, err := b.proxy.Drain(ctx, "m/0"); n != 1 || err != nil {
			t.Errorf("cut %d, %v; want 1", n, err)
		}
		rest, _ := io.ReadAll(body)
		if !strings.Contains(string(rest), "has died") || strings.Contains(string(rest), "stopped") {
			t.Errorf("the client was told %q", rest)
		}
		b.wantIdle()
	})
}

// A request without a byte of its answer goes on elsewhere when its engine dies.
func TestDrainOfADeadEngineMovesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(1))
		b.engines[0].does(silentUntilGone)
		got := make(chan gotReply, 1)
		go func() { got <- b.post("/v1/chat/completions", chat("m", false)) }()
		synctest.Wait()
		ctx, end := context.WithCancelCause(context.Background())
		end(ErrEngineDied)
		if n, err := b.proxy.Drain(ctx, "m/0"); n != 1 || err != nil {
			t.Errorf("cut %d, %v; want 1", n, err)
		}
		if r := <-got; r.status != http.StatusOK || r.header.Get(headerReplica) != "m/1" {
			t.Errorf("got %d from %s: %s", r.status, r.header.Get(headerReplica), r.body)
		}
		b.wantIdle()
	})
}
