package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/face"
)

// withNewField returns RoutingSettings as a later version of the API could have it.
func withNewField(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	file := protodesc.ToFileDescriptorProto(lmwardenv1.File_lmwarden_v1_routing_proto)
	options := &descriptorpb.FieldOptions{}
	proto.SetExtension(options, lmwardenv1.E_Face, &lmwardenv1.Face{Label: "Warm start", Help: "Warm caches at the start.", Absent: "off"})
	for _, m := range file.GetMessageType() {
		if m.GetName() == "RoutingSettings" {
			m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
				Name: proto.String("warm_start"), JsonName: proto.String("warmStart"), Number: proto.Int32(999),
				Type: descriptorpb.FieldDescriptorProto_TYPE_BOOL.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
				Options: options,
			})
		}
	}
	built, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return built.Messages().ByName("RoutingSettings")
}

// TestNewFieldIsAFlag adds a field to the API's definition, and nothing else.
func TestNewFieldIsAFlag(t *testing.T) {
	md := withNewField(t)
	fs := pflag.NewFlagSet("set", pflag.ContinueOnError)
	flags := addSettings(fs, md, "")
	if flag := fs.Lookup("warm-start"); flag == nil || flag.Usage != "Warm caches at the start (without: off)" {
		t.Fatalf("flag %+v", flag)
	}
	if err := fs.Parse([]string{"--warm-start", "--affinity", "off"}); err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(md)
	names, err := flags.apply(m)
	if err != nil || strings.Join(names, " ") != "affinity warm_start" {
		t.Fatalf("set %v, %v", names, err)
	}
	if !m.Get(md.Fields().ByName("warm_start")).Bool() {
		t.Error("the new field was not set")
	}
	if rows := settingRows(m, false); len(rows) != 2 || rows[1] != [3]string{"warm_start", "on", ""} {
		t.Errorf("rows %v", rows)
	}
}

// TestVerbsHaveAllSettings finds a flag for every field with a face.
func TestVerbsHaveAllSettings(t *testing.T) {
	root := (&app{streams: streams{getenv: func(string) string { return "" }}}).newRoot()
	tests := []struct {
		line   string
		m      proto.Message
		prefix string
	}{
		{"routing set", &lmwardenv1.RoutingSettings{}, ""},
		{"model add", &lmwardenv1.ModelSpec{}, ""},
		{"model add", &lmwardenv1.RoutingSettings{}, "routing-"},
		{"model set", &lmwardenv1.ModelSpec{}, ""},
		{"serve", &lmwardenv1.Config{}, ""},
		{"serve", &lmwardenv1.EngineConfig{}, "engine-"},
		{"serve", &lmwardenv1.AdminAuth{}, "admin-auth-"},
		{"serve", &lmwardenv1.InferenceAuth{}, "inference-auth-"},
	}
	for _, test := range tests {
		command, _, err := root.Find(strings.Fields(test.line))
		if err != nil {
			t.Fatal(err)
		}
		fields := face.Fields(test.m.ProtoReflect().Descriptor())
		if len(fields) == 0 {
			t.Errorf("%T has no field with a face", test.m)
		}
		for _, f := range fields {
			name := test.prefix + strings.ReplaceAll(f.Name, "_", "-")
			if command.Flags().Lookup(name) == nil {
				t.Errorf("lmwarden %s has no flag --%s", test.line, name)
			}
		}
	}
}

// TestNestedSettings sets fields of messages within the configuration.
func TestNestedSettings(t *testing.T) {
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags := addSettings(fs, (&lmwardenv1.Config{}).ProtoReflect().Descriptor(), "")
	args := []string{
		"--engine-command", "vllm", "--engine-command", "--flag, with comma", "--engine-port-base", "19000",
		"--admin-auth-token-file", "/t", "--insecure", "--log-level", "debug",
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	got := &lmwardenv1.Config{InferenceListen: "kept:1", Engine: &lmwardenv1.EngineConfig{PassEnv: []string{"KEPT"}}}
	if _, err := flags.apply(got); err != nil {
		t.Fatal(err)
	}
	want := &lmwardenv1.Config{
		InferenceListen: "kept:1", Insecure: true, LogLevel: "debug",
		Engine:    &lmwardenv1.EngineConfig{Command: []string{"vllm", "--flag, with comma"}, PortBase: proto.Uint32(19000), PassEnv: []string{"KEPT"}},
		AdminAuth: &lmwardenv1.AdminAuth{TokenFile: "/t"},
	}
	if !proto.Equal(got, want) {
		t.Errorf("the flags gave %v, want %v", got, want)
	}

	if err := fs.Parse([]string{"--engine-port-base", "80"}); err != nil {
		t.Fatal(err)
	}
	if _, err := flags.apply(got); err == nil || !strings.Contains(err.Error(), "engine.port_base") || !strings.Contains(err.Error(), "from 1024 to 60000") {
		t.Errorf("port 80 gave %v, want the field and its range", err)
	}
}

// TestEveryVerbHasHelp keeps every verb described and each example runnable: it must
// name verbs and flags that exist.
func TestEveryVerbHasHelp(t *testing.T) {
	root := (&app{streams: streams{getenv: func(string) string { return "" }}}).newRoot()
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%s has no short help", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "lmwarden" {
				t.Errorf("%s: %q is no example", c.CommandPath(), line)
				continue
			}
			named, rest, err := root.Find(words[1:])
			if err != nil || named != c {
				t.Errorf("%s: %q calls another verb", c.CommandPath(), line)
				continue
			}
			for _, word := range rest {
				name, isFlag := strings.CutPrefix(word, "--")
				if isFlag && named.Flags().Lookup(name) == nil && root.PersistentFlags().Lookup(name) == nil {
					t.Errorf("%s: the example has the flag --%s, which does not exist", c.CommandPath(), name)
				}
			}
		}
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(root)
}
