package wire

import (
	"encoding/json"
	"testing"
)

func TestStripAttribution(t *testing.T) {
	const block = `x-anthropic-billing-header: cc_version=2.1; cch=ab\"c`
	tests := []struct{ name, system, want string }{
		{"a part of its own", `[{"type":"text","text":"` + block + `"}, {"type":"text","text":"You"}]`, `[ {"type":"text","text":"You"}]`},
		{"the only part", `[{"type":"text","text":"` + block + `"}]`, `[]`},
		{"a line of the first part", `[{"type":"text","text":"` + block + `\nYou"}]`, `[{"type":"text","text":"You"}]`},
		{"a line of a text", `"` + block + `\nYou\nare"`, `"You\nare"`},
		{"a whole text", `"` + block + `"`, `""`},
		{"not at the beginning", `[{"type":"text","text":"You"},{"type":"text","text":"` + block + `"}]`, ""},
		{"somebody speaks of it", `"You see x-anthropic-billing-header: v"`, ""},
		{"no text", `[{"type":"image"}]`, ""},
		{"nothing", `[]`, ""},
		{"not JSON that we know", `null`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := `{"model":"m","system":` + tt.system + `,"messages":[]}`
			want := body
			if tt.want != "" {
				want = `{"model":"m","system":` + tt.want + `,"messages":[]}`
			}
			got, _ := Rewrite(APIMessages, mustScan(t, body), Edit{StripAttribution: true})
			if string(got) != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if !json.Valid(got) {
				t.Error("it is no JSON any more")
			}
			if kept, _ := Rewrite(APIMessages, mustScan(t, body), Edit{}); string(kept) != body {
				t.Errorf("without the setting it became %s", kept)
			}
		})
	}
}

// FuzzStripAttribution strips whatever a body has for a system text: what was JSON stays
// JSON.
func FuzzStripAttribution(f *testing.F) {
	f.Add(`[{"type":"text","text":"x-anthropic-billing-header: a"},{"text":"b"}]`)
	f.Add(`"x-anthropic-billing-header: a\\n\nb"`)
	f.Fuzz(func(t *testing.T, system string) {
		body := []byte(`{"model":"m","system":` + system + `}`)
		var s Scan
		if !json.Valid(body) || s.Scan(body) != nil {
			t.Skip()
		}
		if got, _ := Rewrite(APIMessages, &s, Edit{StripAttribution: true}); !json.Valid(got) {
			t.Errorf("%s became %s", body, got)
		}
	})
}
