package face_test

import (
	"strings"
	"testing"
	"time"

	"buf.build/go/protoyaml"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/face"
)

// A file takes the words of the command line and of the page, and the API's own forms
// beside them.
func TestWordsOfAFile(t *testing.T) {
	want := &lmwardenv1.Config{
		Insecure:     true,
		MaxBodyBytes: proto.Uint64(64 << 20),
		Engine: &lmwardenv1.EngineConfig{
			Command: []string{"vllm"}, DrainTimeout: durationpb.New(90 * time.Second),
			Device: lmwardenv1.EngineDevice_ENGINE_DEVICE_CPU,
		},
		Models: []*lmwardenv1.DeclaredModel{{
			Name: "m",
			Spec: &lmwardenv1.ModelSpec{Source: "s", KvCacheType: lmwardenv1.KvCacheType_KV_CACHE_TYPE_FP8, MaxModelLen: proto.Uint32(32_768), GpuMemoryUtilization: proto.Float64(0.9)},
			Routing: &lmwardenv1.RoutingSettings{
				Affinity: proto.Bool(false), Admission: lmwardenv1.Admission_ADMISSION_WORKING_SET,
				SubagentIdle: durationpb.New(10 * time.Minute), MaxHold: durationpb.New(300 * time.Second),
			},
		}},
	}
	for name, text := range map[string]string{
		"words": `
insecure: on
max_body_bytes: 64 MiB
engine: {command: vllm, drain_timeout: 1 min 30 s, device: cpu}
models:
- name: m
  spec: {source: s, kv_cache_type: fp8, max_model_len: "32,768", gpu_memory_utilization: "0.9"}
  routing: {affinity: off, spill_threshold: auto, admission: working set, subagent_idle: 10 min, max_hold: 300}
`,
		"the API's forms": `
insecure: true
max_body_bytes: 67108864
engine: {command: [vllm], drain_timeout: 90s, device: ENGINE_DEVICE_CPU}
models:
- name: m
  spec: {source: s, kvCacheType: KV_CACHE_TYPE_FP8, max_model_len: 32768, gpu_memory_utilization: 0.9}
  routing: {affinity: false, spill_threshold: null, admission: ADMISSION_WORKING_SET, subagentIdle: 600s, max_hold: 300s}
`,
	} {
		t.Run(name, func(t *testing.T) {
			got := &lmwardenv1.Config{}
			words := &face.Words{Path: "c.yaml"}
			if err := (protoyaml.UnmarshalOptions{CustomUnmarshaler: words}).Unmarshal([]byte(text), got); err != nil || len(words.Problems) > 0 {
				t.Fatal(err, words.Problems)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("read wrongly (-want +got):\n%s", diff)
			}
		})
	}
}

// Each mistake is told once, with its place and what would be right, and hides no other.
func TestWordsTellEveryMistakeOnce(t *testing.T) {
	text := "insecure: perhaps\nengine:\n  drain_timeout: soon\n  port_base: many\n  device: tpu\n"
	words := &face.Words{Path: "c.yaml"}
	if err := (protoyaml.UnmarshalOptions{CustomUnmarshaler: words}).Unmarshal([]byte(text), &lmwardenv1.Config{}); err != nil {
		t.Errorf("the decoder complains too: %v", err)
	}
	want := []string{
		`c.yaml:1:11 insecure: "perhaps" is neither on nor off`,
		`c.yaml:3:18 engine.drain_timeout: "soon" is not a span of time from 0s to 1h; write it as 90s, 10 min or 4h`,
		`c.yaml:4:14 engine.port_base: "many" is not a whole number from 1024 to 60000`,
		`c.yaml:5:11 engine.device: "tpu" is no choice; there are "cards", "cpu"`,
	}
	var got []string
	for _, problem := range words.Problems {
		got = append(got, problem.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestBytesTakeUnits(t *testing.T) {
	for text, want := range map[string]uint64{"64 MiB": 64 << 20, "1gib": 1 << 30, "2 MB": 2e6, "4,096": 4096, "65536": 65536} {
		cfg := &lmwardenv1.Config{}
		if err := face.Set(cfg, "max_body_bytes", text); err != nil || cfg.GetMaxBodyBytes() != want {
			t.Errorf("%q: %d, %v; want %d", text, cfg.GetMaxBodyBytes(), err, want)
		}
	}
	for _, text := range []string{"64 parsec", "99999999999999 GiB", "8 GiB"} {
		if err := face.Set(&lmwardenv1.Config{}, "max_body_bytes", text); err == nil || !strings.Contains(err.Error(), "max_body_bytes") {
			t.Errorf("%q: %v; want a refusal that names the field", text, err)
		}
	}
	if err := face.Set(&lmwardenv1.RoutingSettings{}, "max_queue", "1 KiB"); err == nil {
		t.Error("a number of requests took a unit of bytes")
	}
}
