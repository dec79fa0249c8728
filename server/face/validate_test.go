package face

import (
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// No person reads a regular expression: each one of the API has its words.
func TestPatternsHaveWords(t *testing.T) {
	found := 0
	for _, file := range []protoreflect.FileDescriptor{
		lmwardenv1.File_lmwarden_v1_config_proto, lmwardenv1.File_lmwarden_v1_model_proto, lmwardenv1.File_lmwarden_v1_model_service_proto,
		lmwardenv1.File_lmwarden_v1_routing_proto, lmwardenv1.File_lmwarden_v1_routing_service_proto, lmwardenv1.File_lmwarden_v1_stats_service_proto,
	} {
		for i := range file.Messages().Len() {
			fields := file.Messages().Get(i).Fields()
			for j := range fields.Len() {
				rules, err := protovalidate.ResolveFieldRules(fields.Get(j))
				if err != nil || rules == nil {
					continue
				}
				for _, pattern := range []string{
					rules.GetString().GetPattern(), rules.GetRepeated().GetItems().GetString().GetPattern(), rules.GetMap().GetKeys().GetString().GetPattern(),
				} {
					if pattern == "" {
						continue
					}
					found++
					if patternWords[pattern] == "" {
						t.Errorf("%s: the pattern %s has no words", fields.Get(j).FullName(), pattern)
					}
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("%d patterns were found, want those of names, aliases, parsers, variables and headers", found)
	}
}

func TestValidateSaysWhatAFieldMustBe(t *testing.T) {
	err := Validate(&lmwardenv1.CreateModelRequest{Name: "Bad Name", Spec: &lmwardenv1.ModelSpec{Aliases: []string{"a*b"}}})
	want := "name: must begin with a letter or a digit and may have only letters, digits and . _ : / - in it; spec.aliases[0]: may have one star, at its end"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := Validate(&lmwardenv1.CreateModelRequest{Name: "good", Spec: &lmwardenv1.ModelSpec{}}); err != nil {
		t.Error(err)
	}
	if err := Set(&lmwardenv1.ModelSpec{}, "tool_call_parser", "her mes"); err == nil || !strings.Contains(err.Error(), "only letters, digits") {
		t.Errorf("a flag: %v", err)
	}
}

// A header with a meaning of its own names no conversation: its value is a secret, or the
// same in many of them.
func TestSessionHeadersHaveNoOtherMeaning(t *testing.T) {
	for name, good := range map[string]bool{
		"": true, "x-dynamo-session-id": true, "session-id": true, "x-user-id": true, "hostess": true,
		"Authorization": false, "cookie": false, "X-API-Key": false, "host": false, "Content-Type": false,
		"content-length": false, "accept-encoding": false, "user-agent": false, "proxy-authorization": false, "transfer-encoding": false,
	} {
		for field, err := range map[string]error{
			"session_header":     Validate(&lmwardenv1.Config{SessionHeader: name}),
			"session_headers[0]": Validate(&lmwardenv1.RoutingSettings{SessionHeaders: []string{name}}),
		} {
			if name == "" && field != "session_header" {
				continue // no name at all is refused for that
			}
			if good != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), field+": must not be a header that has a meaning of its own") {
				t.Errorf("%s %q: %v", field, name, err)
			}
		}
	}
}
