package face

import (
	"strings"
	"testing"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func TestReferenceNamesEveryField(t *testing.T) {
	var out strings.Builder
	if err := WriteReference(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `spill_threshold` |", "1 to 4096 requests", "**working set**: let in only what the caches can hold",
		"| `engine.drain_timeout` |", "0s to 1h", "| `max_num_seqs` |", "| restarts replicas |", "| at the daemon's start | when the daemon starts again |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the reference lacks %q:\n%s", want, out.String())
		}
	}
	for _, f := range Fields((*lmwardenv1.ModelSpec)(nil).ProtoReflect().Descriptor()) {
		if !strings.Contains(out.String(), "| `"+f.Name+"` |") {
			t.Errorf("the reference lacks %s", f.Name)
		}
	}
}

func TestNixOptionsCarryTypesAndRanges(t *testing.T) {
	var out strings.Builder
	if err := WriteNix(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"spill_threshold = mkOption {\n      type = types.nullOr (types.ints.between 1 4096);",
		`(types.enum [ "none" "working set" "ADMISSION_NONE" "ADMISSION_WORKING_SET" ])`,
		`(types.listOf (types.enum [ "user" "safety_identifier" "metadata.user_id" "x-user-id" "x-correlation-id" "client-ip" ]))`,
		"  config = {", "    engine = {\n      command = mkOption {",
		`(types.strMatching "([0-9]+([.][0-9]+)? *(ms|s|m|min|h|d) *)+")`,
		"When not set: auto.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the options lack %q:\n%s", want, out.String())
		}
	}
}

func TestNixStringsAreQuoted(t *testing.T) {
	if got, want := nixString("a \"b\" ${c} \\"), `"a \"b\" \${c} \\"`; got != want {
		t.Errorf("quoted as %s, want %s", got, want)
	}
}
