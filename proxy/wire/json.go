package wire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// members walks the members of one JSON object without building anything:
//
//	m := membersOf(obj, 0)
//	for m.next() { use m.key, obj[m.val.Start:m.val.End] }
//
// It never recurses: strings are skipped from quote to quote and containers by
// counting depth, so what is inside a value is not checked.
type members struct {
	b     []byte
	i     int    // where to go on; after the end, behind the object
	key   []byte // unescaped name of the current member
	val   Span   // its value
	state uint8
	bad   SyntaxError // what is wrong; What is empty when nothing is
}

// The states of a walk.
const (
	walkFirst uint8 = iota // behind the opening bracket
	walkMore               // behind a member
	walkEnd                // behind the closing bracket, or broken
)

// membersOf begins a walk at b[i:].
func membersOf(b []byte, i int) members {
	m := members{b: b, i: skipSpace(b, i)}
	switch {
	case m.i >= len(b):
		m.fail(len(b), "it is empty")
	case b[m.i] != '{':
		m.fail(m.i, "it does not begin with a brace")
	default:
		m.i++
	}
	return m
}

// next goes to the next member; false at the end or at an error.
func (m *members) next() bool {
	if m.state == walkEnd {
		return false
	}
	b, i := m.b, skipSpace(m.b, m.i)
	if i < len(b) && b[i] == '}' {
		m.i, m.state = i+1, walkEnd
		return false
	}
	if m.state == walkMore {
		if i >= len(b) || b[i] != ',' {
			return m.fail(i, "a comma or the end of the object is missing")
		}
		i = skipSpace(b, i+1)
	}
	if i >= len(b) || b[i] != '"' {
		return m.fail(i, "the name of a member is missing")
	}
	end := skipString(b, i)
	if end < 0 {
		return m.fail(len(b), "a string does not end")
	}
	m.key = b[i+1 : end-1]
	if bytes.IndexByte(m.key, '\\') >= 0 {
		m.key = appendUnescaped(nil, m.key)
	}
	i = skipSpace(b, end)
	if i >= len(b) || b[i] != ':' {
		return m.fail(i, "a colon is missing")
	}
	i = skipSpace(b, i+1)
	end = skipValue(b, i)
	if end < 0 {
		return m.fail(min(-end-1, len(b)), "a value is missing or does not end")
	}
	m.val, m.i, m.state = Span{i, end}, end, walkMore
	return true
}

// fail ends the walk with an error.
func (m *members) fail(at int, what string) bool {
	m.bad, m.state = SyntaxError{at, what}, walkEnd
	return false
}

// elements walks the elements of one JSON array the way members walks an object.
type elements struct {
	b     []byte
	i     int
	val   Span
	state uint8
}

// elementsOf begins a walk over arr; a value that is no array has no elements.
func elementsOf(arr []byte) elements {
	e := elements{b: arr, i: skipSpace(arr, 0)}
	if e.i >= len(arr) || arr[e.i] != '[' {
		e.state = walkEnd
	}
	e.i++
	return e
}

// next goes to the next element; false at the end or where the array is broken.
func (e *elements) next() bool {
	if e.state == walkEnd {
		return false
	}
	b, i := e.b, skipSpace(e.b, e.i)
	if e.state == walkMore {
		if i >= len(b) || b[i] != ',' {
			e.state = walkEnd
			return false
		}
		i = skipSpace(b, i+1)
	}
	end := skipValue(b, i)
	if end < 0 {
		e.state = walkEnd
		return false
	}
	e.val, e.i, e.state = Span{i, end}, end, walkMore
	return true
}

// value returns the current element as it is written.
func (e *elements) value() []byte { return e.b[e.val.Start:e.val.End] }

// skipSpace returns the first place from i on that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the place behind the string that begins at b[i], or -1 when
// it does not end. A quote ends it when an even number of backslashes is before it.
func skipString(b []byte, i int) int {
	start := i + 1
	for i = start; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		slashes := i
		for slashes > start && b[slashes-1] == '\\' {
			slashes--
		}
		if (i-slashes)%2 == 0 {
			return i + 1
		}
	}
}

// skipValue returns the place behind the value that begins at b[i]. When there is
// none or it does not end, it returns -1 minus the place of the fault.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1 - i
	}
	switch b[i] {
	case '"':
		if end := skipString(b, i); end > 0 {
			return end
		}
		return -1 - len(b)
	case '{', '[':
		return skipContainer(b, i)
	}
	return skipScalar(b, i)
}

// skipContainer returns the place behind the object or array that begins at b[i],
// or -1 minus the length of b when it does not end.
func skipContainer(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = skipString(b, i); i < 0 {
				return -1 - len(b)
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1 - len(b)
}

// skipScalar returns the place behind the number or literal that begins at b[i].
// Numbers are taken by their alphabet, since the engine checks them again.
func skipScalar(b []byte, i int) int {
	for _, lit := range [...]string{"true", "false", "null"} {
		if b[i] == lit[0] {
			if len(b)-i >= len(lit) && string(b[i:i+len(lit)]) == lit {
				return i + len(lit)
			}
			return -1 - i
		}
	}
	end := i
	for end < len(b) && isNumberByte(b[end]) {
		end++
	}
	if end == i {
		return -1 - i
	}
	return end
}

// isNumberByte says whether a byte may be part of a number.
func isNumberByte(c byte) bool {
	return '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// appendUnescaped appends the text of a JSON string, given without its quotes.
// What is no valid escape becomes U+FFFD, as in encoding/json's lenient places.
func appendUnescaped(dst, in []byte) []byte {
	for {
		n := bytes.IndexByte(in, '\\')
		if n < 0 {
			return append(dst, in...)
		}
		dst = append(dst, in[:n]...)
		if in = in[n+1:]; len(in) == 0 {
			return dst
		}
		c := in[0]
		in = in[1:]
		switch c {
		case '"', '\\', '/':
			dst = append(dst, c)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			var r rune
			r, in = unescapeRune(in)
			dst = utf8.AppendRune(dst, r)
		default:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
	}
}

// unescapeRune reads the four hex digits after \u, and the second half of a
// surrogate pair when it follows. It returns the rest.
func unescapeRune(in []byte) (rune, []byte) {
	r := hex4(in)
	if r < 0 {
		return utf8.RuneError, in
	}
	in = in[4:]
	if !utf16.IsSurrogate(r) {
		return r, in
	}
	if len(in) >= 6 && in[0] == '\\' && in[1] == 'u' {
		if full := utf16.DecodeRune(r, hex4(in[2:])); full != utf8.RuneError {
			return full, in[6:]
		}
	}
	return utf8.RuneError, in
}

// hex4 reads four hex digits; -1 when they are not there.
func hex4(in []byte) rune {
	if len(in) < 4 {
		return -1
	}
	var r rune
	for _, c := range in[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
