package proxy

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The engine must notice within a second that a client has left: while it streams, and
// while it computes in silence.
func TestClientGoneStopsTheEngine(t *testing.T) {
	for name, c := range map[string]struct {
		script http.HandlerFunc
		stream bool
		after  time.Duration
	}{
		"streaming":                   {tokensUntilGone(100 * time.Millisecond), true, 500 * time.Millisecond},
		"silent, whole answer":        {silentUntilGone, false, 20 * time.Second},
		"silent, stream":              {silentUntilGone, true, 5 * time.Second},
		"silent, after signs of life": {silentUntilGone, true, 45 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, 1, c.script)
				ctx, cancel := context.WithTimeout(context.Background(), c.after)
				defer cancel()
				if got := b.do(b.request(ctx, "/v1/chat/completions", chat("m", c.stream))); got.err == nil {
					t.Fatal("the request was answered")
				}
				<-time.After(time.Second)
				if n := b.engines[0].aborted(); n != 1 {
					t.Errorf("the engine noticed %d clients leave, want 1", n)
				}
				b.wantIdle()
				if r := b.records.all()[0]; r.Status != statusClientGone || r.Attempts != 1 {
					t.Errorf("recorded as %d after %d attempts, want 499 after 1", r.Status, r.Attempts)
				}
			})
		})
	}
}

// abortScript answers after random delays, so that an abort meets every phase: before
// the headers, before the first token, in the middle, at the end.
func abortScript(seed uint64) http.HandlerFunc {
	rng, mu := rand.New(rand.NewPCG(seed, 0)), sync.Mutex{}
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		wait, whole := time.Duration(rng.IntN(50))*time.Millisecond, rng.IntN(4) == 0
		mu.Unlock()
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			return
		}
		if whole {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, chatWhole)
			return
		}
		sendFrames(w, append(chatChunks(5), usageFrame, doneFrame), 7*time.Millisecond)
	}
}

// abort sends requests at once, each of which is given up after a random time.
func (b *box) abort(requests int, within time.Duration, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var wg sync.WaitGroup
	for i := range requests {
		after, stream := time.Duration(rng.Int64N(int64(within))), rng.IntN(3) > 0
		start := time.Duration(rng.IntN(2000)) * time.Millisecond
		wg.Go(func() {
			<-time.After(start)
			ctx, cancel := context.WithTimeout(context.Background(), after)
			defer cancel()
			b.do(b.request(ctx, "/v1/chat/completions", chat("alias", stream), session(fmt.Sprintf("conversation-number-%d", i%97))...))
		})
	}
	wg.Wait()
}

// Aborts at random phases leave nothing in flight, and the next conversations spread.
func TestAbortsLeaveNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, abortScript(7))
		b.abort(1000, 100*time.Millisecond, 7)
		b.wantIdle()
		gone, served := 0, 0
		for _, r := range b.records.all() {
			switch r.Status {
			case statusClientGone:
				gone++
			case http.StatusOK:
				served++
			default:
				t.Errorf("a request ended with %d: %s", r.Status, r.Error)
			}
		}
		if gone < 500 || served < 25 {
			t.Errorf("%d aborted and %d served: the test does not meet the phases that it should", gone, served)
		}
		// The old conversations have to be over for the spread to be exact.
		<-time.After(6 * time.Minute)
		b.spread(8, 2)
	})
}

// spread opens n streams of new conversations at once and wants each replica to have
// got each of them.
func (b *box) spread(n, each int) {
	b.t.Helper()
	for _, e := range b.engines {
		e.does(tokensUntilGone(time.Second))
	}
	ctx, cancel := context.WithCancel(context.Background())
	for i := range n {
		b.openStream(ctx, session(fmt.Sprintf("a-new-conversation-%d", i))...)
	}
	for _, r := range b.snapshot.Models[0].Replicas {
		if got := b.proxy.InFlight(r.ID); got != each {
			b.t.Errorf("%s got %d of %d conversations, want %d", r.ID, got, n, each)
		}
	}
	cancel()
	b.wantIdle()
}

// Clients that leave between request and first byte take no place with them.
func TestAbortBeforeTheFirstByte(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, silentUntilGone, func(_ *Options, s *Snapshot) {
			s.Models[0].Replicas[0].Route.MaxNumSeqs = 8
		})
		b.abort(500, 30*time.Millisecond, 3)
		b.wantIdle()
		b.engines[0].does(answers(1))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if got := b.post("/v1/chat/completions", chat("m", true)); got.status != 200 {
					t.Errorf("got %d %s", got.status, got.body)
				}
			})
		}
		wg.Wait()
	})
}

// A client that leaves is no failure of the replica, not even as the probe.
func TestAbortsDoNotTripTheBreaker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, silentUntilGone)
		b.abort(100, 50*time.Millisecond, 5)
		synctest.Wait()
		m := b.proxy.table.Load().named["m"]
		for _, r := range m.replicas {
			if s := r.breaker.state(time.Now()); s != breakerClosed || r.breaker.strikes != 0 {
				t.Errorf("%s: state %d after %d strikes", r.id, s, r.breaker.strikes)
			}
		}
	})
}
