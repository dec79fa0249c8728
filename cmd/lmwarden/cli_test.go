package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestTables holds what people see to the golden files: "go test -update" writes them
// anew, and the difference is then read by a person.
func TestTables(t *testing.T) {
	box := newFakeBox(t)
	tests := []struct{ golden, line string }{
		{"model-list", "model list"},
		{"model-list-wide", "model list -o wide"},
		{"model-show", "model show qwen3-4b"},
		{"model-show-wide", "model show qwen3-4b -o wide"},
		{"model-rm", "model rm qwen3-4b"},
		{"model-logs", "model logs qwen3-4b"},
		{"replica-list-wide", "replica list -o wide"},
		{"routing-show", "routing show qwen3-4b"},
		{"routing-show-wide", "routing show qwen3-4b -o wide"},
		{"routing-watch", "routing watch qwen3-4b"},
		{"conversation-list-wide", "conversation list qwen3-4b -o wide"},
		{"conversation-forget", "conversation forget qwen3-4b 8f1c0a9be2d47750"},
		{"gpu-list-wide", "gpu list -o wide"},
		{"stats", "stats"},
		{"request-list-wide", "request list -o wide"},
		{"request-explain", "request explain r1"},
		{"events", "events"},
		{"events-follow", "events --follow"},
		{"connect-claude-code", "connect claude-code"},
		{"connect", "connect"},
		{"key-list", "key list"},
		{"key-show", "key show team-a"},
		{"api-list", "api"},
		{"model-list-yaml", "model list -o yaml"},
	}
	for _, test := range tests {
		t.Run(test.golden, func(t *testing.T) {
			got := box.lmwarden(t, strings.Fields(test.line)...)
			if got.code != 0 {
				t.Fatalf("exit code %d: %s", got.code, got.err)
			}
			if strings.Contains(got.stdout, "\x1b") {
				t.Error("colours were printed, but not to a terminal")
			}
			path := filepath.Join("testdata", test.golden+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got.stdout), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.stdout); diff != "" {
				t.Errorf("lmwarden %s differs from %s (-want +got):\n%s", test.line, path, diff)
			}
		})
	}
}

// TestJSON reads the JSON of an answer back into the message that was sent.
func TestJSON(t *testing.T) {
	box := newFakeBox(t)
	got := box.lmwarden(t, "model", "show", "qwen3-4b", "-o", "json")
	var model lmwardenv1.Model
	if err := protojson.Unmarshal([]byte(got.stdout), &model); err != nil {
		t.Fatalf("%v in %s", err, got.stdout)
	}
	if !proto.Equal(&model, fakeModel()) {
		t.Errorf("the model came back as %v", &model)
	}
	// A script must find a 0 where there is one, and nothing where it was not reported.
	var card struct {
		Held     *int
		Replicas []map[string]any
	}
	got = box.lmwarden(t, "routing", "show", "qwen3-4b", "-o", "json")
	if err := json.Unmarshal([]byte(got.stdout), &card); err != nil {
		t.Fatal(err)
	}
	if card.Held == nil {
		t.Error("held is 0 and was left out")
	}
	if _, there := card.Replicas[1]["running"]; there {
		t.Error("running was not reported and is there")
	}
	// A stream is a line of JSON per message.
	got = box.lmwarden(t, "routing", "watch", "qwen3-4b", "-o", "json")
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	for i, line := range lines {
		var watched lmwardenv1.RoutingCard
		if err := protojson.Unmarshal([]byte(line), &watched); err != nil || watched.GetInFlight() != uint32(i) {
			t.Errorf("line %d: %v, in flight %d", i, err, watched.GetInFlight())
		}
	}
	if len(lines) != 2 {
		t.Errorf("%d lines, want 2", len(lines))
	}
}

