package proxy

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// newDoor returns a box with one replica that has room for one conversation of
// largeChat, and admission by working set.
func newDoor(t *testing.T, change ...func(*route.Settings)) *box {
	t.Helper()
	return newBox(t, 1, tokensUntilGone(time.Second), func(_ *Options, s *Snapshot) {
		set := &s.Models[0].Routing
		set.Admission = route.AdmissionWorkingSet
		set.MaxHold = 2 * time.Minute
		for _, f := range change {
			f(set)
		}
		s.Models[0].Replicas[0].Route.Capacity = 12_000
	})
}

// largeChat is a request that fills most of the replica of newDoor.
func largeChat(stream bool, text string) string {
	return fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":"%s %s"}]}`, stream, text, strings.Repeat("word ", 8000))
}

// occupy fills the replica with a stream of a first conversation. Call the function
// that it returns to end it.
func (b *box) occupy() (leave func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(cancel)
	resp, err := b.client.Do(b.request(ctx, "/v1/chat/completions", largeChat(true, "first"), session("the-first-conversation")...))
	if err != nil {
		b.t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, resp.Body) }()
	synctest.Wait()
	return cancel
}

// held returns how many wait, by the router and by the metric, which must agree.
func (b *box) held() int {
	b.t.Helper()
	synctest.Wait()
	v, _ := b.proxy.View("m")
	if n := metric(b.t, b.registry, "lmwarden_held", nil); int(n) != v.Held {
		b.t.Errorf("the metric says %v held, the router %d", n, v.Held)
	}
	return v.Held
}

// wait sends a request of another conversation that has to wait, and returns where its
// answer will be.
func (b *box) wait(ctx context.Context, stream bool, id string) <-chan gotReply {
	b.t.Helper()
	done := make(chan gotReply, 1)
	r := b.request(ctx, "/v1/messages", largeChat(stream, id), session(id)...)
	go func() { done <- b.do(r) }()
	return done
}

// A stream that is held gets its headers and signs of life; it goes when there is room.
func TestHeldStreamLivesAndGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoor(t)
		leave := b.occupy()
		b.engines[0].does(answers(1))
		done := b.wait(context.Background(), true, "the-second-conversation")
		if n := b.held(); n != 1 {
			t.Fatalf("%d held, want 1", n)
		}
		<-time.After(25 * time.Second)
		if n := b.held(); n != 1 {
			t.Fatalf("%d held after 25 s, want 1", n)
		}
		leave()
		got := <-done
		ping := "event: ping\ndata: {\"type\":\"ping\"}\n\n"
		if got.status != 200 || got.err != nil || !strings.HasPrefix(got.body, ping+ping) || !strings.HasSuffix(got.body, doneFrame) {
			t.Errorf("got %d %v %q", got.status, got.err, got.body)
		}
		if r, d := got.trail.Get(headerReplica), got.trail.Get(headerDecision); r != "m/0" || d != "placed" || got.trail.Get(headerKeySource) == "none" || len(got.trail) != 4 || got.header.Get(headerReplica) != "" {
			t.Errorf("behind the body: %v", got.trail)
		}
		b.wantIdle()
		for _, r := range b.records.all() {
			if r.Status == 200 && (r.Decision.Wait < 25*time.Second || r.FirstToken < r.Decision.Wait) {
				t.Errorf("waited %v, first token after %v", r.Decision.Wait, r.FirstToken)
			}
		}
	})
}

// A held request that is not a stream is simply held.
func TestHeldWholeAnswerWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoor(t)
		leave := b.occupy()
		b.engines[0].does(answers(1))
		done := b.wait(context.Background(), false, "the-second-conversation")
		<-time.After(15 * time.Second)
		leave()
		if got := <-done; got.status != 200 || got.body != chatWhole {
			t.Errorf("got %d %v %q", got.status, got.err, got.body)
		}
		b.wantIdle()
	})
}

// Nobody is held for longer than the setting says.
func TestHoldHasAnEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoor(t)
		leave := b.occupy()
		defer leave()
		b.engines[0].does(answers(1))
		start := time.Now()
		done := b.wait(context.Background(), false, "the-second-conversation")
		if got := <-done; got.status != 200 || time.Since(start) > 2*time.Minute+holdGrace {
			t.Errorf("after %v: got %d %q", time.Since(start), got.status, got.body)
		}
	})
}

