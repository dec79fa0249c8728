package face_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/face"
)

func TestFieldsStateWhatTheDefinitionStates(t *testing.T) {
	md := (&lmwardenv1.RoutingSettings{}).ProtoReflect().Descriptor()
	f, err := face.Find(md, "spill-threshold")
	if err != nil {
		t.Fatal(err)
	}
	if f.Face.GetLabel() != "Spill threshold" || f.Face.GetUnit() != "requests" || f.Face.GetAbsent() != "auto" {
		t.Errorf("face %v", f.Face)
	}
	if f.Kind != lmwardenv1.SettingsKind_SETTINGS_KIND_UINT || !f.Optional || *f.Min != 1 || *f.Max != 4096 {
		t.Errorf("kind %v, optional %v, from %v to %v", f.Kind, f.Optional, f.Min, f.Max)
	}
	idle, err := face.Find(md, "conversation_idle")
	if err != nil || idle.Kind != lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION || *idle.Min != 60 || *idle.Max != 604800 {
		t.Errorf("conversation_idle: %+v, %v", idle, err)
	}
	admission, err := face.Find(md, "admission")
	if err != nil || len(admission.Choices) != 2 || admission.Choices[1].GetLabel() != "working set" {
		t.Errorf("admission: %+v, %v", admission, err)
	}
	parser, err := face.Find((&lmwardenv1.ModelSpec{}).ProtoReflect().Descriptor(), "tool_call_parser")
	if err != nil || parser.Pattern == "" {
		t.Errorf("tool_call_parser has no pattern (%v)", err)
	}
	if _, err := face.Find(md, "colour"); err == nil || !strings.Contains(err.Error(), "spill_threshold") {
		t.Errorf("an unknown field: %v; want the names that exist", err)
	}
}

// Every field of every settings message is complete: a form drawn from it has a name,
// an explanation, a place and a kind.
func TestEveryFaceIsComplete(t *testing.T) {
	for _, m := range []proto.Message{&lmwardenv1.RoutingSettings{}, &lmwardenv1.ModelSpec{}, &lmwardenv1.Config{}, &lmwardenv1.EngineConfig{}} {
		fields := face.Describe(m.ProtoReflect().Descriptor())
		if len(fields) == 0 {
			t.Errorf("%T has no fields", m)
		}
		for _, f := range fields {
			if f.GetFace().GetLabel() == "" || f.GetFace().GetHelp() == "" || f.GetFace().GetGroup() == "" ||
				f.GetFace().GetApplies() == lmwardenv1.Applies_APPLIES_UNSPECIFIED || f.GetKind() == lmwardenv1.SettingsKind_SETTINGS_KIND_UNSPECIFIED {
				t.Errorf("%T.%s is not complete: %v", m, f.GetName(), f)
			}
			if f.GetKind() == lmwardenv1.SettingsKind_SETTINGS_KIND_ENUM && len(f.GetChoices()) == 0 {
				t.Errorf("%T.%s has no choices", m, f.GetName())
			}
		}
	}
}

