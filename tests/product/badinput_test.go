package product

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/tests/harness"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// Every refusal is readable by the client that gets it: in the shape of the API that
// was called, with what is wrong and what would be right.
func TestRefusedRequests(t *testing.T) {
	d := startBox(t, 1)
	huge := `{"model":"` + model + `","messages":[{"role":"user","content":"` + strings.Repeat("x", 65<<20) + `"}]}`
	for _, tc := range []struct {
		name, path, body string
		status           int
		says             []string
	}{
		{"unknown model, chat", "/v1/chat/completions", `{"model":"nope","messages":[]}`, 404, []string{"nope", model}},
		{"unknown model, messages", "/v1/messages", `{"model":"nope","max_tokens":1,"messages":[]}`, 404, []string{"nope", model}},
		{"unknown model, responses", "/v1/responses", `{"model":"nope","input":"x"}`, 404, []string{"nope", model}},
		{"not JSON, chat", "/v1/chat/completions", `{"model":`, 400, []string{"JSON"}},
		{"not JSON, messages", "/v1/messages", `{"model":`, 400, []string{"JSON"}},
		{"not an object", "/v1/messages", `[1,2]`, 400, []string{"object"}},
		{"too large, chat", "/v1/chat/completions", huge, 413, []string{"64 MiB"}},
		{"too large, messages", "/v1/messages", huge, 413, []string{"64 MiB"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := post(t, d, tc.path, tc.body)
			if got.status != tc.status {
				t.Fatalf("status %d, want %d: %s", got.status, tc.status, got.body)
			}
			if kind := got.header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
				t.Errorf("content type %q, want application/json", kind)
			}
			message, _ := got.json("error", "message").(string)
			for _, want := range tc.says {
				if !strings.Contains(message, want) {
					t.Errorf("the message %q does not name %q", message, want)
				}
			}
			anthropic := got.json("type") == "error"
			if anthropic != (tc.path == "/v1/messages") {
				t.Errorf("%s was answered in the other API's shape: %s", tc.path, got.body)
			}
		})
	}
	if held := card(t, d).GetInFlight(); held != 0 {
		t.Errorf("%d requests are in flight after refusals only", held)
	}
}

func TestWrongSettingsAreRefusedWithFieldAndRange(t *testing.T) {
	d := harness.Start(t, harness.Options{Config: engines(t), Env: fast})
	if _, err := d.Models.CreateModel(t.Context(), &lmwardenv1.CreateModelRequest{
		Name: model, Spec: &lmwardenv1.ModelSpec{Source: "some/model", Replicas: 1}, Stopped: true,
	}); err != nil {
		t.Fatal(err)
	}
	threshold := uint32(0)
	_, err := d.Routing.UpdateRouting(t.Context(), &lmwardenv1.UpdateRoutingRequest{
		Model:      model,
		Settings:   &lmwardenv1.RoutingSettings{SpillThreshold: &threshold},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spill_threshold"}},
	})
	if err == nil || !strings.Contains(err.Error(), "spill_threshold") || !strings.Contains(err.Error(), "1") {
		t.Errorf("a threshold of 0: %v; want a refusal that names spill_threshold and its range", err)
	}
	_, err = d.Routing.UpdateRouting(t.Context(), &lmwardenv1.UpdateRoutingRequest{
		Model:      model,
		Settings:   &lmwardenv1.RoutingSettings{},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spill_treshold"}},
	})
	if err == nil || !strings.Contains(err.Error(), "spill_treshold") {
		t.Errorf("a misspelt field: %v; want a refusal that names it", err)
	}
}

// exitsWith starts a daemon that must end by itself, and checks code and sentence.
func exitsWith(t *testing.T, d *harness.Daemon, code int, says ...string) {
	t.Helper()
	select {
	case <-d.Exited():
	case <-time.After(time.Minute):
		t.Fatalf("the daemon goes on; its log:\n%s", d.Log())
	}
	if d.ExitCode() != code {
		t.Errorf("exit code %d, want %d", d.ExitCode(), code)
	}
	for _, want := range says {
		if !strings.Contains(d.Log(), want) {
			t.Errorf("the log does not say %q:\n%s", want, d.Log())
		}
	}
}

func TestPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	d := harness.Launch(t, harness.Options{Config: engines(t), Args: []string{"--inference-listen", taken.Addr().String()}})
	exitsWith(t, d, 2, fmt.Sprint(port), fmt.Sprint(os.Getpid()))
}

func TestUnwritableDataDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a-file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Root writes everywhere, but nobody makes a directory below a file.
	d := harness.Launch(t, harness.Options{Config: engines(t), DataDir: filepath.Join(file, "data")})
	exitsWith(t, d, 2, filepath.Join(file, "data"))
}

