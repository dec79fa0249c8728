package wire

import "bytes"

// Usage is what an engine reports of one request, in tokens; -1 means that it did
// not report the figure, which is not the same as 0.
type Usage struct {
	Prompt     int // the whole prompt, with what was cached
	Cached     int // the part of the prompt that was in the cache
	Completion int // the answer
}

// NoUsage is the usage of an engine that reported nothing.
func NoUsage() Usage { return Usage{-1, -1, -1} }

// ReadUsage reads the usage of a whole answer.
func ReadUsage(api API, body []byte) Usage {
	u := NoUsage()
	raw, _ := member(body, "usage")
	u.read(api, raw)
	return u
}

// ReadResponseID returns the id of a whole answer, or "".
func ReadResponseID(body []byte) string { return memberText(body, "id") }

// read takes the figures of one usage object; those that it lacks stay.
func (u *Usage) read(api API, obj []byte) {
	switch {
	case len(obj) == 0 || obj[0] != '{':
	case api.Anthropic():
		u.readMessages(obj)
	default:
		u.readOpenAI(obj)
	}
}

// readOpenAI reads both families of names: prompt_tokens and completion_tokens of
// chat and completions, input_tokens and output_tokens of responses.
func (u *Usage) readOpenAI(obj []byte) {
	m := membersOf(obj, 0)
	for m.next() {
		v := obj[m.val.Start:m.val.End]
		switch string(m.key) {
		case "prompt_tokens", "input_tokens":
			set(&u.Prompt, v)
		case "completion_tokens", "output_tokens":
			set(&u.Completion, v)
		case "prompt_tokens_details", "input_tokens_details":
			cached, _ := member(v, "cached_tokens")
			set(&u.Cached, cached)
		}
	}
}

// readMessages reads Anthropic's names. The prompt is the sum of three figures; an
// event that states none of them leaves the earlier sum.
func (u *Usage) readMessages(obj []byte) {
	input, created, read := -1, -1, -1
	m := membersOf(obj, 0)
	for m.next() {
		v := obj[m.val.Start:m.val.End]
		switch string(m.key) {
		case "input_tokens":
			set(&input, v)
		case "cache_creation_input_tokens":
			set(&created, v)
		case "cache_read_input_tokens":
			set(&read, v)
		case "output_tokens":
			set(&u.Completion, v)
		}
	}
	if input >= 0 {
		u.Prompt = input + max(created, 0) + max(read, 0)
	}
	if read >= 0 {
		u.Cached = read
	}
}

// set overwrites a figure when raw is one.
func set(dst *int, raw []byte) {
	if n := intOf(raw); n >= 0 {
		*dst = n
	}
}

// State is what a [Stream] has seen so far.
type State struct {
	Usage Usage
	// First is true once the first event came that the engine made: not a comment, a
	// ping, an announcement of the responses surface or an error.
	First bool
	// Events counts these from the first one on. An engine sends at least one for each
	// step in which it made tokens.
	Events int
	// Finish is true once the answer said why it ended; Done once the end marker of the
	// surface came. A stream that ends without Done was cut.
	Finish, Done bool
	// Failed is true once an error event came.
	Failed bool
	// ResponseID is the id that the responses surface announced, or "".
	ResponseID string
	// Sequence is the number that the next event of the responses surface has; 0 on the
	// others.
	Sequence int
}

var (
	keyUsage     = []byte(`"usage"`)
	keyFinish    = []byte(`"finish_reason"`)
	keyStop      = []byte(`"stop_reason"`)
	keyError     = []byte(`"error"`)
	keyModel     = []byte(`"model"`)
	doneMarker   = []byte("[DONE]")
	emptyChoices = []byte("[]")

	keyFingerprint = []byte(`"system_fingerprint"`)
)

// chunkKind says what an event of chat or completions is for.
type chunkKind uint8

const (
	chunkPlain   chunkKind = iota // tokens of a choice, or an event of another surface
	chunkLast                     // the end of a choice
	chunkCounted                  // either of these with usage on it
	chunkUsage                    // nothing but usage
	chunkEnd                      // the end of the stream, or an error
)

// see takes notice of one event with data, and says what it is for. Needles are looked
// for before anything is parsed: a key inside a JSON string has a backslash before its
// quote and is not found.
func (s *State) see(api API, e *event) chunkKind {
	switch api {
	case APIMessages, APICountTokens:
		s.seeMessages(e)
	case APIResponses, APIResponseGet:
		s.seeResponses(e)
	default:
		return s.seeChunk(api, e.data)
	}
	return chunkPlain
}

// made notes an event that the engine made.
func (s *State) made() { s.First, s.Events = true, s.Events+1 }

