package face

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// Words lets a YAML file state values in the words of [Set]: on, working set, 10 min,
// 64 MiB, auto. It is a protoyaml.CustomUnmarshaler that decodes nothing itself: before
// the first message is decoded it puts the API's own form in the place of each word, in
// a tree whose lines and columns stay, so that whoever decodes it still tells where a
// mistake is. What YAML and the API have a form for is left as it stands. A Words reads
// one file.
type Words struct {
	// Path of the file, for messages.
	Path string
	// Problems are the words that no value goes by, each with its place in the file. They
	// are complete when the file is decoded.
	Problems []error

	begun bool
}

// Unmarshal translates the whole tree when it is called for the root, the first message
// of all, and leaves the decoding to the caller.
func (w *Words) Unmarshal(node *yaml.Node, m proto.Message) (bool, error) {
	if !w.begun {
		w.begun = true
		w.message(node, m.ProtoReflect().Descriptor(), "")
	}
	return false, nil
}

// message translates the fields of a message; path is where it is, with a dot behind.
func (w *Words) message(node *yaml.Node, md protoreflect.MessageDescriptor, path string) {
	if node.Kind != yaml.MappingNode {
		return // the decoder says what is wrong with it
	}
	faces := make(map[protoreflect.Name]Field)
	for _, f := range Fields(md) {
		faces[f.desc.Name()] = f
	}
	kept := node.Content[:0]
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if w.pair(key.Value, value, md, faces, path) {
			kept = append(kept, key, value)
		}
	}
	node.Content = kept
}

// pair translates one field and says whether it stays: one that is left to its default
// goes, and so does one that is a problem, which the decoder would tell a second time.
func (w *Words) pair(key string, value *yaml.Node, md protoreflect.MessageDescriptor, faces map[protoreflect.Name]Field, path string) bool {
	fd := md.Fields().ByName(protoreflect.Name(key))
	if fd == nil {
		fd = md.Fields().ByJSONName(key)
	}
	if fd == nil {
		return true
	}
	path += string(fd.Name())
	if f, ok := faces[fd.Name()]; ok {
		stays, err := f.translate(value)
		if err != nil {
			w.Problems = append(w.Problems, fmt.Errorf("%s:%d:%d %s: %w", w.Path, value.Line, value.Column, path, err))
		}
		return stays && err == nil
	}
	switch {
	case fd.Message() == nil || fd.IsMap():
	case !fd.IsList():
		w.message(value, fd.Message(), path+".")
	case value.Kind == yaml.SequenceNode:
		for i, item := range value.Content {
			w.message(item, fd.Message(), fmt.Sprintf("%s[%d].", path, i))
		}
	}
	return true
}

// translate turns a word into the API's form, in place. It is false for a word, or for
// nothing, that leaves the field to its default.
func (f Field) translate(node *yaml.Node) (stays bool, err error) {
	if node.Tag == "!!null" {
		return false, nil
	}
	if node.Kind != yaml.ScalarNode || !f.isWord(node.Tag) {
		return true, nil
	}
	if f.meansAbsent(node.Value) {
		return false, nil
	}
	m := dynamicpb.NewMessage(f.desc.ContainingMessage())
	if err := f.parse(m, node.Value); err != nil {
		return true, err
	}
	value := m.Get(f.desc)
	switch f.Kind {
	case lmwardenv1.SettingsKind_SETTINGS_KIND_BOOL:
		node.Tag, node.Value = "!!bool", strconv.FormatBool(value.Bool())
	case lmwardenv1.SettingsKind_SETTINGS_KIND_UINT:
		node.Tag, node.Value = "!!int", strconv.FormatUint(value.Uint(), 10)
	case lmwardenv1.SettingsKind_SETTINGS_KIND_ENUM:
		node.Value = string(f.desc.Enum().Values().ByNumber(value.Enum()).Name())
	case lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION:
		if d, ok := value.Message().Interface().(*durationpb.Duration); ok {
			node.Tag, node.Value = "!!str", strconv.FormatFloat(d.AsDuration().Seconds(), 'f', -1, 64)+"s"
		}
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_LIST:
		items := value.List()
		node.Kind, node.Tag = yaml.SequenceNode, "!!seq"
		for i := range items.Len() {
			node.Content = append(node.Content, &yaml.Node{
				Kind: yaml.ScalarNode, Tag: "!!str", Value: items.Get(i).String(), Line: node.Line, Column: node.Column,
			})
		}
	}
	return true, nil
}

// isWord says whether a scalar of a YAML type is read as a word. Numbers and true and
// false are the file's own, but for a span of time, where a number counts seconds.
func (f Field) isWord(tag string) bool {
	switch f.Kind {
	case lmwardenv1.SettingsKind_SETTINGS_KIND_BOOL, lmwardenv1.SettingsKind_SETTINGS_KIND_UINT,
		lmwardenv1.SettingsKind_SETTINGS_KIND_DOUBLE, lmwardenv1.SettingsKind_SETTINGS_KIND_ENUM,
		lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_LIST:
		return tag == "!!str"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION:
		return tag == "!!str" || tag == "!!int" || tag == "!!float"
	}
	return false
}