func TestCorruptDatabaseIsNeverOverwritten(t *testing.T) {
	dir := t.TempDir()
	first := harness.Start(t, harness.Options{Config: engines(t), DataDir: dir})
	if code := first.Stop(time.Minute); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	databases, err := filepath.Glob(filepath.Join(dir, "*.db"))
	if err != nil || len(databases) != 1 {
		t.Fatalf("databases in the data directory: %v, %v; want one", databases, err)
	}
	garbage := []byte(strings.Repeat("not a database ", 4000))
	if err := os.WriteFile(databases[0], garbage, 0o600); err != nil {
		t.Fatal(err)
	}

	exitsWith(t, harness.Launch(t, harness.Options{Config: engines(t), DataDir: dir}), 2, databases[0], "--move-corrupt-database")
	if kept, _ := os.ReadFile(databases[0]); string(kept) != string(garbage) {
		t.Fatal("the corrupt database was changed without being asked")
	}

	second := harness.Start(t, harness.Options{Config: engines(t), DataDir: dir, Args: []string{"--move-corrupt-database"}})
	if _, err := second.Models.ListModels(t.Context(), &lmwardenv1.ListModelsRequest{}); err != nil {
		t.Errorf("the daemon with a new database: %v", err)
	}
	moved, err := filepath.Glob(databases[0] + "?*")
	if err != nil || len(moved) != 1 {
		t.Fatalf("moved aside: %v, %v; want one file", moved, err)
	}
	if kept, _ := os.ReadFile(moved[0]); string(kept) != string(garbage) {
		t.Error("the database that was moved aside is not the one that was there")
	}
}

func TestConfigurationErrorsNameTheLine(t *testing.T) {
	d := harness.Launch(t, harness.Options{Config: "engine:\n  port_base: 80\n"})
	// Three lines of the harness come before.
	exitsWith(t, d, 2, "port_base", "1024", ":5:")
	d = harness.Launch(t, harness.Options{Config: "inference_lisen: x\n"})
	exitsWith(t, d, 2, "inference_lisen", ":4:")
}

// create makes the model through the API with an engine command of the test's own.
func failedReplica(t *testing.T, d *harness.Daemon) *lmwardenv1.Replica {
	t.Helper()
	var failed *lmwardenv1.Replica
	harness.Within(t, time.Minute, func() error {
		replicas := replicasOf(t, d)
		if len(replicas) != 1 || replicas[0].GetState() != lmwardenv1.ReplicaState_REPLICA_STATE_FAILED {
			return fmt.Errorf("replicas: %v", replicas)
		}
		failed = replicas[0]
		return nil
	})
	d.Routed(t, model)
	return failed
}

func TestEngineCommandMissing(t *testing.T) {
	config := `
engine:
  command: [/nowhere/vllm]
  device: ENGINE_DEVICE_CPU
models:
  - name: ` + model + `
    spec: {source: some/model, replicas: 1}
`
	d := harness.Start(t, harness.Options{Config: config})
	if message := failedReplica(t, d).GetMessage(); !strings.Contains(message, "/nowhere/vllm") {
		t.Errorf("the message %q does not name the missing command", message)
	}
	got := post(t, d, "/v1/chat/completions", chat("hi"))
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "" {
		t.Errorf("a request to a model that needs a person: %d, Retry-After %q; want 503 and no advice to try again", got.status, got.header.Get("Retry-After"))
	}
}

func TestEngineDyingAtStart(t *testing.T) {
	script := filepath.Join(t.TempDir(), "engine")
	text := "#!/bin/sh\necho loading\necho 'ValueError: To serve at least one request with the model'\"'\"'s max seq len (32768), (4.50 GiB KV cache is needed, which is larger than the available KV cache memory (1.20 GiB). Based on the available memory, the estimated maximum model length is 8736.'\nexit 1\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	config := `
engine:
  command: [` + script + `]
  device: ENGINE_DEVICE_CPU
models:
  - name: ` + model + `
    spec: {source: some/model, replicas: 1}
`
	d := harness.Start(t, harness.Options{Config: config})
	failed := failedReplica(t, d)
	if !strings.Contains(failed.GetMessage(), "8736") && !strings.Contains(failed.GetMessage(), "8,736") {
		t.Errorf("the message %q does not name the context that would fit", failed.GetMessage())
	}
	if !strings.Contains(failed.GetMessage(), "Set the longest context") {
		t.Errorf("the message %q does not say what to change", failed.GetMessage())
	}
	if failed.GetLastExit() != 1 {
		t.Errorf("last exit %d, want 1", failed.GetLastExit())
	}
	logs, err := d.Replicas.StreamLogs(t.Context(), &lmwardenv1.StreamLogsRequest{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for {
		part, err := logs.Receive()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("the log: %v", err)
			}
			break
		}
		lines = append(lines, part.GetLines()...)
	}
	if joined := strings.Join(lines, "\n"); !strings.Contains(joined, "loading") {
		t.Errorf("the log does not hold the engine's lines: %q", joined)
	}
}
