package wire

import "bytes"

// classify finds side calls and compactions. A side call carries the id of its
// conversation but has a prompt of its own.
func (r *reader) classify() {
	if !r.api.Generates() {
		r.id.Kind = KindSide
		return
	}
	r.id.Compacted = r.hdr.v[hdrClaudeCompacted] != ""
	r.id.Compaction = r.hdr.v[hdrClaudeCompaction] != "" || r.hdr.v[hdrDeepseekCompact] == "1" ||
		r.hdr.v[hdrCodexSubagent] == "compact"
	switch r.hdr.v[hdrClaudeClass] {
	case "auxiliary":
		r.id.Kind = KindSide
		return
	case "compaction":
		r.id.Compaction = true
		return
	case "main", "subagent", "workflow":
		return
	}
	if r.codexSide() || hasPrefixFold(r.value, "oneshot-") || r.sideShape() {
		r.id.Kind = KindSide
	}
}

// codexSide says whether Codex itself calls this request a side matter. Its prewarm
// request is none: it should make the pin.
func (r *reader) codexSide() bool {
	if r.hdr.v[hdrCodexSubagent] == "memory_consolidation" {
		return true
	}
	turn := []byte(r.hdr.v[hdrCodexTurn])
	if len(turn) == 0 {
		turn = []byte(memberText(r.s.Raw(FieldClientMetadata), codexTurn))
	}
	if len(turn) == 0 {
		return false
	}
	switch memberText(turn, "request_kind") {
	case "memory":
		return true
	case "compaction":
		r.id.Compaction = true
	}
	return false
}

// sideShape recognizes side calls by what they ask. It looks only at requests that
// name a conversation: without an id nothing is lost by taking them for turns.
func (r *reader) sideShape() bool {
	if r.id.Key == "" {
		return false
	}
	switch r.api {
	case APIMessages:
		return r.claudeShape()
	case APIChat:
		return r.chatShape()
	}
	return false
}

// claudeShape knows the side calls of Claude Code. Their wording moves with its
// versions, so few and telling words are asked for.
func (r *reader) claudeShape() bool {
	if Product(r.hdr.v[hdrUserAgent]) != "claude-cli" &&
		r.id.Source != SourceClaudeHeader && r.id.Source != SourceClaudeMetadata {
		return false
	}
	messages := r.s.Raw(FieldMessages)
	if suggestion(messages) {
		return true
	}
	if hasTools(r.s) {
		return false
	}
	// A classifier looks at a transcript instead of having one.
	if bytes.Contains(messages, []byte("<transcript>")) && !answered(messages) &&
		(bytes.Contains(messages, []byte("block")) || bytes.Contains(r.s.Raw(FieldSystem), []byte("block"))) {
		return true
	}
	turn, ok := loneUserTurn(messages)
	if !ok {
		return false
	}
	if r.s.MaxTokens() == 1 && bytes.Contains(turn, []byte("quota")) {
		return true
	}
	if bytes.Contains(turn, []byte("Command:")) &&
		(bytes.Contains(turn, []byte("<policy_spec>")) || bytes.Contains(turn, []byte("Output:"))) {
		return true
	}
	return titlePrompt(r.s.Raw(FieldSystem))
}

// titlePrompt says whether a system text asks for the title of a session.
func titlePrompt(system []byte) bool {
	for _, words := range [...][2]string{
		{"sentence-case title", ""},
		{"eturn JSON", "title"},
		{"new conversation topic", ""},
		{"word title", "5-10"},
	} {
		if bytes.Contains(system, []byte(words[0])) && bytes.Contains(system, []byte(words[1])) {
			return true
		}
	}
	return false
}

// chatShape knows the side calls of chat clients: titles of OpenCode, and the tasks
// of Open WebUI. They have no tools and a fixed beginning, and nothing was answered yet:
// a person may begin a conversation with the same words.
func (r *reader) chatShape() bool {
	if hasTools(r.s) {
		return false
	}
	e := elementsOf(r.s.Raw(FieldMessages))
	for n := 0; n < 3 && e.next(); n++ {
		if memberText(e.value(), "role") != "user" {
			continue
		}
		content, _ := member(e.value(), "content")
		text := firstTextPart(content)
		if !bytes.HasPrefix(text, []byte("Generate a title")) && !bytes.HasPrefix(text, []byte("### Task:")) {
			return false
		}
		return !answered(r.s.Raw(FieldMessages))
	}
	return false
}

// firstTextPart returns the beginning of a content, a string or an array of parts,
// as it is written, without the quote.
func firstTextPart(content []byte) []byte {
	if len(content) > 0 && content[0] == '[' {
		e := elementsOf(content)
		if !e.next() {
			return nil
		}
		content, _ = member(e.value(), "text")
	}
	return bytes.TrimLeft(content, `"`)
}

// hasTools says whether a request offers tools.
func hasTools(s *Scan) bool {
	e := elementsOf(s.Raw(FieldTools))
	return e.next()
}

// answered says whether a user's message follows an answer: then the request is a later turn
// of a conversation. An answer at the end is the beginning of the one that is asked for.
func answered(messages []byte) bool {
	answer := false
	e := elementsOf(messages)
	for e.next() {
		switch memberText(e.value(), "role") {
		case "assistant":
			answer = true
		case "user":
			if answer {
				return true
			}
		}
	}
	return false
}

// loneUserTurn returns the only message of a request when it is the user's. System
// entries among the messages do not count.
func loneUserTurn(messages []byte) ([]byte, bool) {
	var turn []byte
	e := elementsOf(messages)
	for e.next() {
		switch memberText(e.value(), "role") {
		case "system":
		case "user":
			if turn != nil {
				return nil, false
			}
			turn = e.value()
		default:
			return nil, false
		}
	}
	return turn, turn != nil
}

var (
	suggestionMark = []byte("[SUGGESTION MODE:")
	assistantRole  = []byte(`"role":"assistant"`)
)

// suggestion says whether the last text of the messages asks for a suggestion of
// the user's next prompt. It follows the whole history, so only the end is read.
func suggestion(messages []byte) bool {
	const tail = 16 << 10
	end := messages[max(0, len(messages)-tail):]
	found := false
	for {
		i := bytes.Index(end, suggestionMark)
		if i < 0 {
			return found && !bytes.Contains(end, assistantRole)
		}
		found = i > 1 && end[i-1] == '"' && end[i-2] != '\\' // a text begins here, not a quotation
		end = end[i+len(suggestionMark):]
	}
}
