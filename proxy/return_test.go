package proxy

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// away tells the proxy that the first replica is not ready, as after the end of its engine.
func (b *box) away() {
	b.change(func(m *Model) {
		m.Replicas[0].Route.Ready = false
		m.State = "replica 0 starting: loading weights"
	})
}

// reborn tells the proxy of a new life of the first replica.
func (b *box) reborn() {
	b.change(func(m *Model) {
		m.Replicas[0].Route.Ready = true
		m.Replicas[0].Route.Incarnation++
	})
}

// send sends a request and returns where its answer will be.
func (b *box) send(ctx context.Context, path, body string, headers ...string) <-chan gotReply {
	b.t.Helper()
	done := make(chan gotReply, 1)
	r := b.request(ctx, path, body, headers...)
	go func() { done <- b.do(r) }()
	return done
}

// While the only replica restarts requests wait, streams with signs of life, whatever
// admission says and whether they belong to a conversation or not.
func TestRequestsWaitForTheOnlyReplica(t *testing.T) {
	for _, admission := range []route.Admission{route.AdmissionNone, route.AdmissionWorkingSet} {
		bubble(t, func(t *testing.T) {
			b := newBox(t, 1, answers(2), func(_ *Options, s *Snapshot) { s.Models[0].Routing.Admission = admission })
			b.away()
			var waiting []<-chan gotReply
			for _, c := range []struct{ path, body, id string }{
				{"/v1/chat/completions", chat("m", true), "the-first-conversation"},
				{"/v1/chat/completions", chat("alias", false), "the-second-conversation"},
				{"/v1/messages/count_tokens", chat("m", false), "the-first-conversation"},
				{"/v1/embeddings", `{"model":"m","input":"x"}`, ""},
			} {
				waiting = append(waiting, b.send(context.Background(), c.path, c.body, session(c.id)...))
			}
			<-time.After(25 * time.Second)
			if n := b.held(); n != len(waiting) {
				t.Fatalf("%d wait, want %d", n, len(waiting))
			}
			b.reborn()
			for i, done := range waiting {
				got := <-done
				if got.status != 200 || got.err != nil || got.header.Get("X-Lmwarden-Request") == "" {
					t.Errorf("%d: got %d %v %s", i, got.status, got.err, got.body)
				}
				if stream := i == 0; stream && (strings.Count(got.body, ": ping") != 2 || !strings.HasSuffix(got.body, doneFrame)) {
					t.Errorf("the stream got %q", got.body)
				}
			}
			b.wantIdle()
			for _, r := range b.records.all() {
				if r.Decision.Wait != 25*time.Second || r.Attempts != 1 || !r.Decided {
					t.Errorf("%s: waited %v, %d attempts", r.Path, r.Decision.Wait, r.Attempts)
				}
			}
		})
	}
}

// The wait has the bound of every wait at the door. Then the client is told why and when to
// come back, in a stream by an event.
func TestWaitForTheOnlyReplicaHasAnEnd(t *testing.T) {
	for _, stream := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			b := newBox(t, 1, answers(2), func(_ *Options, s *Snapshot) { s.Models[0].Routing.MaxHold = 2 * time.Minute })
			b.away()
			start := time.Now()
			got := b.post("/v1/messages", chat("m", stream))
			if took := time.Since(start); took != 2*time.Minute {
				t.Errorf("it waited for %v", took)
			}
			if !strings.Contains(got.body, "loading weights. Try again in 5 s.") || !strings.Contains(got.body, "overloaded_error") {
				t.Errorf("got %q", got.body)
			}
			if stream && got.err == nil || !stream && (got.status != 503 || got.header.Get("Retry-After") != "5") {
				t.Errorf("got %d %v %v", got.status, got.header, got.err)
			}
			b.wantIdle()
		})
	}
}

// A request that a dead replica had not answered goes back with its time of arrival and is
// served by the next life, once; one whose answer had begun is told.
func TestUnansweredRequestsWaitForTheNextLife(t *testing.T) {
	for name, notice := range map[string]time.Duration{"word comes late": 3 * time.Second, "word came first": 0} {
		bubble(t, func(t *testing.T) {
			b := newBox(t, 1, silentUntilGone)
			b.engines[0].does(tokensUntilGone(time.Second))
			begun := b.send(context.Background(), "/v1/chat/completions", chat("m", true), session("the-first-conversation")...)
			synctest.Wait()
			b.engines[0].does(silentUntilGone)
			silent := b.send(context.Background(), "/v1/messages", chat("m", true), session("the-second-conversation")...)
			<-time.After(12 * time.Second)
			if notice == 0 {
				b.away()
			}
			b.engines[0].kill()
			<-time.After(notice)
			b.away()
			if got := <-begun; got.err == nil || !strings.Contains(got.body, "closed the connection") {
				t.Errorf("%s: the stream that had begun got %v %q", name, got.err, got.body)
			}
			<-time.After(30 * time.Second)
			if n := b.held(); n != 1 {
				t.Fatalf("%s: %d wait, want 1", name, n)
			}
			v, _ := b.proxy.View("m")
			if waited := time.Since(v.OldestHeld); waited != 42*time.Second+notice {
				t.Errorf("%s: it counts as waiting for %v", name, waited)
			}
			b.engines[0].does(answers(2))
			b.engines[0].start()
			b.reborn()
			if got := <-silent; got.status != 200 || got.err != nil || !strings.HasSuffix(got.body, doneFrame) {
				t.Errorf("%s: got %d %v %q", name, got.status, got.err, got.body)
			}
			if r := b.lastRecord(); r.Attempts != 2 || r.Decision.Wait != 42*time.Second+notice {
				t.Errorf("%s: %d attempts, waited %v", name, r.Attempts, r.Decision.Wait)
			}
			b.wantIdle()
		})
	}
}

