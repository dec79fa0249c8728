package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/face"
)

// settings are the flags of one settings message: one per field that has a face, so
// that a field added to the API is a flag without a line here. Fields of a message
// within the message carry its name: engine.port_base is --engine-port-base.
type settings struct {
	flags []*settingFlag
}

// settingFlag is the flag of one field; as a pflag.Value it keeps the text.
type settingFlag struct {
	path  []protoreflect.FieldDescriptor // to the message of the field
	field face.Field
	texts []string
	given bool
}

// addSettings adds the flags of a message; prefix goes before each name.
func addSettings(fs *pflag.FlagSet, md protoreflect.MessageDescriptor, prefix string) *settings {
	s := &settings{}
	s.add(fs, md, prefix, nil)
	return s
}

func (s *settings) add(fs *pflag.FlagSet, md protoreflect.MessageDescriptor, prefix string, path []protoreflect.FieldDescriptor) {
	faces := make(map[string]face.Field)
	for _, f := range face.Fields(md) {
		faces[f.Name] = f
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		name := prefix + strings.ReplaceAll(string(fd.Name()), "_", "-")
		if f, ok := faces[string(fd.Name())]; ok {
			flag := &settingFlag{path: path, field: f}
			s.flags = append(s.flags, flag)
			added := fs.VarPF(flag, name, "", flag.help())
			if f.Kind == lmwardenv1.SettingsKind_SETTINGS_KIND_BOOL && !f.Optional {
				added.NoOptDefVal = "on" // without a third state the bare flag can only mean on
			}
			continue
		}
		if fd.Message() != nil && !fd.IsList() && !fd.IsMap() && fd.Message().ParentFile().Package() == md.ParentFile().Package() {
			s.add(fs, fd.Message(), name+"-", append(path[:len(path):len(path)], fd))
		}
	}
}

// apply gives the fields of m whose flags were given their values and returns their
// names, as a field mask wants them. The error is one of usage.
func (s *settings) apply(m proto.Message) (names []string, err error) {
	for _, f := range s.flags {
		if !f.given {
			continue
		}
		inner, name := m.ProtoReflect(), ""
		for _, fd := range f.path {
			inner = inner.Mutable(fd).Message()
			name += string(fd.Name()) + "."
		}
		if err := face.Set(inner.Interface(), f.field.Name, f.text()); err != nil {
			return nil, usageErrorf("%s%w", name, err)
		}
		names = append(names, name+f.field.Name)
	}
	return names, nil
}

// change gives the fields of m whose flags were given their values and returns the mask
// of an update. The error is one of usage; when nothing is to be set it names the example.
func (s *settings) change(m proto.Message, example string) (*fieldmaskpb.FieldMask, error) {
	names, err := s.apply(m)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, usageErrorf("there is nothing to set; name a setting as in %s", strings.TrimSpace(example))
	}
	return &fieldmaskpb.FieldMask{Paths: names}, nil
}

// Set keeps the text; its meaning is checked by apply, where the message is known. A
// list or a map grows with each use of its flag.
func (f *settingFlag) Set(text string) error {
	if !f.repeats() {
		f.texts = nil
	}
	f.texts = append(f.texts, text)
	f.given = true
	return nil
}

// String is the text so far.
func (f *settingFlag) String() string { return f.text() }

func (f *settingFlag) text() string { return strings.Join(f.texts, "\n") }

func (f *settingFlag) repeats() bool {
	return f.field.Kind == lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_LIST ||
		f.field.Kind == lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_MAP
}

// Type is what the help shows for the value: its choices, its unit or its kind.
func (f *settingFlag) Type() string {
	switch f.field.Kind {
	case lmwardenv1.SettingsKind_SETTINGS_KIND_BOOL:
		return "on|off"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_ENUM:
		var labels []string
		for _, c := range f.field.Choices {
			labels = append(labels, c.GetLabel())
		}
		joined := strings.Join(labels, "|")
		if strings.Contains(joined, " ") {
			return fmt.Sprintf("%q", joined) // as it must be written in a shell
		}
		return joined
	case lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION:
		return "duration"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_LIST:
		return "list"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_MAP:
		return "NAME=value"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING:
		return "text"
	default:
		return or(f.field.Face.GetUnit(), "number")
	}
}

// help is the field's own sentence, with what its absence means.
func (f *settingFlag) help() string {
	help := f.field.Face.GetHelp()
	if f.repeats() {
		help = strings.TrimSuffix(help, ".") + "; one flag for each item"
	}
	if absent := f.field.Face.GetAbsent(); absent != "" {
		help = strings.TrimSuffix(help, ".") + " (without: " + absent + ")"
	}
	return help
}

// settingRows lists the fields of a settings message with their values for a person:
// those that are set, or all of them. The name is the one of flags and files.
func settingRows(m proto.Message, all bool) (rows [][3]string) {
	for _, f := range face.Fields(m.ProtoReflect().Descriptor()) {
		text, err := face.Get(m, f.Name)
		if err != nil {
			text = err.Error()
		}
		if text == "" {
			if !all {
				continue
			}
			text = or(f.Face.GetAbsent(), "not set")
		} else if unit := f.Face.GetUnit(); unit != "" && f.Kind != lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION {
			text += " " + unit
		}
		rows = append(rows, [3]string{f.Name, text, face.AppliesText(f.Face.GetApplies())})
	}
	return rows
}

// printSettings prints a settings message; wide shows the unset fields too.
func (a *app) printSettings(w io.Writer, m proto.Message) {
	rows := settingRows(m, a.wide())
	if len(rows) == 0 {
		return
	}
	t := a.newTable("setting", "value", "change applies")
	for _, row := range rows {
		t.add(row[0], row[1], cell{row[2], faint})
	}
	_, _ = io.WriteString(w, "\n")
	t.print(w)
}
