package face

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// Set gives a field of m the value that a text states. An empty text, and "auto" or
// "default" where they are no value of the field, make it absent. The error names the
// field, what is wrong and the range; m is unchanged then.
func Set(m proto.Message, name, text string) error {
	f, err := Find(m.ProtoReflect().Descriptor(), name)
	if err != nil {
		return err
	}
	text = strings.TrimSpace(text)
	if f.meansAbsent(text) {
		m.ProtoReflect().Clear(f.desc)
		return nil
	}
	// The value is tried on a message of its own, so that a refused one leaves no
	// trace.
	trial := m.ProtoReflect().New()
	if err := f.parse(trial, text); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	if err := f.check(trial.Interface()); err != nil {
		return err
	}
	if trial.Has(f.desc) {
		m.ProtoReflect().Set(f.desc, trial.Get(f.desc))
	} else {
		m.ProtoReflect().Clear(f.desc)
	}
	return nil
}

// Get returns the text of a field of m, an empty one for an absent value. Set turns it
// back into the same value.
func Get(m proto.Message, name string) (string, error) {
	f, err := Find(m.ProtoReflect().Descriptor(), name)
	if err != nil {
		return "", err
	}
	if !m.ProtoReflect().Has(f.desc) {
		return "", nil
	}
	return f.format(m.ProtoReflect().Get(f.desc)), nil
}

func (f Field) meansAbsent(text string) bool {
	if text == "" {
		return true
	}
	if !strings.EqualFold(text, "auto") && !strings.EqualFold(text, "default") {
		return false
	}
	if f.Kind == lmwardenv1.SettingsKind_SETTINGS_KIND_STRING {
		return false // a text is taken as it stands
	}
	return f.choice(text) == nil
}

func (f Field) parse(m protoreflect.Message, text string) error {
	switch f.Kind {
	case lmwardenv1.SettingsKind_SETTINGS_KIND_BOOL:
		on, err := parseBool(text)
		if err != nil {
			return err
		}
		m.Set(f.desc, protoreflect.ValueOfBool(on))
	case lmwardenv1.SettingsKind_SETTINGS_KIND_UINT:
		return f.parseUint(m, text)
	case lmwardenv1.SettingsKind_SETTINGS_KIND_DOUBLE:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !f.inRange(n) {
			return fmt.Errorf("%q is not a number%s", text, f.rangeText())
		}
		m.Set(f.desc, protoreflect.ValueOfFloat64(n))
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING:
		m.Set(f.desc, protoreflect.ValueOfString(text))
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_LIST:
		items, err := parseList(text)
		if err != nil {
			return err
		}
		list := m.Mutable(f.desc).List()
		for _, item := range items {
			list.Append(protoreflect.ValueOfString(item))
		}
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_MAP:
		pairs, err := parseMap(text)
		if err != nil {
			return err
		}
		set := m.Mutable(f.desc).Map()
		for k, v := range pairs {
			set.Set(protoreflect.ValueOfString(k).MapKey(), protoreflect.ValueOfString(v))
		}
	case lmwardenv1.SettingsKind_SETTINGS_KIND_ENUM:
		c := f.choice(text)
		if c == nil {
			return fmt.Errorf("%q is no choice; there are %s", text, f.choiceText())
		}
		m.Set(f.desc, protoreflect.ValueOfEnum(protoreflect.EnumNumber(c.GetNumber())))
	case lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION:
		return f.parseDuration(m, text)
	default:
		return errors.New("this version cannot set it from a text")
	}
	return nil
}

func (f Field) parseUint(m protoreflect.Message, text string) error {
	plain := strings.NewReplacer(",", "", "_", "", " ", "").Replace(text)
	bits := 64
	if f.desc.Kind() == protoreflect.Uint32Kind {
		bits = 32
	}
	size := uint64(1)
	if f.Face.GetUnit() == "bytes" {
		plain, size = cutSize(plain)
	}
	n, err := strconv.ParseUint(plain, 10, bits)
	if most := uint64(1)<<bits - 1; n > most/size {
		err = strconv.ErrRange
	}
	n *= size
	if err != nil || !f.inRange(float64(n)) {
		return fmt.Errorf("%q is not a whole number%s", text, f.rangeText())
	}
	if bits == 32 {
		m.Set(f.desc, protoreflect.ValueOfUint32(uint32(n)))
	} else {
		m.Set(f.desc, protoreflect.ValueOfUint64(n))
	}
	return nil
}

// cutSize cuts the unit off a number of bytes, "64MiB", and returns how many bytes it
// stands for.
func cutSize(text string) (number string, size uint64) {
	lower := strings.ToLower(text)
	for _, unit := range []struct {
		name string
		size uint64
	}{{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}} {
		if number, ok := strings.CutSuffix(lower, unit.name); ok {
			return number, unit.size
		}
	}
	return text, 1
}