// TestChanges checks what verbs send, not only what they print.
func TestChanges(t *testing.T) {
	box := newFakeBox(t)
	ok := func(args ...string) {
		t.Helper()
		if got := box.lmwarden(t, args...); got.code != 0 {
			t.Fatalf("lmwarden %s: exit code %d: %s", strings.Join(args, " "), got.code, got.err)
		}
	}
	equal := func(got, want proto.Message) {
		t.Helper()
		if !proto.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
	}
	mask := func(m interface{ GetPaths() []string }) string { return strings.Join(m.GetPaths(), " ") }

	ok("routing", "set", "qwen3-4b", "--affinity", "off", "--spill-threshold", "auto", "--admission", "working set", "--max-hold", "2 min")
	routing := lastCall[*lmwardenv1.UpdateRoutingRequest](t, box)
	if got := mask(routing.GetUpdateMask()); got != "affinity spill_threshold admission max_hold" {
		t.Errorf("mask %q", got)
	}
	if s := routing.GetSettings(); s.GetAffinity() || s.Affinity == nil || s.SpillThreshold != nil ||
		s.GetAdmission() != lmwardenv1.Admission_ADMISSION_WORKING_SET || s.GetMaxHold().GetSeconds() != 120 {
		t.Errorf("settings %v", s)
	}

	ok("model", "add", "m2", "--source", "org/m2", "--aliases", "a", "--aliases", "b", "--env", "A=1", "--routing-affinity", "off", "--stopped")
	equal(lastCall[*lmwardenv1.CreateModelRequest](t, box), &lmwardenv1.CreateModelRequest{
		Name: "m2", Stopped: true, Routing: &lmwardenv1.RoutingSettings{Affinity: proto.Bool(false)},
		Spec: &lmwardenv1.ModelSpec{Source: "org/m2", Aliases: []string{"a", "b"}, Env: map[string]string{"A": "1"}},
	})

	ok("model", "set", "qwen3-4b", "--max-num-seqs", "16", "--revision", "7")
	changed := lastCall[*lmwardenv1.UpdateModelRequest](t, box)
	if mask(changed.GetUpdateMask()) != "max_num_seqs" || changed.GetSpec().GetMaxNumSeqs() != 16 || changed.GetRevision() != 7 {
		t.Errorf("sent %v", changed)
	}

	ok("model", "stop", "qwen3-4b")
	equal(lastCall[*lmwardenv1.StopModelRequest](t, box), &lmwardenv1.StopModelRequest{Name: "qwen3-4b", Wait: true})
	ok("model", "logs", "qwen3-4b", "--replica", "1", "--tail", "5", "--life", "2")
	equal(lastCall[*lmwardenv1.StreamLogsRequest](t, box), &lmwardenv1.StreamLogsRequest{Model: "qwen3-4b", Index: 1, Tail: 5, Incarnation: 2})
	ok("replica", "restart", "qwen3-4b", "1", "--no-wait")
	equal(lastCall[*lmwardenv1.RestartReplicaRequest](t, box), &lmwardenv1.RestartReplicaRequest{Model: "qwen3-4b", Index: 1})
	ok("conversation", "move", "qwen3-4b", "aa", "3")
	equal(lastCall[*lmwardenv1.MoveConversationRequest](t, box), &lmwardenv1.MoveConversationRequest{Model: "qwen3-4b", Conversation: "aa", Replica: 3})
	ok("conversation", "list", "qwen3-4b", "--replica", "2", "--limit", "2")
	equal(lastCall[*lmwardenv1.ListConversationsRequest](t, box), &lmwardenv1.ListConversationsRequest{Model: "qwen3-4b", Replica: proto.Uint32(2), PageSize: 1, PageToken: "2"})
	ok("request", "list", "--decision", "client pinned", "--failed")
	equal(lastCall[*lmwardenv1.ListRequestsRequest](t, box), &lmwardenv1.ListRequestsRequest{Decision: lmwardenv1.DecisionClass_DECISION_CLASS_CLIENT_PINNED, Failed: true, PageSize: 100})
}

