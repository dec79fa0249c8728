package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A shape says what a JSON value must be: a kind, one of the types below, nil for null,
// or a string, int or bool for exactly that value.
type (
	kind    string         // any value of a type
	object  map[string]any // these keys and no others
	array   []any          // these elements
	each    struct{ of any }
	either  []any            // one of these shapes
	entries struct{ of any } // an object of at least one key, whose values all have a shape
	matches string           // a string that the regular expression finds something in
)

const (
	text    kind = "a string"
	integer kind = "an integer"
	decimal kind = "a decimal number"
	boolean kind = "a boolean"
)

// decode reads one JSON value; numbers keep their spelling.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}

// differences lists where a decoded value is not of a shape, each with its path.
func differences(path string, want, got any) []string {
	differs := func() []string {
		return []string{fmt.Sprintf("%s is %s, want %s", path, describe(got), describe(want))}
	}
	switch want := want.(type) {
	case object:
		fields, ok := got.(map[string]any)
		if !ok {
			return differs()
		}
		return fieldDifferences(path, want, fields)
	case array:
		elements, ok := got.([]any)
		if !ok || len(elements) != len(want) {
			return differs()
		}
		var found []string
		for i, w := range want {
			found = append(found, differences(fmt.Sprintf("%s[%d]", path, i), w, elements[i])...)
		}
		return found
	case each:
		elements, ok := got.([]any)
		if !ok || len(elements) == 0 {
			return differs()
		}
		var found []string
		for i, e := range elements {
			found = append(found, differences(fmt.Sprintf("%s[%d]", path, i), want.of, e)...)
		}
		return found
	case either:
		var first []string
		for i, w := range want {
			found := differences(path, w, got)
			if len(found) == 0 {
				return nil
			}
			if i == 0 || len(found) < len(first) {
				first = found
			}
		}
		return first
	case entries:
		fields, ok := got.(map[string]any)
		if !ok || len(fields) == 0 {
			return differs()
		}
		var found []string
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			found = append(found, differences(path+"["+key+"]", want.of, fields[key])...)
		}
		return found
	case matches:
		if s, ok := got.(string); !ok || !regexp.MustCompile(string(want)).MatchString(s) {
			return differs()
		}
	case kind:
		if kindOf(got) != want {
			return differs()
		}
	case int:
		if n, ok := got.(json.Number); !ok || n.String() != fmt.Sprint(want) {
			return differs()
		}
	default:
		if got != want {
			return differs()
		}
	}
	return nil
}

func fieldDifferences(path string, want object, got map[string]any) []string {
	var found []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		if value, ok := got[key]; ok {
			found = append(found, differences(at, want[key], value)...)
		} else {
			found = append(found, fmt.Sprintf("%s is missing, want %s", at, describe(want[key])))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			found = append(found, fmt.Sprintf("%s is %s, want no such key", strings.TrimPrefix(path+"."+key, "."), describe(got[key])))
		}
	}
	return found
}

// kindOf returns the kind of a decoded value, "" for null, arrays and objects.
func kindOf(v any) kind {
	switch v := v.(type) {
	case string:
		return text
	case bool:
		return boolean
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return decimal
		}
		return integer
	}
	return ""
}

// describe renders a shape or a decoded value for a failure.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case kind:
		return string(v)
	case matches:
		return "a string like " + string(v)
	case each:
		return "a list of at least one element"
	case entries:
		return "an object with keys"
	case either:
		return "one of several"
	case array:
		return fmt.Sprintf("a list of %d", len(v))
	case object:
		return "an object"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(raw) > 300 {
		raw = append(raw[:300], "..."...)
	}
	return string(raw)
}

// TestDifferences checks the instrument: what it finds, and where.
func TestDifferences(t *testing.T) {
	shape := object{
		"id": matches("^x-"), "n": integer, "f": decimal, "s": text, "b": boolean, "fixed": 2, "none": nil,
		"list": each{object{"k": "v"}}, "pair": array{1, text}, "either": either{text, integer}, "entries": entries{decimal},
	}
	for _, c := range []struct {
		name, value string
		want        []string
	}{
		{"equal", `{"id":"x-1","n":1,"f":1.0,"s":"","b":true,"fixed":2,"none":null,"list":[{"k":"v"}],"pair":[1,"a"],"either":3,"entries":{"a":0.5}}`, nil},
		{"types", `{"id":"y-1","n":1.0,"f":1,"s":null,"b":"","fixed":3,"none":{},"list":[],"pair":[1],"either":null,"entries":{"a":1}}`, []string{
			"b is \"\", want a boolean", "either is null, want a string", "entries[a] is 1, want a decimal number", "f is 1, want a decimal number", "fixed is 3, want 2", "id is \"y-1\", want a string like ^x-",
			"list is [], want a list of at least one element", "n is 1.0, want an integer", "none is {}, want null",
			"pair is [1], want a list of 2", "s is null, want a string",
		}},
		{"keys", `{"id":"x-1","n":1,"f":1.0,"s":"","b":true,"fixed":2,"list":[{"k":"v"},{"k":"w","z":0}],"pair":[2,"a"],"either":"","entries":{}}`, []string{
			"entries is {}, want an object with keys", "list[1].k is \"w\", want \"v\"", "list[1].z is 0, want no such key", "none is missing, want null", "pair[0] is 2, want 1",
		}},
	} {
		got, err := decode([]byte(c.value))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, differences("", shape, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