// seeChunk notes a chunk of chat or completions.
func (s *State) seeChunk(api API, data []byte) chunkKind {
	if bytes.Equal(bytes.TrimSpace(data), doneMarker) {
		s.Done = true
		return chunkEnd
	}
	if indexKey(data, keyError, len(`"e`)) >= 0 {
		if raw, ok := member(data, "error"); ok && string(raw) != "null" {
			s.Failed = true
			return chunkEnd
		}
	}
	s.made()
	kind := chunkPlain
	if finished(data) {
		s.Finish, kind = true, chunkLast
	}
	if indexKey(data, keyUsage, len(`"`)) < 0 {
		return kind
	}
	var usage, choices []byte
	m := membersOf(data, 0)
	for m.next() {
		switch string(m.key) {
		case "usage":
			usage = data[m.val.Start:m.val.End]
		case "choices":
			choices = data[m.val.Start:m.val.End]
		}
	}
	s.Usage.read(api, usage)
	switch {
	case len(usage) == 0 || usage[0] != '{' || len(choices) == 0:
		return kind
	case emptyArray(choices):
		return chunkUsage
	}
	return chunkCounted
}

// emptyArray says whether raw is an array without elements.
func emptyArray(raw []byte) bool {
	if bytes.Equal(raw, emptyChoices) {
		return true
	}
	return len(raw) > 2 && raw[0] == '[' && raw[skipSpace(raw, 1)] == ']'
}

// indexKey returns where key is in data; -1 when it is not. It looks for what is behind the
// first bytes of key, of which there are many in any chunk: a search for a quote stops at
// each of them, and this is done for each chunk.
func indexKey(data, key []byte, behind int) int {
	for at := behind; at < len(data); at++ {
		i := bytes.Index(data[at:], key[behind:])
		if i < 0 {
			return -1
		}
		if at += i; bytes.Equal(data[at-behind:at], key[:behind]) {
			return at - behind
		}
	}
	return -1
}

// finished says whether a choice of a chunk has a reason to be finished: whether
// one of its finish_reason members is a string. Most chunks have it as null, so they
// are not parsed for it.
func finished(data []byte) bool {
	for {
		i := indexKey(data, keyFinish, len(`"`))
		if i < 0 {
			return false
		}
		data = data[i+len(keyFinish):]
		at := skipSpace(data, 0)
		if at < len(data) && data[at] == ':' {
			if at = skipSpace(data, at+1); at < len(data) && data[at] == '"' {
				return true
			}
		}
	}
}

// typeOf returns the type of an event of the messages and responses surfaces: the
// event field, else the member of the data.
func typeOf(e *event) string {
	if len(e.name) > 0 {
		return eventType(e.name)
	}
	raw, _ := member(e.data, "type")
	if len(raw) < 2 {
		return ""
	}
	return eventType(raw[1 : len(raw)-1])
}

// eventType returns those types that matter, without making a string.
func eventType(b []byte) string {
	for _, t := range [...]string{
		"content_block_delta", "content_block_start",
		"message_start", "message_delta", "message_stop", "ping", "error",
		"response.created", "response.in_progress", "response.queued",
		"response.completed", "response.incomplete", "response.failed",
	} {
		if string(b) == t {
			return t
		}
	}
	return ""
}

// seeMessages notes an event of the messages surface.
func (s *State) seeMessages(e *event) {
	switch typeOf(e) {
	case "ping":
		return
	case "error":
		s.Failed = true
		return
	case "message_start":
		message, _ := member(e.data, "message")
		usage, _ := member(message, "usage")
		s.Usage.read(APIMessages, usage)
	case "message_delta":
		if bytes.Contains(e.data, keyUsage) {
			usage, _ := member(e.data, "usage")
			s.Usage.read(APIMessages, usage)
		}
		if !s.Finish && bytes.Contains(e.data, keyStop) {
			delta, _ := member(e.data, "delta")
			s.Finish = memberText(delta, "stop_reason") != ""
		}
	case "message_stop":
		s.Finish, s.Done = true, true
	}
	if bytes.Equal(bytes.TrimSpace(e.data), doneMarker) {
		s.Done = true // not of this surface, but engines send it
		return
	}
	s.made()
}

// seeResponses notes an event of the responses surface.
func (s *State) seeResponses(e *event) {
	if raw, ok := member(e.data, "sequence_number"); ok {
		s.Sequence = max(s.Sequence, intOf(raw)+1)
	}
	switch typeOf(e) {
	case "response.created", "response.in_progress", "response.queued":
		if s.ResponseID == "" {
			response, _ := member(e.data, "response")
			s.ResponseID = memberText(response, "id")
		}
		return
	case "error":
		s.Failed = true
		return
	case "response.failed":
		s.Failed, s.Done = true, true
		s.readResponse(e.data)
		return
	case "response.completed", "response.incomplete":
		s.Finish, s.Done = true, true
		s.readResponse(e.data)
	}
	if bytes.Equal(bytes.TrimSpace(e.data), doneMarker) {
		s.Done = true // not of this surface, but engines send it
		return
	}
	s.made()
}

// readResponse reads id and usage of the response that an event carries.
func (s *State) readResponse(data []byte) {
	response, _ := member(data, "response")
	usage, _ := member(response, "usage")
	s.Usage.read(APIResponses, usage)
	if s.ResponseID == "" {
		s.ResponseID = memberText(response, "id")
	}
}
