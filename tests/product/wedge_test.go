package product

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/tests/harness"
)

// An engine that stands still keeps answering its health probe. Its conversations are
// served by the others once it is found out, new ones avoid it, an event says so, and
// when it goes on it is used again without having been restarted.
func TestWedgedEngine(t *testing.T) {
	d := startBox(t, 2)
	const session = "conversation-one-1"
	home := post(t, d, "/v1/chat/completions", chat("hello"), "X-Session-Id", session).header.Get("X-Lmwarden-Replica")
	var wedged *lmwardenv1.Replica
	for _, r := range replicasOf(t, d) {
		if fmt.Sprintf("%s/%d", model, r.GetIndex()) == home {
			wedged = r
		}
	}
	if wedged == nil {
		t.Fatalf("the conversation's replica is %q", home)
	}
	setFault(t, wedged, "wedge")

	// Its client gives up after a while, as clients do. The engine, idle when it was
	// wedged, goes on reporting that it has nothing to do.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.InferenceURL+"/v1/chat/completions", strings.NewReader(chat("go on")))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Session-Id", session)
	if got, err := http.DefaultClient.Do(request); err == nil {
		got.Body.Close()
		t.Fatalf("a wedged engine answered with %s", got.Status)
	}
	harness.Within(t, time.Minute, func() error {
		return stateOf(t, d, wedged.GetIndex(), lmwardenv1.ReplicaState_REPLICA_STATE_SUSPECT)
	})
	d.Routed(t, model)
	for i := range 8 {
		name := session
		if i > 0 {
			name = fmt.Sprintf("conversation-new-%d", i)
		}
		got := post(t, d, "/v1/chat/completions", chat("again"), "X-Session-Id", name)
		if at := got.header.Get("X-Lmwarden-Replica"); got.status != http.StatusOK || at == home {
			t.Errorf("%s: status %d from %s, want 200 from the replica beside %s", name, got.status, at, home)
		}
	}
	events, err := d.System.ListEvents(t.Context(), &lmwardenv1.ListEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if text := events.String(); !strings.Contains(text, "It hangs, although its health probe succeeds") {
		t.Errorf("no event tells of the wedged replica: %s", text)
	}
	setFault(t, wedged, "")
	harness.Within(t, time.Minute, func() error {
		return stateOf(t, d, wedged.GetIndex(), lmwardenv1.ReplicaState_REPLICA_STATE_READY)
	})
	if now := replicasOf(t, d)[wedged.GetIndex()]; now.GetIncarnation() != wedged.GetIncarnation() {
		t.Errorf("it was restarted although it went on: %v", now)
	}
}

// setFault replaces the faults of a simulated engine.
func setFault(t testing.TB, r *lmwardenv1.Replica, fault string) {
	t.Helper()
	url := fmt.Sprintf("http://127.0.0.1:%d/sim/fault", r.GetPort())
	got, err := http.Post(url, "application/json", bytes.NewReader(fmt.Appendf(nil, `{"fault":%q}`, fault)))
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	if got.StatusCode != http.StatusOK {
		t.Fatalf("the fault %q was not set: %s", fault, got.Status)
	}
}

// stateOf is an error unless a replica is in the wanted state.
func stateOf(t testing.TB, d *harness.Daemon, index uint32, want lmwardenv1.ReplicaState) error {
	t.Helper()
	r := replicasOf(t, d)[index]
	if r.GetState() != want {
		return fmt.Errorf("replica %d is %s: %s", index, r.GetState(), r.GetMessage())
	}
	return nil
}
