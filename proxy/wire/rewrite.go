package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// edit replaces one part of a text. An empty part inserts.
type edit struct {
	Span
	text []byte
}

// apply appends src to dst with the edits made. They are in order and do not
// overlap; every other byte is copied as it is.
func apply(dst, src []byte, edits []edit) []byte {
	at := 0
	for _, e := range edits {
		dst = append(append(dst, src[at:e.Start]...), e.text...)
		at = e.End
	}
	return append(dst, src[at:]...)
}

// Edit says what [Rewrite] changes in a request.
type Edit struct {
	// Model is the name that the engine knows, to put in place of the one that the client
	// asked for; "" leaves it.
	Model string
	// IncludeUsage asks the engine for usage at the end of a stream.
	IncludeUsage bool
	// MaxTokens bounds the answer, in tokens: a request that asks for more, or for as many
	// as there are, asks for this many instead. 0 leaves it.
	MaxTokens int
	// StripAttribution takes the block out that Claude Code puts before its system text.
	StripAttribution bool
}

// Rewrite returns the body with the edits made and nothing else changed: the value
// of every top-level model member, and stream_options.include_usage where the
// request streams and does not say itself whether it wants usage, and the bound of the
// answer where it is over the limit. usageAdded is
// true when it does not; the stream's usage chunk must then be dropped
// ([StreamOptions]). Without a change it returns the scanned body itself.
func Rewrite(api API, s *Scan, e Edit) (body []byte, usageAdded bool) {
	var edits []edit
	if e.Model != "" {
		edits = requestModel(s, quote(e.Model))
	}
	if e.IncludeUsage && (api == APIChat || api == APICompletions) && s.Stream() {
		usage := includeUsage(s)
		edits, usageAdded = append(edits, usage...), len(usage) > 0
	}
	if e.MaxTokens > 0 {
		edits = append(edits, capTokens(api, s, e.MaxTokens)...)
	}
	if e.StripAttribution && api == APIMessages {
		if cut, ok := attributionEdit(s); ok {
			edits = append(edits, cut)
		}
	}
	if len(edits) == 0 {
		return s.body, false
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.Start - b.Start })
	size := len(s.body)
	for _, ed := range edits {
		size += len(ed.text)
	}
	return apply(make([]byte, 0, size), s.body, edits), usageAdded
}

// requestModel returns the edits that give every model member the value name, as
// far as they have another one.
func requestModel(s *Scan, name []byte) []edit {
	var edits []edit
	add := func(p Span) {
		if !bytes.Equal(s.body[p.Start:p.End], name) {
			edits = append(edits, edit{p, name})
		}
	}
	switch s.models {
	case 0:
	case 1:
		add(s.spans[FieldModel])
	default:
		for m := membersOf(s.body, 0); m.next(); {
			if string(m.key) == "model" {
				add(m.val)
			}
		}
	}
	return edits
}

// tokenFields are the members that bound an answer, by surface, and the one that is put
// in when there is none. Messages without a bound are refused.
func tokenFields(api API) (fields []Field, added string) {
	switch api {
	case APIChat:
		return []Field{FieldMaxTokens, FieldMaxCompletionTokens}, "max_completion_tokens"
	case APIResponses:
		return []Field{FieldMaxOutputTokens}, "max_output_tokens"
	case APICompletions:
		return []Field{FieldMaxTokens}, "max_tokens"
	case APIMessages:
		return []Field{FieldMaxTokens}, ""
	}
	return nil, ""
}

// completionTokens is where a completion without a bound ends by itself. Older engines take
// a bound of null for as many tokens as there are, newer ones for none.
const completionTokens = 16

// capTokens returns the edits that bound an answer to limit tokens.
func capTokens(api API, s *Scan, limit int) []edit {
	fields, added := tokenFields(api)
	text := strconv.AppendInt(nil, int64(limit), 10)
	var edits []edit
	stated := false
	for _, f := range fields {
		raw := s.Raw(f)
		if raw == nil || string(raw) == "null" {
			continue
		}
		stated = true
		if numberOf(raw) > float64(limit) {
			edits = append(edits, edit{s.spans[f], text})
		}
	}
	if stated || added == "" || s.body == nil {
		return edits
	}
	null := s.Raw(fields[len(fields)-1]) != nil
	if api == APICompletions && limit >= completionTokens {
		if !null {
			return edits
		}
		text = strconv.AppendInt(nil, completionTokens, 10)
	}
	if null {
		return append(edits, edit{s.spans[fields[len(fields)-1]], text})
	}
	at := skipSpace(s.body, 0) + 1
	member := append(append(quote(added), ':'), text...)
	if s.body[skipSpace(s.body, at)] != '}' {
		member = append(member, ',')
	}
	return append(edits, edit{Span{at, at}, member})
}

