package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// newDoors is newDoor with two replicas, each with room for one conversation of
// largeChat.
func newDoors(t *testing.T, change ...func(*route.Settings)) *box {
	t.Helper()
	return newBox(t, 2, tokensUntilGone(time.Second), func(_ *Options, s *Snapshot) {
		set := &s.Models[0].Routing
		set.Admission = route.AdmissionWorkingSet
		set.MaxHold = 2 * time.Minute
		for _, f := range change {
			f(set)
		}
		for i := range s.Models[0].Replicas {
			s.Models[0].Replicas[i].Route.Capacity = 12_000
		}
	})
}

// occupied opens a stream of a conversation that fills a replica.
func (b *box) occupied(id string) (replica string, leave func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(cancel)
	resp, err := b.client.Do(b.request(ctx, "/v1/chat/completions", largeChat(true, id), session(id)...))
	if err != nil {
		b.t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, resp.Body) }()
	synctest.Wait()
	return resp.Header.Get(headerReplica), cancel
}

// silentThenBreaks says nothing for a while and cuts the connection before the first
// byte of an answer, as an engine does that dies over a prefill.
func (b *box) silentThenBreaks(e *engine, after time.Duration) {
	e.does(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(after):
			breaks(w, r)
		case <-r.Context().Done():
		}
	})
}

// A request whose replica dies over it before the first byte goes back to the door with
// its time of arrival, waits there like anyone, and is served when there is room.
func TestDeadReplicaSendsBackToTheDoor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoors(t)
		busy, leave := b.occupied("the-first-conversation")
		if busy != "m/0" {
			t.Fatalf("the first conversation is on %s", busy)
		}
		b.engines[0].does(answers(1))
		b.silentThenBreaks(b.engines[1], 20*time.Second)
		start := time.Now()
		done := b.wait(context.Background(), true, "the-second-conversation")
		<-time.After(19 * time.Second)
		if n := b.held(); n != 0 {
			t.Fatalf("%d held, want it on replica 1", n)
		}
		<-time.After(6 * time.Second)
		if n := b.held(); n != 1 {
			t.Fatalf("%d held after its replica died, want 1", n)
		}
		v, _ := b.proxy.View("m")
		if waited := time.Since(v.OldestHeld); waited != 25*time.Second {
			t.Errorf("it counts as waiting for %v, want 25s since its arrival", waited)
		}
		<-time.After(15 * time.Second)
		synctest.Wait() // the fourth sign of life is due at this very moment
		leave()
		got := <-done
		if got.status != 200 || got.err != nil || !strings.HasSuffix(got.body, doneFrame) {
			t.Fatalf("got %d %v %q", got.status, got.err, got.body)
		}
		// The headers went out with the first of the two; the last word is behind the body.
		if was, is := got.header.Get(headerReplica), got.trail.Get(headerReplica); was != "m/1" || is != "m/0" {
			t.Errorf("the headers name %q, and behind the body %q", was, is)
		}
		// Signs of life came every 10 s from the arrival on, not from the second wait.
		if n := strings.Count(got.body, "event: ping"); n != 4 {
			t.Errorf("%d signs of life in %v, want 4", n, time.Since(start))
		}
		b.wantIdle()
		for _, r := range b.records.all() {
			if r.Status == 200 && r.Attempts == 2 && (r.Decision.Wait < 40*time.Second || r.Decision.Replica != 0) {
				t.Errorf("record: waited %v, replica %d", r.Decision.Wait, r.Decision.Replica)
			}
		}
		if n := metric(t, b.registry, "lmwarden_requests_total", nil); n != 2 {
			t.Errorf("%v requests are counted, want 2: one that was tried twice is one", n)
		}
	})
}

// A client that leaves while its request is back at the door costs nothing.
func TestLeavingTheDoorAfterADeadReplica(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoors(t)
		_, leave := b.occupied("the-first-conversation")
		seen := len(b.engines[0].requests())
		b.silentThenBreaks(b.engines[1], time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		done := b.wait(ctx, true, "the-second-conversation")
		<-time.After(12 * time.Second)
		if n := b.held(); n != 1 {
			t.Fatalf("%d held, want 1", n)
		}
		cancel()
		<-done
		if n := b.held(); n != 0 {
			t.Errorf("%d held, want none", n)
		}
		if n := len(b.engines[0].requests()); n != seen {
			t.Errorf("the engine got %d requests of a client that was gone", n-seen)
		}
		leave()
		b.wantIdle()
	})
}

// The longest hold is from the arrival: a replica that dies late does not double it.
func TestSecondWaitIsNoLonger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoors(t)
		_, leave := b.occupied("the-first-conversation")
		b.engines[0].does(answers(1))
		b.silentThenBreaks(b.engines[1], 110*time.Second)
		start := time.Now()
		got := <-b.wait(context.Background(), false, "the-second-conversation")
		if took := time.Since(start); got.status != 200 || took < 2*time.Minute || took > 2*time.Minute+time.Second {
			t.Errorf("got %d %q after %v, want 200 at the limit of 2m0s", got.status, got.body, took)
		}
		leave()
		b.wantIdle()
	})
}

// A replica that is drained sends what has no first byte back to the door, and nobody
// who waits there to it.
func TestDrainSendsBackToTheDoor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newDoors(t)
		_, leave := b.occupied("the-first-conversation")
		b.engines[0].does(answers(1))
		b.engines[1].does(silentUntilGone)
		done := b.wait(context.Background(), false, "the-second-conversation")
		synctest.Wait()
		drained := b.drain("m/1", 5*time.Second)
		<-time.After(10 * time.Second)
		if n := <-drained; n != 1 {
			t.Errorf("%d were cut, want the one without a first byte", n)
		}
		if n := b.held(); n != 1 {
			t.Fatalf("%d held, want 1", n)
		}
		leave()
		if got := <-done; got.status != 200 || got.header.Get(headerReplica) != "m/0" {
			t.Errorf("got %d from %s: %s", got.status, got.header.Get(headerReplica), got.body)
		}
		b.wantIdle()
	})
}