// TestStartWaits follows a start until the model is ready.
func TestStartWaits(t *testing.T) {
	got := newFakeBox(t).lmwarden(t, "model", "start", "qwen3-4b", "--wait")
	if got.code != 0 || !strings.Contains(got.stdout, "ready") || !strings.Contains(got.err, "replica 0: ready") {
		t.Errorf("exit code %d\n%s%s", got.code, got.stdout, got.err)
	}
}

// TestRestartWaits follows a restart until the next life is ready, or failed.
func TestRestartWaits(t *testing.T) {
	box := newFakeBox(t)
	got := box.lmwarden(t, "replica", "restart", "qwen3-4b", "0", "-o", "json")
	var replica lmwardenv1.Replica
	if err := protojson.Unmarshal([]byte(got.stdout), &replica); err != nil || replica.GetIncarnation() != 2 {
		t.Errorf("%v, life %d, want the second\n%s", err, replica.GetIncarnation(), got.err)
	}
	if want := "replica 0: stopping\nreplica 0: loading weights\n"; got.err != want {
		t.Errorf("progress %q, want %q", got.err, want)
	}
	got = box.lmwarden(t, "replica", "restart", "qwen3-4b", "1")
	if got.code != exitFailure || !strings.Contains(got.err, "did not start again: the engine ended with exit code 1") {
		t.Errorf("a restart that fails: exit code %d: %s", got.code, got.err)
	}
}

// TestConnectAsksForAKey prints no key that the daemon would refuse.
func TestConnectAsksForAKey(t *testing.T) {
	box := newFakeBox(t)
	box.keys = true
	got := box.lmwarden(t, "connect", "claude-code")
	if got.stdout != "export ANTHROPIC_MODEL=qwen3-4b\n" || !strings.Contains(got.err, "in the shell that starts Claude Code:") || !strings.Contains(got.err, "put yours in place of YOUR_KEY. It can be given in LMWARDEN_KEY.") {
		t.Errorf("printed %s%s", got.stdout, got.err)
	}
	env := map[string]string{"LMWARDEN_ADDR": box.url, "LMWARDEN_KEY": "k1"}
	for want, args := range map[string][]string{"k1": nil, "k2": {"--key", "k2"}} {
		got = lmwarden(t, env, "", append([]string{"connect", "claude-code"}, args...)...)
		if strings.Contains(got.stdout+got.err, "asks for a key") || lastCall[*lmwardenv1.ListRecipesRequest](t, box).GetKey() != want {
			t.Errorf("with the key %s: %s%s", want, got.stdout, got.err)
		}
	}
}

// TestConnectListsClients whatever models there are; a recipe needs one of them.
func TestConnectListsClients(t *testing.T) {
	for names, says := range map[string]string{"": "there is no model yet", "a b": "choose with --model from a, b"} {
		box := newFakeBox(t)
		box.models = strings.Fields(names)
		got := box.lmwarden(t, "connect")
		if got.code != 0 || !strings.Contains(got.stdout, "claude-code") || !strings.Contains(got.stdout, "codex") {
			t.Errorf("with the models %q: exit code %d: %s%s", names, got.code, got.stdout, got.err)
		}
		if got = box.lmwarden(t, "connect", "codex"); got.code == 0 || !strings.Contains(got.err, says) {
			t.Errorf("with the models %q a recipe: exit code %d: %s, want %q", names, got.code, got.err, says)
		}
	}
}

