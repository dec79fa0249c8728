package face

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// WriteNix writes the NixOS options of the settings messages: an attribute set of
// options each for the configuration, a model's spec, its routing settings and the limits
// of a key. The names are the configuration file's own, so that the module renders what it is given.
func WriteNix(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Generated from the API's definition by make generate. Do not edit.\n{ lib }:\n\nlet\n  inherit (lib) mkOption types;\nin\n{\n")
	for _, s := range []struct {
		name string
		md   protoreflect.MessageDescriptor
	}{
		{"config", (*lmwardenv1.Config)(nil).ProtoReflect().Descriptor()},
		{"modelSpec", (*lmwardenv1.ModelSpec)(nil).ProtoReflect().Descriptor()},
		{"routingSettings", (*lmwardenv1.RoutingSettings)(nil).ProtoReflect().Descriptor()},
		{"keyLimits", (*lmwardenv1.KeyLimits)(nil).ProtoReflect().Descriptor()},
	} {
		fmt.Fprintf(&b, "  %s = {\n", s.name)
		writeNixOptions(&b, s.md, "    ")
		b.WriteString("  };\n")
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func writeNixOptions(b *strings.Builder, md protoreflect.MessageDescriptor, indent string) {
	for _, f := range Fields(md) {
		help := f.Face.GetHelp()
		if absent := f.Face.GetAbsent(); absent != "" {
			help += " When not set: " + absent + "."
		}
		fmt.Fprintf(b, "%s%s = mkOption {\n%s  type = types.nullOr %s;\n%s  default = null;\n%s  description = %s;\n%s};\n",
			indent, f.Name, indent, nixType(f), indent, indent, nixString(help), indent)
	}
	for _, nested := range nestedSections(md) {
		fmt.Fprintf(b, "%s%s = {\n", indent, nested.Name())
		writeNixOptions(b, nested.Message(), indent+"  ")
		fmt.Fprintf(b, "%s};\n", indent)
	}
}

// nixType returns the type of an option, in parentheses where Nix needs them.
func nixType(f Field) string {
	switch f.Kind {
	case lmwardenv1.SettingsKind_SETTINGS_KIND_BOOL:
		return "types.bool"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_UINT:
		if f.Min == nil && f.Max == nil {
			return "types.ints.unsigned"
		}
		return fmt.Sprintf("(types.ints.between %s %s)", nixBound(f.Min, "0"), nixBound(f.Max, "4294967295"))
	case lmwardenv1.SettingsKind_SETTINGS_KIND_DOUBLE:
		if f.Min == nil || f.Max == nil {
			return "types.number"
		}
		return fmt.Sprintf("(types.numbers.between %s %s)", nixBound(f.Min, "0"), nixBound(f.Max, "0"))
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_LIST:
		if len(f.Texts) > 0 {
			return "(types.listOf (types.enum [ " + strings.Join(nixStrings(f.Texts), " ") + " ]))"
		}
		return "(types.listOf types.str)"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_MAP:
		return "(types.attrsOf types.str)"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_ENUM:
		var words, names []string
		for _, c := range f.Choices {
			words, names = append(words, nixString(c.GetLabel())), append(names, nixString(c.GetName()))
		}
		return "(types.enum [ " + strings.Join(append(words, names...), " ") + " ])"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION:
		return `(types.strMatching "([0-9]+([.][0-9]+)? *(ms|s|m|min|h|d) *)+")`
	default:
		return "types.str"
	}
}

func nixBound(bound *float64, fallback string) string {
	if bound == nil {
		return fallback
	}
	return strconv.FormatFloat(*bound, 'f', -1, 64)
}

// nixString quotes a text; ${ would begin an interpolation.
func nixString(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "${", `\${`, "\n", `\n`).Replace(text) + `"`
}

func nixStrings(texts []string) []string {
	quoted := make([]string, 0, len(texts))
	for _, text := range texts {
		quoted = append(quoted, nixString(text))
	}
	return quoted
}

// seconds turns the bound of a span of time, in seconds, into one.
func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