// Clients that leave the door have cost nothing.
func TestLeavingTheDoor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoor(t)
		leave := b.occupy()
		seen := len(b.engines[0].requests())
		ctx, cancel := context.WithCancel(context.Background())
		var waiting []<-chan gotReply
		for i := range 20 {
			waiting = append(waiting, b.wait(ctx, i%2 == 0, fmt.Sprintf("waiting-conversation-%d", i)))
		}
		if n := b.held(); n != 20 {
			t.Fatalf("%d held, want 20", n)
		}
		<-time.After(15 * time.Second)
		cancel()
		for _, w := range waiting {
			<-w
		}
		if n := b.held(); n != 0 {
			t.Errorf("%d held, want none", n)
		}
		if n := len(b.engines[0].requests()); n != seen {
			t.Errorf("the engine got %d requests of clients that were gone", n-seen)
		}
		leave()
		b.wantIdle()
	})
}

// Clients that leave at the very moment they are let in take no place with them.
func TestLeavingAsTheDoorOpens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoor(t)
		for i := range 50 {
			leave := b.occupy()
			ctx, cancel := context.WithCancel(context.Background())
			done := b.wait(ctx, i%2 == 0, fmt.Sprintf("waiting-conversation-%d", i))
			synctest.Wait()
			var both sync.WaitGroup
			both.Go(leave)
			both.Go(cancel)
			both.Wait()
			<-done
			b.wantIdle()
		}
	})
}

// The queue is bounded; who finds it full is told when to come back.
func TestFullQueueRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoor(t, func(s *route.Settings) { s.MaxQueue = 3 })
		b.occupy()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for i := range 3 {
			b.wait(ctx, true, fmt.Sprintf("waiting-conversation-%d", i))
			synctest.Wait()
		}
		got := <-b.wait(ctx, true, "one-too-many-at-the-door")
		want := "The queue of model `m` holds 3 requests, as many as its setting max_queue allows. Try again in 30 s."
		if got.status != 503 || got.header.Get("Retry-After") != "30" || !strings.Contains(got.body, "overloaded_error") || !strings.Contains(got.body, want) {
			t.Errorf("got %d %v %s", got.status, got.header, got.body)
		}
	})
}

// Who waits is told when the model is removed, in the shape that its headers allow.
func TestRemovedModelDismissesThoseWhoWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoor(t)
		b.occupy()
		early := b.wait(context.Background(), true, "an-early-conversation")
		<-time.After(12 * time.Second)
		late := b.wait(context.Background(), true, "a-late-conversation")
		synctest.Wait()
		b.proxy.Apply(&Snapshot{})
		if got := <-early; got.err == nil || !strings.Contains(got.body, "event: error") {
			t.Errorf("headers were out: got %v %q", got.err, got.body)
		}
		if got := <-late; got.status != 404 || !strings.Contains(got.body, "was removed") {
			t.Errorf("got %d %s", got.status, got.body)
		}
	})
}

// A drained replica lets go of nobody who waits, and takes nobody in.
func TestNoReplicaLeftWhileHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoor(t)
		leave := b.occupy()
		done := b.wait(context.Background(), false, "the-second-conversation")
		synctest.Wait()
		b.change(func(m *Model) { m.Replicas[0].Route.Ready = false })
		leave()
		start := time.Now()
		if got := <-done; got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("after %v: got %d %q", time.Since(start), got.status, got.body)
		}
		b.wantIdle()
	})
}

