package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/server/store"
)

// keysFile writes a file of two keys and returns the configuration that names it.
func keysFile(t *testing.T, declared ...*lmwardenv1.DeclaredKey) *lmwardenv1.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("sk-one # alice\nsk-two # bob\nsk-three # bob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &lmwardenv1.Config{InferenceAuth: &lmwardenv1.InferenceAuth{KeysFile: file, Keys: declared}}
}

// setKey changes limits of a key and returns the key.
func (r *rig) setKey(t *testing.T, name string, revision uint64, l *lmwardenv1.KeyLimits, paths ...string) (*lmwardenv1.Key, error) {
	t.Helper()
	resp, err := r.keysAPI.UpdateKey(t.Context(), &lmwardenv1.UpdateKeyRequest{Name: name, Revision: revision, Limits: l, UpdateMask: mask(paths...)})
	return resp.GetKey(), err
}

func (r *rig) listKeys(t *testing.T) []*lmwardenv1.Key {
	t.Helper()
	resp, err := r.keysAPI.ListKeys(t.Context(), &lmwardenv1.ListKeysRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetKeys()
}

// What a key may take is its own, and that of every key where it states nothing.
func TestKeyLimitsReachTheProxy(t *testing.T) {
	r := newRig(t, keysFile(t))
	if err := r.loop.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.plane.tenants(); !cmp.Equal(got, map[string]proxy.Limits{"alice": {}, "bob": {}}) {
		t.Errorf("without limits the proxy was told %v", got)
	}
	everyone, err := r.setKey(t, "*", 0, &lmwardenv1.KeyLimits{MaxRequestsPerMinute: proto.Uint32(60), MaxConcurrentRequests: proto.Uint32(8)}, "max_requests_per_minute", "max_concurrent_requests")
	if err != nil || everyone.GetRevision() != 1 {
		t.Fatalf("key %v, %v", everyone, err)
	}
	bob, err := r.setKey(t, "bob", 0, &lmwardenv1.KeyLimits{
		MaxRequestsPerMinute: proto.Uint32(6), MaxTokensPerMinute: proto.Uint32(1000), MaxBodyBytes: proto.Uint64(4096), MaxAnswerTokens: proto.Uint32(99),
	}, "max_requests_per_minute", "max_tokens_per_minute", "max_body_bytes", "max_answer_tokens")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]proxy.Limits{
		"alice": {RequestsPerMinute: 60, Concurrent: 8},
		"bob":   {RequestsPerMinute: 6, Concurrent: 8, TokensPerMinute: 1000, BodyBytes: 4096, MaxTokens: 99},
	}
	if diff := cmp.Diff(want, r.plane.tenants()); diff != "" {
		t.Errorf("when the call answers the proxy has (-want +got):\n%s", diff)
	}
	keys := r.listKeys(t)
	if len(keys) != 3 || keys[0].GetName() != "*" || keys[1].GetName() != "alice" || !proto.Equal(keys[2], bob) {
		t.Errorf("the keys are %v", keys)
	}
	if keys[2].GetInForce().GetMaxConcurrentRequests() != 8 || keys[2].GetLimits().MaxConcurrentRequests != nil {
		t.Errorf("bob's limits %v are in force as %v", keys[2].GetLimits(), keys[2].GetInForce())
	}
	// An absent value takes a limit back.
	if _, err := r.setKey(t, "bob", 1, &lmwardenv1.KeyLimits{}, "max_requests_per_minute"); err != nil || r.plane.tenants()["bob"].RequestsPerMinute != 60 {
		t.Errorf("after taking it back bob has %+v, %v", r.plane.tenants()["bob"], err)
	}
	page, _ := r.events.Page("", 0, 10)
	if len(page) != 3 || !strings.Contains(page[0].Message, "Limits of key bob changed: max_requests_per_minute from 6 to its default.") {
		t.Errorf("events %+v", page)
	}
}

// Where no key is asked for, the limits of every key are those of all clients together.
func TestLimitsWithoutKeys(t *testing.T) {
	r := newRig(t, nil)
	if _, err := r.setKey(t, "*", 0, &lmwardenv1.KeyLimits{MaxConcurrentRequests: proto.Uint32(3)}, "max_concurrent_requests"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]proxy.Limits{"": {Concurrent: 3}}, r.plane.tenants()); diff != "" {
		t.Error(diff)
	}
	if keys := r.listKeys(t); len(keys) != 1 || keys[0].GetName() != "*" {
		t.Errorf("keys %v", keys)
	}
}

func TestUpdateKeyRefusals(t *testing.T) {
	r := newRig(t, keysFile(t, &lmwardenv1.DeclaredKey{Name: "alice", Limits: &lmwardenv1.KeyLimits{MaxConcurrentRequests: proto.Uint32(2)}}))
	_, err := r.setKey(t, "eve", 0, &lmwardenv1.KeyLimits{}, "max_body_bytes")
	if info := wantError(t, err, connect.CodeNotFound, `there are "*", "alice", "bob"`); info.GetReason() != "KEY_NOT_FOUND" {
		t.Errorf("detail %v", info)
	}
	_, err = r.setKey(t, "alice", 0, &lmwardenv1.KeyLimits{}, "max_body_bytes")
	if info := wantError(t, err, connect.CodeFailedPrecondition, "declared in /etc/lmwarden.yaml"); info.GetReason() != "DECLARED_KEY" {
		t.Errorf("detail %v", info)
	}
	_, err = r.setKey(t, "bob", 5, &lmwardenv1.KeyLimits{MaxBodyBytes: proto.Uint64(2048)}, "max_body_bytes")
	if info := wantError(t, err, connect.CodeAborted, "revision 0, not 5"); info.GetMetadata()["revision"] != "0" {
		t.Errorf("detail %v", info)
	}
	_, err = r.setKey(t, "bob", 0, &lmwardenv1.KeyLimits{MaxBodyBytes: proto.Uint64(1)}, "max_body_bytes")
	wantError(t, err, connect.CodeInvalidArgument, "limits.max_body_bytes: must be")
	_, err = r.setKey(t, "bob", 0, &lmwardenv1.KeyLimits{}, "max_queue")
	wantError(t, err, connect.CodeInvalidArgument, "max_queue is no setting of KeyLimits")
	if err := r.loop.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.plane.tenants(); !cmp.Equal(got, map[string]proxy.Limits{"alice": {Concurrent: 2}, "bob": {}}) {
		t.Errorf("after the refusals the proxy has %v", got)
	}
}

