package face

import (
	"fmt"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// Field is one field of a settings message that has a face.
type Field struct {
	// Name is the name in the API: "spill_threshold".
	Name string
	// Face holds label, help, unit, group and when a change applies.
	Face *lmwardenv1.Face
	// Kind of the value.
	Kind lmwardenv1.SettingsKind
	// Optional is true when an absent value differs from the zero value.
	Optional bool
	// Min and Max bound the value, for a span of time in seconds; nil when unbounded.
	Min, Max *float64
	// Choices of an enum, without the unspecified one.
	Choices []*lmwardenv1.SettingsChoice
	// Pattern is a regular expression that a text, or each text of a list, must match;
	// empty when there is none.
	Pattern string
	// Texts are those that a list may have; nil when it may have others.
	Texts []string

	desc protoreflect.FieldDescriptor
}

// Fields returns the fields of a message that have a face, in the order of its
// definition.
func Fields(md protoreflect.MessageDescriptor) []Field {
	var fields []Field
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if f, ok := proto.GetExtension(fd.Options(), lmwardenv1.E_Face).(*lmwardenv1.Face); ok && f != nil {
			fields = append(fields, newField(fd, f))
		}
	}
	return fields
}

// Describe returns the fields as the API sends them.
func Describe(md protoreflect.MessageDescriptor) []*lmwardenv1.SettingsField {
	var out []*lmwardenv1.SettingsField
	for _, f := range Fields(md) {
		out = append(out, &lmwardenv1.SettingsField{
			Name:     f.Name,
			JsonName: f.desc.JSONName(),
			Face:     f.Face,
			Kind:     f.Kind,
			Optional: f.Optional,
			Min:      f.Min,
			Max:      f.Max,
			Choices:  f.Choices,
			Pattern:  f.Pattern,
		})
	}
	return out
}

// Find returns the field of a name, written with underscores or dashes. The error
// lists the names that exist.
func Find(md protoreflect.MessageDescriptor, name string) (Field, error) {
	want := strings.ReplaceAll(name, "-", "_")
	var names []string
	for _, f := range Fields(md) {
		if f.Name == want {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Field{}, fmt.Errorf("%s is no setting of %s; there are %s", name, md.Name(), strings.Join(names, ", "))
}

func newField(fd protoreflect.FieldDescriptor, f *lmwardenv1.Face) Field {
	field := Field{
		Name:     string(fd.Name()),
		Face:     f,
		Kind:     kindOf(fd),
		Optional: fd.HasPresence(),
		desc:     fd,
	}
	if fd.Kind() == protoreflect.EnumKind && !fd.IsList() {
		field.Choices = choices(fd.Enum())
	}
	field.readRules()
	return field
}

func kindOf(fd protoreflect.FieldDescriptor) lmwardenv1.SettingsKind {
	switch {
	case fd.IsMap():
		if fd.MapKey().Kind() == protoreflect.StringKind && fd.MapValue().Kind() == protoreflect.StringKind {
			return lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_MAP
		}
	case fd.IsList():
		if fd.Kind() == protoreflect.StringKind {
			return lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_LIST
		}
	default:
		return scalarKind(fd)
	}
	return lmwardenv1.SettingsKind_SETTINGS_KIND_UNSPECIFIED
}

func scalarKind(fd protoreflect.FieldDescriptor) lmwardenv1.SettingsKind {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return lmwardenv1.SettingsKind_SETTINGS_KIND_BOOL
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return lmwardenv1.SettingsKind_SETTINGS_KIND_UINT
	case protoreflect.DoubleKind:
		return lmwardenv1.SettingsKind_SETTINGS_KIND_DOUBLE
	case protoreflect.StringKind:
		return lmwardenv1.SettingsKind_SETTINGS_KIND_STRING
	case protoreflect.EnumKind:
		return lmwardenv1.SettingsKind_SETTINGS_KIND_ENUM
	case protoreflect.MessageKind:
		if fd.Message().FullName() == "google.protobuf.Duration" {
			return lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION
		}
	}
	return lmwardenv1.SettingsKind_SETTINGS_KIND_UNSPECIFIED
}

// choices returns the values of an enum that a person may choose: those with a face.
func choices(ed protoreflect.EnumDescriptor) []*lmwardenv1.SettingsChoice {
	var out []*lmwardenv1.SettingsChoice
	for i := range ed.Values().Len() {
		v := ed.Values().Get(i)
		f, ok := proto.GetExtension(v.Options(), lmwardenv1.E_ValueFace).(*lmwardenv1.ValueFace)
		if !ok || f == nil {
			continue
		}
		out = append(out, &lmwardenv1.SettingsChoice{
			Name:   string(v.Name()),
			Number: int32(v.Number()),
			Label:  f.GetLabel(),
			Help:   f.GetHelp(),
		})
	}
	return out
}

// readRules takes range and pattern from the field's validation rules.
func (f *Field) readRules() {
	rules, err := protovalidate.ResolveFieldRules(f.desc)
	if err != nil || rules == nil {
		return
	}
	if items := rules.GetRepeated().GetItems(); items != nil {
		f.Pattern, f.Texts = items.GetString().GetPattern(), items.GetString().GetIn()
		return
	}
	f.Pattern = rules.GetString().GetPattern()
	// The rules of a type are a message of their own; ranges have the same names in
	// each of them.
	m := rules.ProtoReflect()
	set := m.WhichOneof(m.Descriptor().Oneofs().ByName("type"))
	if set == nil || set.Message() == nil {
		return
	}
	typed := m.Get(set).Message()
	f.Min, f.Max = bound(typed, "gte"), bound(typed, "lte")
}

// bound returns a rule's number, for a span of time in seconds.
func bound(rules protoreflect.Message, name protoreflect.Name) *float64 {
	fd := rules.Descriptor().Fields().ByName(name)
	if fd == nil || !rules.Has(fd) {
		return nil
	}
	var n float64
	switch v := rules.Get(fd).Interface().(type) {
	case uint32:
		n = float64(v)
	case uint64:
		n = float64(v)
	case float64:
		n = v
	case protoreflect.Message:
		d, ok := v.Interface().(*durationpb.Duration)
		if !ok {
			return nil
		}
		n = d.AsDuration().Seconds()
	default:
		return nil
	}
	return &n
}
