package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// storesResponses answers each request of the responses surface with an id of its own,
// and GET with a stream until the client leaves.
func storesResponses() http.HandlerFunc {
	ids := make(chan int, 1)
	ids <- 0
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			tokensUntilGone(time.Second)(w, r)
			return
		}
		n := <-ids + 1
		ids <- n
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"resp_%d","object":"response","status":"completed","model":"m"}`, n)
	}
}

// continues is a request that continues a stored answer.
func continues(id string) string {
	return fmt.Sprintf(`{"model":"m","input":"more","previous_response_id":%q}`, id)
}

// Only the engine that made a stored answer can continue it: the request goes there,
// also when its conversation is at home elsewhere.
func TestStoredAnswerIsContinuedByItsMaker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 3, storesResponses())
		made := b.post("/v1/responses", `{"model":"m","input":"x"}`, session("conversation-number-one")...)
		other := b.post("/v1/responses", `{"model":"m","input":"x"}`, session("conversation-number-two")...)
		maker := made.header.Get(headerReplica)
		if other.header.Get(headerReplica) == maker {
			t.Fatal("both conversations are at home on one replica: the test shows nothing")
		}
		for _, headers := range [][]string{session("conversation-number-two"), session("conversation-number-three"), nil} {
			got := b.post("/v1/responses", continues("resp_1"), headers...)
			if on := got.header.Get(headerReplica); got.status != 200 || on != maker {
				t.Errorf("%v: got %d from %s, want 200 from %s, which made it", headers, got.status, on, maker)
			}
		}
		b.wantIdle()
	})
}

// While the maker takes no requests the client is told to come again: another engine
// would only say that it knows nothing of the answer.
func TestMakerOfStoredAnswerTakesNoRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, storesResponses())
		made := b.post("/v1/responses", `{"model":"m","input":"x"}`)
		maker := ReplicaID(made.header.Get(headerReplica))
		if _, err := b.proxy.Drain(context.Background(), maker); err != nil {
			t.Fatal(err)
		}
		for path, body := range map[string]string{
			"/v1/responses":                    continues("resp_1"),
			"/v1/responses/resp_1/cancel":      "{}",
			"/v1/responses/resp_1?stream=true": "",
		} {
			got := b.post(path, body)
			if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "5" || !strings.Contains(got.body, "alone holds the response `resp_1`") {
				t.Errorf("%s: got %d %q %s", path, got.status, got.header.Get("Retry-After"), got.body)
			}
		}
		// Nothing may be open when the engine is told to stop.
		if n := b.proxy.InFlight(maker); n != 0 {
			t.Errorf("%d in flight on a drained replica", n)
		}
		b.wantIdle()
	})
}

// What a replica made before its restart is gone: the request is routed like any, and
// the engine says so.
func TestMakerOfStoredAnswerRestarted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, storesResponses())
		b.post("/v1/responses", `{"model":"m","input":"x"}`)
		b.change(func(m *Model) {
			for i := range m.Replicas {
				m.Replicas[i].Route.Incarnation = 2
			}
		})
		for _, e := range b.engines {
			e.does(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"error":{"message":"Response with id 'resp_1' not found.","code":404}}`)
			})
		}
		if got := b.post("/v1/responses", continues("resp_1")); got.status != 404 || !strings.Contains(got.body, "Response with id") {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if got := b.post("/v1/responses/resp_1", ""); got.status != 404 || !strings.Contains(got.body, "No replica is known") {
			t.Errorf("got %d %s", got.status, got.body)
		}
		synctest.Wait()
		b.wantIdle()
	})
}

// A look at a stored response counts for its key, a stream of it for as long as it is
// open; a cancellation is always let in.
func TestLooksAtStoredAnswersAreLimited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := limited(t, true, Limits{Concurrent: 1, RequestsPerMinute: 3}, storesResponses())
		key := []string{"Authorization", "Bearer secret"}
		if got := b.post("/v1/responses", `{"model":"m","input":"x"}`, key...); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		const path, cancel = "/v1/responses/resp_1?stream=true", "/v1/responses/resp_1/cancel"
		look := func() gotReply {
			ctx, leave := context.WithTimeout(context.Background(), time.Millisecond)
			defer leave()
			return b.do(b.request(ctx, path, "", key...))
		}
		for range 2 {
			ctx, leave := context.WithCancel(context.Background())
			go b.do(b.request(ctx, path, "", key...))
			synctest.Wait()
			wantLimited(t, look(), "1", "1 request at once")
			if got := b.post(cancel, "{}", key...); got.status != 200 {
				t.Errorf("a cancellation: got %d %s", got.status, got.body)
			}
			leave()
			synctest.Wait()
		}
		wantLimited(t, look(), "20", "3 requests a minute")
		if got := b.post(cancel, "{}", key...); got.status != 200 {
			t.Errorf("a cancellation: got %d %s", got.status, got.body)
		}
		b.wantIdle()
	})
}