// One snapshot takes a replica away and ends admission: who waits goes to what is left.
func TestShrinkWithSettingsLetsTheHeldGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoors(t)
		for i := range 2 {
			_, leave := b.occupied(fmt.Sprintf("conversation-number-%d", i))
			defer leave()
		}
		for _, e := range b.engines {
			e.does(answers(1))
		}
		var held []<-chan gotReply
		for i := range 4 {
			held = append(held, b.wait(context.Background(), false, fmt.Sprintf("another-conversation-%d", i)))
			synctest.Wait()
		}
		if n := b.held(); n != 4 {
			t.Fatalf("%d held, want 4", n)
		}
		b.change(func(m *Model) {
			m.Replicas = m.Replicas[:1]
			m.Routing.Admission = route.AdmissionNone
		})
		for i, done := range held {
			if got := <-done; got.status != 200 || got.header.Get(headerReplica) != "m/0" {
				t.Errorf("%d: got %d from %q: %s", i, got.status, got.header.Get(headerReplica), got.body)
			}
		}
	})
}

// A longer hold holds at once, also for those that wait: here until a replica is back.
func TestLongerHoldIsLive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoor(t)
		leave := b.occupy()
		defer leave()
		b.engines[0].does(answers(1))
		done := b.wait(context.Background(), false, "the-second-conversation")
		if n := b.held(); n != 1 {
			t.Fatalf("%d held, want 1", n)
		}
		b.change(func(m *Model) { m.Replicas[0].Route.Ready = false })
		b.change(func(m *Model) { m.Routing.MaxHold = 10 * time.Minute })
		<-time.After(5 * time.Minute)
		if n := b.held(); n != 1 {
			t.Fatalf("%d held after 5 minutes, want 1", n)
		}
		leave()
		b.change(func(m *Model) { m.Replicas[0].Route.Ready = true })
		if got := <-done; got.status != 200 {
			t.Errorf("got %d %s, want 200", got.status, got.body)
		}
	})
}

// A replica is taken away for good while admission stays: who was let in there or waits
// for it is served by what is left, in turn.
func TestScaleDownUnderAdmission(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoors(t)
		var leaves []func()
		for i := range 2 {
			_, leave := b.occupied(fmt.Sprintf("conversation-number-%d", i))
			leaves = append(leaves, leave)
		}
		for _, e := range b.engines {
			e.does(answers(1))
		}
		var held []<-chan gotReply
		for i := range 3 {
			held = append(held, b.wait(context.Background(), true, fmt.Sprintf("another-conversation-%d", i)))
			synctest.Wait()
		}
		drained := b.drain("m/1", 5*time.Second)
		b.change(func(m *Model) { m.Replicas[1].Route.Draining = true })
		if n := <-drained; n != 1 {
			t.Errorf("%d streams were cut, want the one that did not end", n)
		}
		b.change(func(m *Model) { m.Replicas = m.Replicas[:1] })
		if n := b.held(); n != 3 {
			t.Errorf("%d held, want 3: the replica that is left is full", n)
		}
		for _, leave := range leaves {
			leave()
		}
		for i, done := range held {
			if got := <-done; got.status != 200 || got.err != nil || !strings.HasSuffix(got.body, doneFrame) {
				t.Errorf("%d: got %d %v %q", i, got.status, got.err, got.body)
			}
		}
		b.wantIdle()
		if n := b.proxy.InFlight("m/1"); n != 0 {
			t.Errorf("%d in flight on the replica that is gone", n)
		}
	})
}

// The proxy ends while requests wait: each is told, in its own API's shape.
func TestCloseWhileHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoor(t)
		defer b.occupy()()
		var held []<-chan gotReply
		for i, stream := range []bool{false, true} {
			held = append(held, b.wait(context.Background(), stream, fmt.Sprintf("another-conversation-%d", i)))
		}
		<-time.After(15 * time.Second) // the stream has had a sign of life
		if n := b.held(); n != 2 {
			t.Fatalf("%d held, want 2", n)
		}
		b.proxy.Close()
		if got := <-held[0]; got.status != 503 || !strings.Contains(got.body, `"overloaded_error"`) || !strings.Contains(got.body, "shutting down") {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if got := <-held[1]; got.err == nil || !strings.Contains(got.body, "event: error") || !strings.Contains(got.body, "shutting down") {
			t.Errorf("the stream got %v %q", got.err, got.body)
		}
		synctest.Wait()
		for _, r := range b.records.all() {
			if r.Status != 503 {
				t.Errorf("recorded as %d %q, want 503", r.Status, r.Error)
			}
		}
	})
}
