package wire

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// seen is one event as an SSE client sees it.
type seen struct{ name, data string }

// plainSSE reads a whole stream the way the standard describes it, in no hurry.
func plainSSE(stream string) (out []seen) {
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	var name string
	var data []string
	for _, line := range strings.Split(stream, "\n") {
		if line == "" {
			if data != nil {
				out = append(out, seen{name, strings.Join(data, "\n")})
			}
			name, data = "", nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			data = append(data, value)
		}
	}
	return out
}

func TestFramesAgreeWithThePlainReader(t *testing.T) {
	line := rapid.SampledFrom([]string{
		"data: a", "data:b", "data:  c", "data", "data:", "event: e", "event", ": comment", ":", "id: 7", "retry:1",
		"data: é😀: x", " data: no", "datax: no",
	})
	eol := rapid.SampledFrom([]string{"\n", "\r\n", "\r"})
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "lines") {
			if rapid.IntRange(0, 2).Draw(t, "kind") > 0 {
				b.WriteString(line.Draw(t, "line"))
			}
			b.WriteString(eol.Draw(t, "eol"))
		}
		in := b.String() + "\n\n"
		var got []seen
		var c cutter
		var e event
		var frame []byte
		for rest := []byte(in); len(rest) > 0; {
			piece := rest[:rapid.IntRange(1, len(rest)).Draw(t, "piece")]
			rest = rest[len(piece):]
			for {
				n := c.cut(piece)
				if n < 0 {
					frame = append(frame, piece...)
					break
				}
				e.parse(append(frame, piece[:n]...))
				if e.has {
					got = append(got, seen{string(e.name), string(e.data)})
				}
				frame, piece = nil, piece[n:]
			}
		}
		if want := plainSSE(in); !slices.Equal(got, want) {
			t.Fatalf("%q:\ngot  %q\nwant %q", in, got, want)
		}
	})
}

func TestIdentifyTakesAnyHeader(t *testing.T) {
	names := make([]string, 0, len(headerOf))
	for name := range headerOf {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		h := heads()
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{s1, t1, "null", "{", `{"request_kind":`, strings.Repeat("x", 300)})).Draw(t, "value")
			h.Add(rapid.SampledFrom(names).Draw(t, "name"), value)
		}
		o := Options{UserHeader: true, Correlation: true}
		for api := range NumAPIs {
			id := Identify(api, h, new(Scan), o)
			if again := Identify(api, h, new(Scan), o); again != id {
				t.Fatalf("%v: %+v, then %+v", h, id, again)
			}
			for _, text := range []string{id.Key, id.Group, id.Parent} {
				if !printable(text) || len(text) > 2*maxValue+16 {
					t.Fatalf("%v: %q", h, text)
				}
			}
			if (id.Key == "") != (id.Source == SourceNone) || (id.Key == "") != (id.Group == "") {
				t.Fatalf("%v: %+v", h, id)
			}
		}
	})
}
