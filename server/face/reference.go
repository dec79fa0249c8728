package face

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A section is a settings message in the reference and among the NixOS options.
type section struct {
	title   string
	intro   string
	message proto.Message
}

var sections = []section{
	{
		"Routing of a model", "`lmwarden routing set`, the page's Routing settings, `models[].routing` in the configuration.\nLive means at once and without touching an engine. The routing of a model that the\nconfiguration declares is changed there, and applies when the daemon starts.",
		(*lmwardenv1.RoutingSettings)(nil),
	},
	{
		"A model", "`lmwarden model add` and `model set`, the page's model settings, `models[].spec` in the\nconfiguration. A model that the configuration declares is changed there.",
		(*lmwardenv1.ModelSpec)(nil),
	},
	{
		"An API key", "`lmwarden key set`, the page's Keys, `inference_auth.keys[].limits` in the\nconfiguration. `*` stands for every key, and where no key is asked for, for all clients\ntogether. Limits that the configuration declares are changed there.",
		(*lmwardenv1.KeyLimits)(nil),
	},
	{
		"The daemon", "The file that `lmwarden serve --config` reads, and the flags of `serve`.",
		(*lmwardenv1.Config)(nil),
	},
}

// referenceHead says how the words of the reference are written in each place.
const referenceHead = "# Settings\n" +
	"\n" +
	"<!-- Generated from the API's definition by make generate. Do not edit. -->\n" +
	"\n" +
	"The same words go everywhere: as flags of the command line (`max_num_seqs` is\n" +
	"`--max-num-seqs`, `engine.drain_timeout` is `--engine-drain-timeout`), on the page, and in\n" +
	"the configuration file. [lmwarden.yaml](lmwarden.yaml) is a file with every setting in its\n" +
	"place; `lmwarden config check FILE` names each mistake with its line.\n" +
	"\n" +
	"| kind | written as | in the file also |\n" +
	"|---|---|---|\n" +
	"| on or off | on, off | true, false |\n" +
	"| a choice | its words: working set, fp8, cpu | the API's name: ADMISSION_WORKING_SET |\n" +
	"| a span of time | 90s, 10 min, 4h, 1 h 30 min; a number alone counts seconds | |\n" +
	"| a number | 65536 or 65,536 (in quotes in the file) | |\n" +
	"| bytes | 64 MiB, 2 GB, 67108864 | |\n" +
	"| a list | one flag for each item, or items with commas between | a YAML list |\n" +
	"| names and values | one flag NAME=value for each | a YAML map |\n" +
	"| left to its default | auto, or an empty text | left out |\n"

// WriteReference writes the settings reference: every field that has a face, with
// what it does, its range, what an absent value means and when a change applies.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("\n| applies | that is |\n|---|---|\n")
	for _, c := range choices(lmwardenv1.Applies(0).Descriptor()) {
		fmt.Fprintf(&b, "| %s | %s |\n", cell(c.GetLabel()), cell(c.GetHelp()))
	}
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| field | what it does | values | when not set | applies |\n|---|---|---|---|---|\n", s.title, s.intro)
		walk(s.message.ProtoReflect().Descriptor(), "", func(path string, f Field) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", path, f.Face.GetHelp(), cell(values(f)), cell(f.Face.GetAbsent()), cell(AppliesText(f.Face.GetApplies())))
		})
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// walk visits the fields of a message and of the messages in it, with their paths.
func walk(md protoreflect.MessageDescriptor, prefix string, visit func(string, Field)) {
	for _, f := range Fields(md) {
		visit(prefix+f.Name, f)
	}
	for _, nested := range nestedSections(md) {
		walk(nested.Message(), prefix+string(nested.Name())+".", visit)
	}
}

// nestedSections returns the fields of a message that are settings messages
// themselves: the engine's part of the configuration.
func nestedSections(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	var found []protoreflect.FieldDescriptor
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.Message() != nil && !fd.IsList() && !fd.IsMap() && len(Fields(fd.Message())) > 0 {
			found = append(found, fd)
		}
	}
	return found
}

// values says which values a field takes.
func values(f Field) string {
	switch f.Kind {
	case lmwardenv1.SettingsKind_SETTINGS_KIND_BOOL:
		return "on, off"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_ENUM:
		var labels []string
		for _, c := range f.Choices {
			labels = append(labels, fmt.Sprintf("**%s**: %s", c.GetLabel(), c.GetHelp()))
		}
		return strings.Join(labels, "; ")
	case lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION:
		return rangeText(f, func(v float64) string { return FormatDuration(seconds(v)) })
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_LIST:
		return "a list"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_MAP:
		return "names and values"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_UINT, lmwardenv1.SettingsKind_SETTINGS_KIND_DOUBLE:
		return rangeText(f, func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) })
	default:
		return "text"
	}
}

func rangeText(f Field, number func(float64) string) string {
	unit := ""
	if u := f.Face.GetUnit(); u != "" && f.Kind != lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION {
		unit = " " + u
	}
	switch {
	case f.Min != nil && f.Max != nil:
		return number(*f.Min) + " to " + number(*f.Max) + unit
	case f.Min != nil:
		return "at least " + number(*f.Min) + unit
	case f.Max != nil:
		return "at most " + number(*f.Max) + unit
	default:
		return "a number" + unit
	}
}

// cell makes text safe inside a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

// AppliesText says in a word or two when a change takes effect, as the API's definition
// does; empty when that is not stated.
func AppliesText(a lmwardenv1.Applies) string {
	for _, c := range choices(a.Descriptor()) {
		if c.GetNumber() == int32(a) {
			return c.GetLabel()
		}
	}
	return ""
}