// numberOf returns the number that an engine may read from a value, 0 when there is none.
// Engines also read one in quotes, with white space around it and underscores in it, and
// a whole number of any length.
func numberOf(raw []byte) float64 {
	text := string(raw)
	if quoted, ok := textOf(raw); ok {
		text = strings.ReplaceAll(strings.TrimSpace(quoted), "_", "")
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range it is infinite
		return 0
	}
	return n
}

// includeUsage returns the edits that ask for usage; none when the request says itself
// whether it wants it, or when its stream_options are no object. An engine heeds the wish
// for usage on every chunk only of a client that asked for usage, so where the proxy asks
// in its place that wish is taken back.
func includeUsage(s *Scan) []edit {
	p := s.spans[FieldStreamOptions]
	raw := s.Raw(FieldStreamOptions)
	switch {
	case raw == nil:
		at := skipSpace(s.body, 0) + 1
		return []edit{{Span{at, at}, []byte(`"stream_options":{"include_usage":true},`)}}
	case string(raw) == "null":
		return []edit{{p, []byte(`{"include_usage":true}`)}}
	case raw[0] != '{':
		return nil
	}
	if _, present := s.IncludeUsage(); present {
		return nil
	}
	text := `"include_usage":true`
	if raw[skipSpace(raw, 1)] != '}' {
		text += ","
	}
	edits := []edit{{Span{p.Start + 1, p.Start + 1}, []byte(text)}}
	for m := membersOf(s.body[:p.End], p.Start); m.next(); {
		if string(m.key) == "continuous_usage_stats" && string(s.body[m.val.Start:m.val.End]) == "true" {
			edits = append(edits, edit{m.val, []byte("false")})
		}
	}
	return edits
}

// RestoreModel returns a whole answer with the requested name of the model in place
// of the served one: in its model member and, of an error, in its message. Nothing
// else is changed; without a change it returns body itself.
func RestoreModel(body []byte, requested, served string) []byte {
	edits := modelEdits(nil, body, requested, served)
	if len(edits) == 0 {
		return body
	}
	return apply(make([]byte, 0, len(body)+len(requested)*len(edits)), body, edits)
}

// modelEdits appends the edits that restore the requested name in one JSON
// document: model at its top level, in message (messages) and in response
// (responses), and the served name between backquotes in the message of an error.
func modelEdits(edits []edit, data []byte, requested, served string) []edit {
	hasModel := bytes.Contains(data, keyModel)
	if !hasModel && !bytes.Contains(data, keyError) {
		return edits
	}
	var name []byte
	add := func(p Span) {
		if data[p.Start] != '"' {
			return
		}
		if name == nil {
			name = quote(requested)
		}
		edits = append(edits, edit{p, name})
	}
	for m := membersOf(data, 0); m.next(); {
		switch string(m.key) {
		case "model":
			add(m.val)
		case "message", "response":
			if data[m.val.Start] != '{' {
				break
			}
			for in := membersOf(data[:m.val.End], m.val.Start); in.next(); {
				if string(in.key) == "model" {
					add(in.val)
				}
			}
		case "error":
			edits = errorEdits(edits, data[:m.val.End], m.val.Start, requested, served)
		}
	}
	return edits
}

// errorEdits appends the edits that replace `served` by `requested` in the message
// of the error object at data[at:].
func errorEdits(edits []edit, data []byte, at int, requested, served string) []edit {
	if served == "" || data[at] != '{' {
		return edits
	}
	old, name := unquoted(served), unquoted(requested)
	needle := slices.Concat([]byte("`"), old, []byte("`"))
	for m := membersOf(data, at); m.next(); {
		if string(m.key) != "message" || data[m.val.Start] != '"' {
			continue
		}
		for i := m.val.Start; ; {
			n := bytes.Index(data[i:m.val.End], needle)
			if n < 0 {
				break
			}
			i += n
			edits = append(edits, edit{Span{i + 1, i + 1 + len(old)}, name})
			i += len(needle)
		}
	}
	return edits
}

// quote returns a text as a JSON string. Names of models hold no HTML, so that the
// escapes of encoding/json for it do not matter; invalid UTF-8 becomes U+FFFD.
func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic("wire: a text cannot be encoded: " + err.Error())
	}
	return b
}

// unquoted returns the inside of a text as a JSON string.
func unquoted(s string) []byte {
	q := quote(s)
	return q[1 : len(q)-1]
}
