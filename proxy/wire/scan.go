package wire

import (
	"bytes"
	"strconv"
)

// Field is a top-level member of a request body that somebody asks for.
type Field uint8

// The fields that a scan notes.
const (
	fieldNone Field = iota
	FieldModel
	FieldStream
	FieldStreamOptions
	FieldMaxTokens
	FieldMaxCompletionTokens
	FieldMaxOutputTokens
	FieldMetadata
	FieldPromptCacheKey
	FieldPreviousResponseID
	FieldConversation
	FieldClientMetadata
	FieldSessionID
	FieldSessionParams
	FieldLitellmSessionID
	FieldCacheSalt
	FieldUser
	FieldSafetyIdentifier
	FieldTools
	FieldSystem
	FieldInstructions
	FieldMessages
	FieldInput
	FieldPrompt
	numFields
)

// fieldOf names the field of an unescaped key. Names are case-sensitive, as in the
// engine.
func fieldOf(key []byte) Field {
	switch string(key) {
	case "model":
		return FieldModel
	case "stream":
		return FieldStream
	case "stream_options":
		return FieldStreamOptions
	case "max_tokens":
		return FieldMaxTokens
	case "max_completion_tokens":
		return FieldMaxCompletionTokens
	case "max_output_tokens":
		return FieldMaxOutputTokens
	case "metadata":
		return FieldMetadata
	case "prompt_cache_key":
		return FieldPromptCacheKey
	case "previous_response_id":
		return FieldPreviousResponseID
	case "conversation":
		return FieldConversation
	case "client_metadata":
		return FieldClientMetadata
	case "session_id":
		return FieldSessionID
	case "session_params":
		return FieldSessionParams
	case "litellm_session_id":
		return FieldLitellmSessionID
	case "cache_salt":
		return FieldCacheSalt
	case "user":
		return FieldUser
	case "safety_identifier":
		return FieldSafetyIdentifier
	case "tools":
		return FieldTools
	case "system":
		return FieldSystem
	case "instructions":
		return FieldInstructions
	case "messages":
		return FieldMessages
	case "input":
		return FieldInput
	case "prompt":
		return FieldPrompt
	}
	return fieldNone
}

// Span is a part of a body, from Start up to but not including End, in bytes. The
// zero Span means that the member is absent.
type Span struct{ Start, End int }

// Len returns the length in bytes.
func (s Span) Len() int { return s.End - s.Start }

// Scan is what one pass over a request body found. It refers to the body and is
// valid as long as the body is not changed. The zero Scan is that of a request
// without a body.
type Scan struct {
	body   []byte
	spans  [numFields]Span
	models int // how often the model member occurs
}

// SyntaxError says where a body stops being one JSON object. It is not a check of
// the whole: what is inside members is left to the engine.
type SyntaxError struct {
	Offset int    // in bytes, from 0
	What   string // what is wrong there
}

// Error returns a sentence for the client.
func (e *SyntaxError) Error() string {
	return "the request body is not one JSON object: " + e.What + " at byte " + strconv.Itoa(e.Offset)
}

// Scan reads the top level of body in one pass and notes its fields. It allocates
// nothing unless a key holds an escape. When a member occurs more than once the
// last one counts, whatever its type, as it does in the engine. The error is a
// *[SyntaxError]; s then holds nothing.
func (s *Scan) Scan(body []byte) error {
	*s = Scan{body: body}
	m := membersOf(body, 0)
	for m.next() {
		f := fieldOf(m.key)
		if f == fieldNone {
			continue
		}
		s.spans[f] = m.val
		if f == FieldModel {
			s.models++
		}
	}
	if m.bad.What == "" {
		if i := skipSpace(body, m.i); i < len(body) {
			m.bad = SyntaxError{i, "there is something after the object"}
		}
	}
	if m.bad.What != "" {
		*s = Scan{}
		return &SyntaxError{m.bad.Offset, m.bad.What}
	}
	return nil
}

// Body returns the scanned body.
func (s *Scan) Body() []byte { return s.body }

// Span returns where the value of a field is; zero when the field is absent.
func (s *Scan) Span(f Field) Span { return s.spans[f] }

// Raw returns the value of a field as it is written, or nil when it is absent. It
// is a part of the body.
func (s *Scan) Raw(f Field) []byte {
	p := s.spans[f]
	if p.End == 0 {
		return nil
	}
	return s.body[p.Start:p.End:p.End]
}

// Text returns the value of a field that is a string; "" for anything else.
func (s *Scan) Text(f Field) string {
	t, _ := textOf(s.Raw(f))
	return t
}

// Model returns the model that the request names, or "".
func (s *Scan) Model() string { return s.Text(FieldModel) }

// Stream says whether the request asks for a stream. An engine may read more than
// true as yes; what the answer is, its content type says.
func (s *Scan) Stream() bool { return string(s.Raw(FieldStream)) == "true" }

// MaxTokens returns the most tokens that the request lets the answer have, or -1
// when it states none. The newer names win over max_tokens.
func (s *Scan) MaxTokens() int {
	for _, f := range [...]Field{FieldMaxCompletionTokens, FieldMaxOutputTokens, FieldMaxTokens} {
		if n := intOf(s.Raw(f)); n >= 0 {
			return n
		}
	}
	return -1
}

// PromptBytes returns the size of the parts of the body that make the prompt.
func (s *Scan) PromptBytes() int {
	n := 0
	for _, f := range [...]Field{
		FieldTools, FieldSystem, FieldInstructions, FieldMessages, FieldInput, FieldPrompt,
	} {
		n += s.spans[f].Len()
	}
	return n
}

// IncludeUsage says what the request's stream_options say of usage: whether
// include_usage is there and whether it is true.
func (s *Scan) IncludeUsage() (value, present bool) {
	raw, ok := member(s.Raw(FieldStreamOptions), "include_usage")
	return string(raw) == "true", ok
}

// CutContextSuffix cuts the [1m] or [2m] that Claude Code puts after the name of a
// model to ask for a long context.
func CutContextSuffix(model string) string {
	if n := len(model) - len("[1m]"); n > 0 {
		switch model[n:] {
		case "[1m]", "[2m]", "[1M]", "[2M]":
			return model[:n]
		}
	}
	return model
}

// member returns the raw value of the last member called name of an object; false
// when obj is not an object or has none. An object that breaks off gives what was
// read before.
func member(obj []byte, name string) (val []byte, ok bool) {
	m := membersOf(obj, 0)
	for m.next() {
		if string(m.key) == name {
			val, ok = obj[m.val.Start:m.val.End], true
		}
	}
	return val, ok
}

// memberText returns the last member called name when it is a string, else "".
func memberText(obj []byte, name string) string {
	raw, _ := member(obj, name)
	t, _ := textOf(raw)
	return t
}

// textOf decodes a JSON string; false for any other value.
func textOf(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	in := raw[1 : len(raw)-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return string(in), true
	}
	return string(appendUnescaped(nil, in)), true
}

// intOf reads a JSON number that is a whole number from 0 up; -1 for anything else.
func intOf(raw []byte) int {
	if len(raw) == 0 || len(raw) > 18 {
		return -1
	}
	n := 0
	for _, c := range raw {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}