// TestKeySet sends what is named, and an empty value takes a limit back.
func TestKeySet(t *testing.T) {
	box := newFakeBox(t)
	got := box.lmwarden(t, "key", "set", "team-a", "--max-body-bytes", "2 MiB", "--max-requests-per-minute", "", "--revision", "3")
	want := &lmwardenv1.UpdateKeyRequest{
		Name: "team-a", Limits: &lmwardenv1.KeyLimits{MaxBodyBytes: proto.Uint64(2 << 20)}, Revision: 3,
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"max_requests_per_minute", "max_body_bytes"}},
	}
	if got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.err)
	}
	if diff := cmp.Diff(want, lastCall[*lmwardenv1.UpdateKeyRequest](t, box), protocmp.Transform()); diff != "" {
		t.Errorf("the daemon was asked (-want +got):\n%s", diff)
	}
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"set", "team-a"}, exitUsage, "there is nothing to set"},
		{[]string{"set", "team-a", "--max-requests-per-minute", "many"}, exitUsage, "max_requests_per_minute"},
		{[]string{"show", "team-b"}, exitNotFound, `there are "*", "team-a"`},
	} {
		if got := box.lmwarden(t, append([]string{"key"}, test.args...)...); got.code != test.code || !strings.Contains(got.err, test.want) {
			t.Errorf("key %v: %d %s, want %d with %q", test.args, got.code, got.err, test.code, test.want)
		}
	}
}

func TestShellLine(t *testing.T) {
	if got, want := shellLine([]string{"vllm", "--x={\"a\":1}", "it's", ""}), `vllm '--x={"a":1}' 'it'\''s' ''`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestStatsOfAnIdleBox prints no rows of zeros.
func TestStatsOfAnIdleBox(t *testing.T) {
	a := &app{streams: streams{getenv: func(string) string { return "1" }}}
	var out strings.Builder
	a.printThroughput(&out, &lmwardenv1.Throughput{Buckets: []*lmwardenv1.ThroughputBucket{{}, {}}})
	if want := "No request ended in this time.\ncache hit of the last hour: not reported\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	out.Reset()
	a.printThroughput(&out, &lmwardenv1.Throughput{Step: durationpb.New(5 * time.Minute), Buckets: []*lmwardenv1.ThroughputBucket{{}, {}, {Requests: 1}, {}}})
	if got := out.String(); strings.Count(got, "0.0") != 2 || !strings.Contains(got, "Before that: nothing for 10m 0s.") {
		t.Errorf("printed %q, want two rows and the time before them", got)
	}
}

// TestToken sends the token of the flag before the one of the environment.
func TestToken(t *testing.T) {
	box := newFakeBox(t)
	env := map[string]string{"LMWARDEN_ADDR": box.url, "LMWARDEN_TOKEN": "from-env"}
	lmwarden(t, env, "", "model", "list")
	if box.auth != "Bearer from-env" {
		t.Errorf("authorization %q", box.auth)
	}
	lmwarden(t, env, "", "model", "list", "--token", "from-flag")
	if box.auth != "Bearer from-flag" {
		t.Errorf("authorization %q", box.auth)
	}
	if help := lmwarden(t, env, "", "--help"); strings.Contains(help.stdout, "from-env") {
		t.Error("the help prints the token")
	}
}

// TestBackup writes the file whole or not at all, and never over another.
func TestBackup(t *testing.T) {
	box := newFakeBox(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "copy.db")
	if got := box.lmwarden(t, "backup", path); got.code != 0 {
		t.Fatal(got.err)
	}
	if data, err := os.ReadFile(path); string(data) != "first second" || err != nil {
		t.Errorf("the file holds %q, %v", data, err)
	}
	if got := box.lmwarden(t, "backup", path); got.code != exitUsage || !strings.Contains(got.err, "never overwrites") {
		t.Errorf("a second backup: exit code %d: %s", got.code, got.err)
	}
	box.inference = "broken"
	if got := box.lmwarden(t, "backup", filepath.Join(dir, "other.db")); got.code != exitFailure || !strings.Contains(got.err, "the disk is gone") {
		t.Errorf("a broken backup: exit code %d: %s", got.code, got.err)
	}
	if files, err := os.ReadDir(dir); len(files) != 1 || err != nil {
		t.Errorf("%d files are left, %v; want only the first backup", len(files), err)
	}
}