// Limits outlive the daemon; a record that cannot be read counts as none, and a declared
// one as the declared one.
func TestStoredKeyLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), databaseFile)
	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	data, err := proto.Marshal(&lmwardenv1.KeyLimits{MaxConcurrentRequests: proto.Uint32(4)})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string][]byte{"alice": data, "bob": {0xff}, "*": data} {
		if _, err := st.PutKey(name, 0, value); err != nil {
			t.Fatal(err)
		}
	}
	cfg := keysFile(t, &lmwardenv1.DeclaredKey{Name: "*", Limits: &lmwardenv1.KeyLimits{MaxConcurrentRequests: proto.Uint32(9)}})
	keys, err := openKeyring(cfg.GetInferenceAuth().GetKeysFile())
	if err != nil {
		t.Fatal(err)
	}
	k, shadowed, broken, err := openKeyLimits(st, keys, cfg, "", func() {})
	if err != nil || !cmp.Equal(shadowed, []string{"*"}) || !cmp.Equal(broken, []string{"bob"}) {
		t.Fatalf("shadowed %v, broken %v, %v", shadowed, broken, err)
	}
	if diff := cmp.Diff(map[string]proxy.Limits{"alice": {Concurrent: 4}, "bob": {Concurrent: 9}}, k.tenants()); diff != "" {
		t.Error(diff)
	}
	want := &lmwardenv1.Key{
		Name: "*", Limits: &lmwardenv1.KeyLimits{MaxConcurrentRequests: proto.Uint32(9)}, Revision: 1, DeclaredIn: "the configuration",
		InForce: &lmwardenv1.KeyLimits{MaxConcurrentRequests: proto.Uint32(9)},
	}
	if diff := cmp.Diff(want, k.describe("*"), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	// What could not be read is replaced.
	if err := k.update("bob", 0, func(l *lmwardenv1.KeyLimits) error { l.MaxAnswerTokens = proto.Uint32(7); return nil }); err != nil {
		t.Fatal(err)
	}
	if records, err := st.Keys(); err != nil || records[2].Name != "bob" || records[2].Broken != nil {
		t.Errorf("records %+v, %v", records, err)
	}
	// A change that is refused stores nothing.
	no := errors.New("no")
	if err := k.update("bob", 0, func(*lmwardenv1.KeyLimits) error { return no }); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
}

// The limits of a model are of its spec, and change live: no engine starts again.
func TestModelLimitsReachTheProxy(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 2)
	applies := r.engines.changes()
	spec := &lmwardenv1.ModelSpec{
		MaxConcurrentRequests: proto.Uint32(5), MaxRequestsPerMinute: proto.Uint32(50), MaxTokensPerMinute: proto.Uint32(500),
		MaxBodyBytes: proto.Uint64(5000), MaxAnswerTokens: proto.Uint32(512),
	}
	_, err := r.models.UpdateModel(t.Context(), &lmwardenv1.UpdateModelRequest{
		Name: "m", Spec: spec, UpdateMask: mask("max_concurrent_requests", "max_requests_per_minute", "max_tokens_per_minute", "max_body_bytes", "max_answer_tokens"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := proxy.Limits{Concurrent: 5, RequestsPerMinute: 50, TokensPerMinute: 500, BodyBytes: 5000, MaxTokens: 512}
	if diff := cmp.Diff(want, r.plane.model(t, "m").Limits); diff != "" {
		t.Errorf("when the call answers the proxy has (-want +got):\n%s", diff)
	}
	if n := r.engines.changes(); n != applies {
		t.Errorf("%d changes of the engines, want none", n-applies)
	}
}

func TestDeclaredKeysAreChecked(t *testing.T) {
	_, err := parseConfig("c.yaml", []byte("inference_auth:\n  keys:\n  - {name: a}\n  - {name: a}\n"))
	if err == nil || !strings.Contains(err.Error(), `inference_auth.keys: "a" is declared twice`) {
		t.Errorf("twice: %v", err)
	}
	cfg, err := parseConfig("c.yaml", []byte("inference_auth:\n  keys:\n  - name: '*'\n    limits: {max_body_bytes: 2 MiB, max_requests_per_minute: auto}\n"))
	if l := cfg.GetInferenceAuth().GetKeys(); err != nil || len(l) != 1 || l[0].GetLimits().GetMaxBodyBytes() != 2<<20 || l[0].GetLimits().MaxRequestsPerMinute != nil {
		t.Errorf("in words: %v, %v", cfg, err)
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("inference_auth:\n  keys:\n  - name: nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if notes, err := CheckConfig(file); err != nil || len(notes) != 1 || !strings.Contains(notes[0], `"nobody"`) {
		t.Errorf("a limit for nobody: %v, %v", notes, err)
	}
}
