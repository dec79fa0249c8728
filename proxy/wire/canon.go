package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// maxNesting bounds how deep the canonical form looks into a value; what is deeper
// is hashed as it is written.
const maxNesting = 16

// The roles that a surface implies without saying.
var (
	roleSystem    = []byte("system")
	roleUser      = []byte("user")
	roleAssistant = []byte("assistant")
	roleTool      = []byte("tool")
)

// request makes the chain of a request.
func (c *canon) request(api API, s *Scan) {
	switch api {
	case APIChat:
		c.messages(s.Raw(FieldMessages))
	case APIMessages, APICountTokens:
		c.begin(roleSystem)
		c.text(s.Raw(FieldSystem))
		c.push(false)
		c.messages(s.Raw(FieldMessages))
	case APIResponses:
		if s.Text(FieldPreviousResponseID) != "" {
			return
		}
		c.begin(roleSystem)
		c.text(s.Raw(FieldInstructions))
		c.push(false)
		c.input(s.Raw(FieldInput))
	case APICompletions:
		c.begin(roleUser)
		c.text(s.Raw(FieldPrompt))
		c.push(true)
	}
}

// messages pushes each message of an array.
func (c *canon) messages(arr []byte) {
	for e := elementsOf(arr); e.next(); {
		c.push(c.message(e.value()))
	}
}

// input pushes the input of the responses surface: one text, or items.
func (c *canon) input(raw []byte) {
	if len(raw) > 0 && raw[0] == '"' {
		c.begin(roleUser)
		c.text(raw)
		c.push(true)
		return
	}
	for e := elementsOf(raw); e.next(); {
		c.push(c.item(e.value()))
	}
}

// leadingSystem hashes the system messages at the beginning of an array.
func (c *canon) leadingSystem(arr []byte) {
	for e := elementsOf(arr); e.next(); {
		role, _ := member(e.value(), "role")
		if string(role) != `"system"` && string(role) != `"developer"` {
			return
		}
		content, _ := member(e.value(), "content")
		c.text(content)
	}
}

// message is one message taken apart; its parts are as they are written.
type message struct{ role, content, calls, call []byte }

// messageOf takes a message apart.
func messageOf(obj []byte) (p message) {
	for m := membersOf(obj, 0); m.next(); {
		v := obj[m.val.Start:m.val.End]
		switch string(m.key) {
		case "role":
			p.role = bytes.Trim(v, `"`)
		case "content":
			p.content = v
		case "tool_calls":
			p.calls = v
		case "function_call":
			p.call = v
		}
	}
	return p
}

// isUser says whether a message is the user's.
func (p *message) isUser() bool { return string(p.role) == "user" }

// message starts a message and hashes it, up to push. It says whether it is the
// user's.
func (c *canon) message(obj []byte) (user bool) {
	m := messageOf(obj)
	c.take(&m)
	return m.isUser()
}

// take does the same with a message that was taken apart.
func (c *canon) take(p *message) {
	c.begin(p.role)
	c.text(p.content)
	for e := elementsOf(p.calls); e.next(); {
		f, _ := member(e.value(), "function")
		c.call(f, "arguments")
	}
	c.call(p.call, "arguments")
}

// item starts an item of the responses surface and hashes it, up to push.
func (c *canon) item(obj []byte) (user bool) {
	switch kind := memberText(obj, "type"); kind {
	case "", "message":
		return c.message(obj)
	case "function_call":
		c.begin(roleAssistant)
		c.call(obj, "arguments")
	case "function_call_output", "custom_tool_call_output":
		c.begin(roleTool)
		output, _ := member(obj, "output")
		c.text(output)
	case "reasoning":
		c.begin(nil)
	default:
		c.begin([]byte(kind))
		c.other(obj)
	}
	return false
}

// text hashes a content: a string, or an array of parts.
func (c *canon) text(raw []byte) { c.content(raw, 0) }

// content hashes a content at a depth.
func (c *canon) content(raw []byte, depth int) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case raw[0] == '"':
		text := raw[1 : len(raw)-1]
		if bytes.IndexByte(text, '\\') >= 0 {
			c.buf = appendUnescaped(c.buf[:0], text)
			text = c.buf
		}
		c.plain(text)
	case depth > maxNesting:
		c.raw('x', raw)
	case raw[0] == '[':
		for e := elementsOf(raw); e.next(); {
			c.part(e.value(), depth+1)
		}
	case raw[0] == '{':
		c.part(raw, depth+1)
	}
}

