package clients

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/tests/harness"
)

const model = "qwen3-4b"

// box is a daemon between a tap and two scripted replicas.
type box struct {
	*harness.Daemon
	*engines
	tap *tap

	kept []keptTurn // what expect looked at, for the recordings
}

// newBox starts all of it.
func newBox(t *testing.T) *box {
	return newBoxThatHolds(t, 5*time.Minute)
}

// newBoxThatHolds is a box whose requests wait for a replica for so long at most.
func newBoxThatHolds(t *testing.T, hold time.Duration) *box {
	e := newEngines(t, 2)
	d := newDaemon(t, hold, e.urls...)
	return &box{Daemon: d, engines: e, tap: newTap(t, d.InferenceURL)}
}

// newDaemon starts a daemon before engines that are there, and waits until all are
// ready. A request waits for a replica for hold at most.
func newDaemon(t *testing.T, hold time.Duration, urls ...string) *harness.Daemon {
	return newDaemonWith(t, "", hold, urls...)
}

// newDaemonWith starts one with further lines in its configuration.
func newDaemonWith(t *testing.T, settings string, hold time.Duration, urls ...string) *harness.Daemon {
	d := harness.Start(t, harness.Options{Config: settings + fmt.Sprintf(`
models:
  - name: %s
    spec:
      replica_mode: REPLICA_MODE_REMOTE
      remote_urls: [%s]
      max_num_seqs: 32
      aliases: ["claude-*", "gpt-*"]
    routing:
      max_hold: %d s
`, model, strings.Join(urls, ", "), int(hold.Seconds()))})
	harness.Within(t, 30*time.Second, func() error {
		answer, err := d.Replicas.ListReplicas(t.Context(), &lmwardenv1.ListReplicasRequest{Model: model})
		if err != nil {
			return err
		}
		for _, r := range answer.GetReplicas() {
			if r.GetState() != lmwardenv1.ReplicaState_REPLICA_STATE_READY {
				return fmt.Errorf("replica %d is %s: %s", r.GetIndex(), r.GetState(), r.GetMessage())
			}
		}
		if len(answer.GetReplicas()) != len(urls) {
			return errors.New("the replicas are not there yet")
		}
		return nil
	})
	d.Routed(t, model)
	return d
}

// exchange is one request in all three views: the client's, the daemon's record, and
// the engine's.
type exchange struct {
	*seen
	record *lmwardenv1.RequestRecord
	engine *traffic // nil when the daemon answered by itself
}

// exchanges returns what passed since the last call, in the order of arrival, and
// fails the test where the views differ.
func (b *box) exchanges(t *testing.T) []exchange {
	t.Helper()
	var all []exchange
	for _, s := range b.tap.take(t) {
		x := exchange{seen: s}
		if s.gotHeader != nil {
			x.engine = b.find(s.gotHeader.Get(answerHeader))
			if id := s.gotHeader.Get("X-Lmwarden-Request"); id != "" && x.generates() {
				x.record = b.recordOf(t, id)
			}
		}
		all = append(all, x)
		b.faithful(t, x)
	}
	slices.SortStableFunc(all, func(a, b exchange) int {
		return a.record.GetArrived().AsTime().Compare(b.record.GetArrived().AsTime())
	})
	for _, x := range all {
		r, tools := x.record, 0
		if x.engine != nil {
			tools = len(x.engine.tools)
		}
		t.Logf("%s %s, %d bytes, %d tools: %d from replica %d; %s, key %s, conversation %q, turn %d. %s", x.method, x.uri, len(x.body), tools,
			x.status, r.GetReplica(), x.class(), r.GetKeySource(), r.GetConversation(), r.GetTurn(), r.GetReason())
	}
	return all
}

// part splits exchanges into those of which something is true and the others.
func part(all []exchange, of func(exchange) bool) (yes, no []exchange) {
	for _, x := range all {
		if of(x) {
			yes = append(yes, x)
		} else {
			no = append(no, x)
		}
	}
	return yes, no
}

// turns returns the exchanges that generate.
func (b *box) turns(t *testing.T) []exchange {
	t.Helper()
	turns, _ := part(b.exchanges(t), exchange.generates)
	return turns
}

// cast names the conversations of a test, each with where its key must come from.
type cast map[string]string

// expect checks the decisions of turns, each given as its class and the name of its
// conversation: "placed main", "sticky main". Turns of one name are one conversation on
// one replica; those of two are two conversations. The first record of each is
// returned.
func (b *box) expect(t *testing.T, c cast, got []exchange, want ...string) map[string]*lmwardenv1.RequestRecord {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("there were %d turns, want %d: %q", len(got), len(want), want)
	}
	first, turn := map[string]*lmwardenv1.RequestRecord{}, map[string]uint64{}
	for i, x := range got {
		class, name, _ := strings.Cut(want[i], " ")
		r := x.record
		b.keep(x, want[i], c[name])
		if x.class() != class || r.GetKeySource() != c[name] {
			t.Errorf("turn %d (%s): class %s, key from %q; want %s, %q", i+1, name, x.class(), r.GetKeySource(), class, c[name])
		}
		switch class {
		case "side":
			continue
		case "sticky":
			if r.Home == nil || r.GetHome() != r.GetReplica() {
				t.Errorf("turn %d (%s) went to replica %d, its home is %d", i+1, name, r.GetReplica(), r.GetHome())
			}
		}
		begun := first[name]
		if begun == nil {
			for other, of := range first {
				if of.GetConversation() == r.GetConversation() {
					t.Errorf("turn %d: %s and %s are told as one conversation", i+1, other, name)
				}
			}
			first[name] = r
		} else if begun.GetConversation() != r.GetConversation() || begun.GetReplica() != r.GetReplica() {
			t.Errorf("turn %d (%s): conversation %s on replica %d, which began as %s on replica %d", i+1, name,
				r.GetConversation(), r.GetReplica(), begun.GetConversation(), begun.GetReplica())
		}
		if r.GetTurn() <= turn[name] {
			t.Errorf("turn %d (%s) is counted as %d, after %d", i+1, name, r.GetTurn(), turn[name])
		}
		turn[name] = r.GetTurn()
	}
	return first
}

func (x exchange) path() string {
	path, _, _ := strings.Cut(x.uri, "?")
	return path
}

func (x exchange) generates() bool {
	switch x.path() {
	case "/v1/messages", "/v1/responses", "/v1/chat/completions":
		return x.method == http.MethodPost
	}
	return false
}

// class is the decision's class, as the response header has it.
func (x exchange) class() string {
	return strings.ToLower(strings.TrimPrefix(x.record.GetDecision().String(), "DECISION_CLASS_"))
}

// recordOf waits for the record of a request.
func (b *box) recordOf(t *testing.T, id string) *lmwardenv1.RequestRecord {
	t.Helper()
	var found *lmwardenv1.RequestRecord
	harness.Within(t, time.Minute, func() error {
		answer, err := b.Stats.ListRequests(t.Context(), &lmwardenv1.ListRequestsRequest{Model: model, PageSize: 1000})
		if err != nil {
			return err
		}
		for _, r := range answer.GetRequests() {
			if r.GetId() == id && r.GetDuration() != nil {
				found = r
				return nil
			}
		}
		return fmt.Errorf("request %s has no record", id)
	})
	return found
}