func (f Field) parseDuration(m protoreflect.Message, text string) error {
	d, err := ParseDuration(text)
	if err != nil || !f.inRange(d.Seconds()) {
		return fmt.Errorf("%q is not a span of time%s; write it as 90s, 10 min or 4h", text, f.rangeText())
	}
	m.Set(f.desc, protoreflect.ValueOfMessage(durationpb.New(d).ProtoReflect()))
	return nil
}

// check runs the field's validation rules, which know more than a range.
func (f Field) check(m proto.Message) error {
	only := protovalidate.FilterFunc(func(_ protoreflect.Message, d protoreflect.Descriptor) bool {
		return d.FullName() == f.desc.FullName()
	})
	return Validate(m, protovalidate.WithFilter(only))
}

func (f Field) format(v protoreflect.Value) string {
	switch f.Kind {
	case lmwardenv1.SettingsKind_SETTINGS_KIND_BOOL:
		if v.Bool() {
			return "on"
		}
		return "off"
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_LIST:
		var items []string
		for i := range v.List().Len() {
			items = append(items, v.List().Get(i).String())
		}
		return formatList(items)
	case lmwardenv1.SettingsKind_SETTINGS_KIND_STRING_MAP:
		pairs := make(map[string]string)
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			pairs[k.String()] = v.String()
			return true
		})
		return formatMap(pairs)
	case lmwardenv1.SettingsKind_SETTINGS_KIND_ENUM:
		for _, c := range f.Choices {
			if c.GetNumber() == int32(v.Enum()) {
				return c.GetLabel()
			}
		}
		return ""
	case lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION:
		if d, ok := v.Message().Interface().(*durationpb.Duration); ok {
			return FormatDuration(d.AsDuration())
		}
	}
	return v.String()
}

func (f Field) inRange(n float64) bool {
	return (f.Min == nil || n >= *f.Min) && (f.Max == nil || n <= *f.Max)
}

// rangeText returns " from 1 to 4096 requests", or as much of it as there is.
func (f Field) rangeText() string {
	number := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	if f.Kind == lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION {
		number = func(n float64) string { return FormatDuration(time.Duration(n * float64(time.Second))) }
	}
	var b strings.Builder
	if f.Min != nil {
		b.WriteString(" from " + number(*f.Min))
	}
	if f.Max != nil {
		b.WriteString(" to " + number(*f.Max))
	}
	if unit := f.Face.GetUnit(); b.Len() > 0 && unit != "" && f.Kind != lmwardenv1.SettingsKind_SETTINGS_KIND_DURATION {
		b.WriteString(" " + unit)
	}
	return b.String()
}

// choice returns the choice of a label or API name; case and the kind of separator do
// not matter.
func (f Field) choice(text string) *lmwardenv1.SettingsChoice {
	fold := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", " ", "-", " ").Replace(s))
	}
	for _, c := range f.Choices {
		if fold(c.GetLabel()) == fold(text) || fold(c.GetName()) == fold(text) {
			return c
		}
	}
	return nil
}

func (f Field) choiceText() string {
	var labels []string
	for _, c := range f.Choices {
		labels = append(labels, strconv.Quote(c.GetLabel()))
	}
	return strings.Join(labels, ", ")
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "on", "true", "yes", "1":
		return true, nil
	case "off", "false", "no", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither on nor off", text)
}

// split divides a list at line ends when there are any, else at commas.
func split(text string) []string {
	separator := ","
	if strings.Contains(text, "\n") {
		separator = "\n"
	}
	var items []string
	for item := range strings.SplitSeq(text, separator) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// parseList reads "a, b", one item a line, or a JSON list for items that hold commas.
func parseList(text string) ([]string, error) {
	if !strings.HasPrefix(text, "[") {
		return split(text), nil
	}
	var items []string
	if err := json.Unmarshal([]byte(text), &items); err != nil {
		return nil, fmt.Errorf("%q is no JSON list of texts: %w", text, err)
	}
	return items, nil
}

func formatList(items []string) string {
	joined := strings.Join(items, ",")
	if !strings.HasPrefix(joined, "[") && slices.Equal(split(joined), items) {
		return joined
	}
	return marshal(items)
}

// parseMap reads "A=1, B=2", one pair a line, or a JSON object.
func parseMap(text string) (map[string]string, error) {
	pairs := make(map[string]string)
	if strings.HasPrefix(text, "{") {
		if err := json.Unmarshal([]byte(text), &pairs); err != nil {
			return nil, fmt.Errorf("%q is no JSON object of texts: %w", text, err)
		}
		return pairs, nil
	}
	for _, item := range split(text) {
		name, value, ok := strings.Cut(item, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not NAME=value", item)
		}
		pairs[strings.TrimSpace(name)] = value
	}
	return pairs, nil
}

func formatMap(pairs map[string]string) string {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		items = append(items, name+"="+pairs[name])
	}
	joined := strings.Join(items, ",")
	if again, err := parseMap(joined); err == nil && maps.Equal(again, pairs) {
		return joined
	}
	return marshal(pairs)
}

func marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts always marshal
	}
	return string(text)
}
