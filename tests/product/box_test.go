package product

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/tests/harness"
)

const model = "qwen3-4b"

// engines is the part of a configuration that starts simulated engines.
func engines(t testing.TB) string {
	return fmt.Sprintf(`
engine:
  command: [%q, vllmd]
  device: ENGINE_DEVICE_CPU
  drain_timeout: 2s
  pass_env: [LMWARDEN_TEST_MARK, LMWARDEN_SIM_PRESET, LMWARDEN_SIM_SPEED, LMWARDEN_SIM_START, LMWARDEN_SIM_FAULT]
`, harness.Binary(t))
}

// declared is a configuration with the model as n simulated replicas.
func declared(t testing.TB, n int) string {
	return engines(t) + fmt.Sprintf(`
models:
  - name: %s
    spec:
      source: Qwen/Qwen3-4B-Instruct-2507
      replicas: %d
      max_num_seqs: 32
      tool_call_parser: hermes
      aliases: ["claude-*"]
`, model, n)
}

// fast makes engines start at once and compute twenty times faster than the card.
var fast = []string{"LMWARDEN_SIM_START=50ms", "LMWARDEN_SIM_SPEED=20"}

// startBox starts a daemon with the model as n replicas and waits until it serves.
func startBox(t testing.TB, n int) *harness.Daemon {
	t.Helper()
	d := harness.Start(t, harness.Options{Config: declared(t, n), Env: fast})
	waitReady(t, d, n)
	return d
}

func waitReady(t testing.TB, d *harness.Daemon, n int) {
	t.Helper()
	harness.Within(t, 60*time.Second, func() error {
		replicas := replicasOf(t, d)
		if len(replicas) != n {
			return fmt.Errorf("%d replicas, want %d", len(replicas), n)
		}
		for _, r := range replicas {
			if r.GetState() != lmwardenv1.ReplicaState_REPLICA_STATE_READY {
				return fmt.Errorf("replica %d is %s: %s", r.GetIndex(), r.GetState(), r.GetMessage())
			}
		}
		return nil
	})
	d.Routed(t, model)
}

func replicasOf(t testing.TB, d *harness.Daemon) []*lmwardenv1.Replica {
	t.Helper()
	answer, err := d.Replicas.ListReplicas(t.Context(), &lmwardenv1.ListReplicasRequest{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetReplicas()
}

func card(t testing.TB, d *harness.Daemon) *lmwardenv1.RoutingCard {
	t.Helper()
	answer, err := d.Routing.GetRouting(t.Context(), &lmwardenv1.GetRoutingRequest{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetCard()
}

// answer is a whole HTTP answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// json returns the member at a path of keys, or nil.
func (a answer) json(keys ...string) any {
	var value any
	if json.Unmarshal(a.body, &value) != nil {
		return nil
	}
	for _, key := range keys {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[key]
	}
	return value
}

// post sends a JSON body and reads the whole answer.
func post(t testing.TB, d *harness.Daemon, path, body string, header ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.InferenceURL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{got.StatusCode, got.Header, text}
}

// chat is a chat completion of a few tokens.
func chat(content string) string {
	body, err := json.Marshal(map[string]any{
		"model": model, "max_tokens": 8,
		"messages": []map[string]string{{"role": "user", "content": content}},
	})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// longStream is a stream that runs for about a minute when nobody cuts it.
func longStream(t testing.TB, d *harness.Daemon, path, session, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.InferenceURL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Session-Id", session)
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { got.Body.Close() })
	if got.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(got.Body)
		t.Fatalf("%s: %s", got.Status, text)
	}
	return got
}

// leftovers returns the processes, beside the daemon, that carry its mark.
func leftovers(d *harness.Daemon) map[int]string {
	found := harness.Processes("LMWARDEN_TEST_MARK", d.Mark)
	delete(found, d.PID())
	return found
}