// A lone replica that is drained for a restart sends back what it had not answered.
func TestDrainOfTheOnlyReplica(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, silentUntilGone)
		done := b.send(context.Background(), "/v1/chat/completions", chat("m", false))
		synctest.Wait()
		if n := <-b.drain("m/0", 10*time.Second); n != 1 {
			t.Errorf("%d were cut, want 1", n)
		}
		late := b.send(context.Background(), "/v1/chat/completions", chat("m", false))
		if n := b.held(); n != 2 {
			t.Fatalf("%d wait, want 2", n)
		}
		b.away()
		b.engines[0].does(answers(1))
		<-time.After(time.Minute)
		b.reborn()
		for _, d := range []<-chan gotReply{done, late} {
			if got := <-d; got.status != 200 || got.body != chatWhole {
				t.Errorf("got %d %v %q", got.status, got.err, got.body)
			}
		}
		b.wantIdle()
	})
}

// When no word comes that the replica has died the failure stands; what was never sent is
// sent once more.
func TestNoWordOfADeath(t *testing.T) {
	for name, c := range map[string]struct {
		fails    func(b *box)
		back     bool // the engine is back when the notice is over
		status   int
		attempts int
	}{
		"cut":                  {func(b *box) { b.engines[0].does(once(breaks, answers(1))) }, true, 502, 1},
		"unreachable":          {func(b *box) { b.engines[0].kill() }, false, 502, 2},
		"unreachable at first": {func(b *box) { b.engines[0].kill() }, true, 200, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, 1, answers(1))
				c.fails(b)
				start := time.Now()
				done := b.send(context.Background(), "/v1/chat/completions", chat("m", false))
				<-time.After(deathNotice / 2)
				if c.back && c.attempts > 1 {
					b.engines[0].start()
				}
				got := <-done
				if got.status != c.status || time.Since(start) != deathNotice {
					t.Errorf("got %d %s after %v", got.status, got.body, time.Since(start))
				}
				if r := b.lastRecord(); r.Attempts != c.attempts || !r.Decided {
					t.Errorf("%d attempts, want %d; decided %t", r.Attempts, c.attempts, r.Decided)
				}
				b.wantIdle()
			})
		})
	}
}

// Who leaves while no replica is there has cost nothing; who waits when a person has to act
// is told at once, and so is who comes later.
func TestWaitForTheOnlyReplicaEndsEarly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		b.away()
		ctx, cancel := context.WithCancel(context.Background())
		gone := b.send(ctx, "/v1/chat/completions", chat("m", true))
		stays := b.send(context.Background(), "/v1/chat/completions", chat("m", false))
		if n := b.held(); n != 2 {
			t.Fatalf("%d wait, want 2", n)
		}
		cancel()
		<-gone
		if n := b.held(); n != 1 {
			t.Fatalf("%d wait, want 1", n)
		}
		b.change(func(m *Model) { m.Halted, m.State = true, "it is stopped; start it" })
		if got := <-stays; got.status != 503 || got.header.Get("Retry-After") != "" || !strings.Contains(got.body, "it is stopped; start it.") {
			t.Errorf("who waited got %d %v %s", got.status, got.header, got.body)
		}
		b.change(func(m *Model) { m.Halted, m.State = false, "replica 0 starting" })
		if got := b.post("/v1/chat/completions", chat("m", false)); got.status != 503 || got.header.Get("Retry-After") != "5" {
			t.Errorf("a first start: got %d %v %s", got.status, got.header, got.body)
		}
		b.wantIdle()
	})
}

// A removed model tells those who wait for word of its replica.
func TestRemovedModelEndsTheWaitForWord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, breaks)
		start := time.Now()
		done := b.send(context.Background(), "/v1/chat/completions", chat("m", false))
		<-time.After(time.Second)
		b.proxy.Apply(&Snapshot{})
		if got := <-done; got.status != http.StatusBadGateway || time.Since(start) != time.Second {
			t.Errorf("got %d %s after %v", got.status, got.body, time.Since(start))
		}
	})
}

// When to come back follows from what is known: the next start, the last absence, the pause
// of a breaker, the queue. It is 1 to 60 s.
func TestRetryAfterFollowsFromWhatIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1), func(_ *Options, s *Snapshot) { s.Models[0].Routing.MaxHold = time.Second })
		after := func() string {
			t.Helper()
			got := b.post("/v1/chat/completions", chat("m", false))
			if got.status != 503 {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			return got.header.Get("Retry-After")
		}
		b.away()
		if got := after(); got != "5" {
			t.Errorf("nothing known: %s", got)
		}
		b.change(func(m *Model) { m.NextStart = time.Now().Add(21 * time.Second) })
		if got := after(); got != "20" {
			t.Errorf("the next start is due in 20 s: %s", got)
		}
		b.change(func(m *Model) { m.NextStart = time.Now().Add(5 * time.Minute) })
		if got := after(); got != "60" {
			t.Errorf("the next start is due in 5 minutes: %s", got)
		}
		<-time.After(37 * time.Second) // away for 40 s
		b.change(func(m *Model) { m.NextStart = time.Time{} })
		b.reborn()
		b.away()
		if got := after(); got != "39" {
			t.Errorf("the last absence was of 40 s, this one is 1 s old: %s", got)
		}
		<-time.After(38 * time.Second)
		if got := after(); got != "5" {
			t.Errorf("it is away for longer than the last time: %s", got)
		}
	})
}