// part hashes one part of a content.
func (c *canon) part(raw []byte, depth int) {
	if raw[0] != '{' {
		if raw[0] == '"' {
			c.content(raw, depth)
		} else {
			c.raw('v', raw)
		}
		return
	}
	kind, _ := member(raw, "type")
	switch string(kind) {
	case `"text"`, `"input_text"`, `"output_text"`:
		t, _ := member(raw, "text")
		c.content(t, depth)
	case `"thinking"`, `"redacted_thinking"`, `"reasoning"`, `"reasoning_text"`, `"summary_text"`:
	case `"tool_use"`:
		c.call(raw, "input")
	case `"tool_result"`:
		in, _ := member(raw, "content")
		c.put('R', nil)
		c.dirty = true
		c.content(in, depth)
	default:
		c.other(raw)
	}
}

// call hashes a call of a tool: its name and its arguments, which are an object or
// a text that holds one. Anything that is no call leaves no trace.
func (c *canon) call(obj []byte, arguments string) {
	if len(obj) == 0 || obj[0] != '{' {
		return
	}
	name, _ := member(obj, "name")
	args, _ := member(obj, arguments)
	c.buf = appendUnescaped(c.buf[:0], bytes.Trim(name, `"`))
	c.put('n', c.buf)
	if len(args) > 0 && args[0] == '"' {
		c.args = appendUnescaped(c.args[:0], args[1:len(args)-1])
		args = c.args
	}
	c.arguments(args)
	c.dirty = true
}

// arguments hashes the arguments of a call, given as JSON text.
func (c *canon) arguments(args []byte) {
	var b [8]byte
	if args = bytes.TrimSpace(args); len(args) == 0 {
		args = []byte("{}") // no arguments, as some clients and engines write it
	}
	binary.LittleEndian.PutUint64(b[:], c.value(args, 0))
	c.put('a', b[:])
}

// volatile are the members of a part that differ between the answer and its echo or
// between turns.
func volatile(key []byte) bool {
	switch string(key) {
	case "cache_control", "id", "tool_call_id", "tool_use_id", "call_id", "item_id", "status", "signature":
		return true
	}
	return false
}

// other hashes a part of a kind that is not known, without its volatile members.
func (c *canon) other(obj []byte) {
	var sum uint64
	for m := membersOf(obj, 0); m.next(); {
		if !volatile(m.key) {
			sum += c.pair(m.key, obj[m.val.Start:m.val.End], 0)
		}
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], sum)
	c.raw('o', b[:])
}

// value hashes a JSON value so that the order of members and white space do not
// matter.
func (c *canon) value(raw []byte, depth int) uint64 {
	switch {
	case len(raw) == 0:
		return 0
	case raw[0] == '"' && len(raw) >= 2:
		c.buf = appendUnescaped(c.buf[:0], raw[1:len(raw)-1])
		return c.hash64('s', c.buf)
	case depth >= maxNesting:
	case raw[0] == '{':
		var sum uint64
		m := membersOf(raw, 0)
		for m.next() {
			sum += c.pair(m.key, raw[m.val.Start:m.val.End], depth+1)
		}
		if m.bad.What == "" {
			return sum ^ '{'
		}
	case raw[0] == '[':
		var b [16]byte
		for e := elementsOf(raw); e.next(); {
			binary.LittleEndian.PutUint64(b[8:], c.value(e.value(), depth+1))
			binary.LittleEndian.PutUint64(b[:], c.hash64('[', b[:]))
		}
		return binary.LittleEndian.Uint64(b[:])
	}
	return c.hash64('v', raw)
}

// pair hashes one member; the sum of its pairs is the hash of an object.
func (c *canon) pair(key, val []byte, depth int) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], c.hash64('k', key))
	binary.LittleEndian.PutUint64(b[8:], c.value(val, depth))
	return c.hash64('p', b[:])
}

// hash64 hashes a few bytes with their kind.
func (c *canon) hash64(kind byte, b []byte) uint64 {
	c.tmp = append(append(c.tmp[:0], kind), b...)
	sum := sha256.Sum256(c.tmp)
	return binary.LittleEndian.Uint64(sum[:])
}