func TestSet(t *testing.T) {
	routing := func(s *lmwardenv1.RoutingSettings) proto.Message { return s }
	spec := func(s *lmwardenv1.ModelSpec) proto.Message { return s }
	fp8 := lmwardenv1.KvCacheType_KV_CACHE_TYPE_FP8
	tests := []struct {
		name, text string
		want       proto.Message
		err        string
	}{
		{"affinity", "off", routing(&lmwardenv1.RoutingSettings{Affinity: proto.Bool(false)}), ""},
		{"affinity", "auto", routing(&lmwardenv1.RoutingSettings{}), ""},
		{"affinity", "maybe", routing(&lmwardenv1.RoutingSettings{}), "neither on nor off"},
		{"spill_threshold", " 8 ", routing(&lmwardenv1.RoutingSettings{SpillThreshold: proto.Uint32(8)}), ""},
		{"spill_threshold", "", routing(&lmwardenv1.RoutingSettings{}), ""},
		{"spill_threshold", "0", routing(&lmwardenv1.RoutingSettings{}), "spill_threshold: \"0\" is not a whole number from 1 to 4096 requests"},
		{"spill_threshold", "9999", routing(&lmwardenv1.RoutingSettings{}), "from 1 to 4096 requests"},
		{"spill_threshold", "-1", routing(&lmwardenv1.RoutingSettings{}), "spill_threshold"},
		{"max_conversations", "65,536", routing(&lmwardenv1.RoutingSettings{MaxConversations: proto.Uint32(65536)}), ""},
		{"admission", "Working Set", routing(&lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_WORKING_SET}), ""},
		{"admission", "working-set", routing(&lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_WORKING_SET}), ""},
		{"admission", "ADMISSION_NONE", routing(&lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_NONE}), ""},
		{"admission", "everything", routing(&lmwardenv1.RoutingSettings{}), "\"none\", \"working set\""},
		{"conversation_idle", "4h", routing(&lmwardenv1.RoutingSettings{ConversationIdle: durationpb.New(4 * time.Hour)}), ""},
		{"conversation_idle", "90", routing(&lmwardenv1.RoutingSettings{ConversationIdle: durationpb.New(90 * time.Second)}), ""},
		{"conversation_idle", "1s", routing(&lmwardenv1.RoutingSettings{}), "from 1m to 168h"},
		{"gpu_memory_utilization", "0.9", spec(&lmwardenv1.ModelSpec{GpuMemoryUtilization: proto.Float64(0.9)}), ""},
		{"gpu_memory_utilization", "1.5", spec(&lmwardenv1.ModelSpec{}), "from 0.05 to 1"},
		{"gpu_memory_utilization", "NaN", spec(&lmwardenv1.ModelSpec{}), "from 0.05 to 1"},
		{"aliases", "a, claude-*", spec(&lmwardenv1.ModelSpec{Aliases: []string{"a", "claude-*"}}), ""},
		{"aliases", "a,a", spec(&lmwardenv1.ModelSpec{}), "aliases"},
		{"extra_args", "--x={\"a\":1,\"b\":2}\n--y", spec(&lmwardenv1.ModelSpec{ExtraArgs: []string{`--x={"a":1,"b":2}`, "--y"}}), ""},
		{"env", "A=1, B=x=y", spec(&lmwardenv1.ModelSpec{Env: map[string]string{"A": "1", "B": "x=y"}}), ""},
		{"env", "A", spec(&lmwardenv1.ModelSpec{}), "NAME=value"},
		{"kv_cache_type", "fp8", spec(&lmwardenv1.ModelSpec{KvCacheType: fp8}), ""},
		// Here auto is a value of its own and not the absence of one.
		{"kv_cache_type", "auto", spec(&lmwardenv1.ModelSpec{KvCacheType: lmwardenv1.KvCacheType_KV_CACHE_TYPE_AUTO}), ""},
		{"tool_call_parser", "her mes", spec(&lmwardenv1.ModelSpec{}), "tool_call_parser"},
	}
	for _, test := range tests {
		t.Run(test.name+"="+test.text, func(t *testing.T) {
			got := test.want.ProtoReflect().New().Interface()
			err := face.Set(got, test.name, test.text)
			switch {
			case test.err == "" && err != nil:
				t.Fatal(err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Fatalf("got %v, want an error with %q", err, test.err)
			}
			if !proto.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// What Get writes, Set reads back as the same value.
func TestGetAndSetAgree(t *testing.T) {
	text := rapid.StringMatching(`[ -~]{1,12}`)
	rapid.Check(t, func(t *rapid.T) {
		spec := &lmwardenv1.ModelSpec{
			ExtraArgs:            rapid.SliceOfN(text, 0, 4).Draw(t, "args"),
			Env:                  rapid.MapOfN(rapid.StringMatching(`[A-Z_][A-Z0-9_]{0,5}`), text, 0, 3).Draw(t, "env"),
			MaxNumSeqs:           proto.Uint32(rapid.Uint32Range(1, 4096).Draw(t, "seqs")),
			GpuMemoryUtilization: proto.Float64(rapid.Float64Range(0.05, 1).Draw(t, "share")),
			KvCacheType:          lmwardenv1.KvCacheType(rapid.IntRange(0, 3).Draw(t, "kv")),
		}
		routing := &lmwardenv1.RoutingSettings{
			Affinity:         proto.Bool(rapid.Bool().Draw(t, "affinity")),
			ConversationIdle: durationpb.New(time.Duration(rapid.Int64Range(60_000, 604_800_000).Draw(t, "ms")) * time.Millisecond),
		}
		for _, m := range []proto.Message{spec, routing} {
			again := m.ProtoReflect().New().Interface()
			for _, f := range face.Fields(m.ProtoReflect().Descriptor()) {
				text, err := face.Get(m, f.Name)
				if err != nil {
					t.Fatal(err)
				}
				if err := face.Set(again, f.Name, text); err != nil {
					t.Fatalf("%s: %q is not read back: %v", f.Name, text, err)
				}
			}
			if !proto.Equal(m, again) {
				t.Fatalf("%v came back as %v", m, again)
			}
		}
	})
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, "90s": 90 * time.Second, "10 min": 10 * time.Minute, "1h30m": 90 * time.Minute,
		"1 h 30 min": 90 * time.Minute, "0.5h": 30 * time.Minute, "250ms": 250 * time.Millisecond, "2 days": 48 * time.Hour, "0": 0, "0s": 0,
	} {
		if got, err := face.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "h", "-1s", "1 parsec", "1h-2m", "nan", "inf", "1e30h", "99999999999999999999h"} {
		if got, err := face.ParseDuration(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	f.Add("1h30m")
	f.Add("10 min")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := face.ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q is %v", text, d)
		}
		again, err := face.ParseDuration(face.FormatDuration(d))
		if err != nil || again != d && again.Truncate(time.Microsecond) != d.Truncate(time.Microsecond) {
			t.Fatalf("%q: %v is written %q and read as %v, %v", text, d, face.FormatDuration(d), again, err)
		}
	})
}
