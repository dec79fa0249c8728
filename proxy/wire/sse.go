package wire

import "bytes"

// event is one SSE frame, taken apart. Its parts refer to raw.
type event struct {
	raw  []byte // all bytes, with the blank line that ends it
	name []byte // value of the event field
	data []byte // values of the data fields, joined by a newline
	has  bool   // a data field is there

	lines  []dataLine // where the lines of data lie, when there is more than one
	joined []byte     // room for joining
}

// dataLine says where one line of joined data lies in raw.
type dataLine struct{ data, raw, n int }

// parse takes a frame apart. What it held before is overwritten.
func (e *event) parse(raw []byte) {
	*e = event{raw: raw, lines: e.lines[:0], joined: e.joined[:0]}
	for i := 0; i < len(raw); {
		n := indexEOL(raw[i:])
		if n < 0 {
			n = len(raw) - i
		}
		e.line(i, raw[i:i+n])
		i += n + 1 // the second byte of a CRLF makes an empty line, which says nothing
	}
	if len(e.lines) == 1 {
		l := e.lines[0]
		e.data = raw[l.raw : l.raw+l.n]
	} else if e.has {
		e.data = e.joined
	}
}

// line takes one line that begins at raw[at:].
func (e *event) line(at int, line []byte) {
	name, value, found := bytes.Cut(line, []byte(":"))
	start := at + len(name)
	if found { // else the line may be all there is, and nothing lies behind it
		start++
	}
	if len(value) > 0 && value[0] == ' ' {
		value, start = value[1:], start+1
	}
	switch string(name) {
	case "event":
		e.name = value
	case "data":
		e.has = true
		if len(e.lines) > 0 {
			if len(e.lines) == 1 {
				e.joined = append(e.joined, e.raw[e.lines[0].raw:e.lines[0].raw+e.lines[0].n]...)
			}
			e.joined = append(e.joined, '\n')
		}
		e.lines = append(e.lines, dataLine{len(e.joined), start, len(value)})
		if len(e.lines) > 1 {
			e.joined = append(e.joined, value...)
		}
	}
}

// rawSpan says where a part of data lies in raw; false when it crosses lines, which
// no JSON string does.
func (e *event) rawSpan(p Span) (Span, bool) {
	for i, l := range e.lines {
		at := l.data
		if i == 0 {
			at = 0
		}
		if p.Start >= at && p.End <= at+l.n {
			return Span{l.raw + p.Start - at, l.raw + p.End - at}, true
		}
	}
	return Span{}, false
}

// cutter finds the ends of frames in bytes that come in any pieces. A frame ends
// with an empty line; a line ends with LF, CRLF or CR.
type cutter struct {
	dirty bool // something is on the current line
	cr    bool // the last byte was the CR of a line's end, and an LF may follow
	blank bool // that line was empty
}

// cut returns how many bytes of p belong to the current frame when it ends in p, or
// -1 when it goes on behind p. It may return 0: then the frame ended before p.
func (c *cutter) cut(p []byte) int {
	i := 0
	if c.cr && len(p) > 0 {
		if p[0] == '\n' {
			i = 1
		}
		c.cr = false
		if c.blank {
			c.blank = false
			return i
		}
	}
	for i < len(p) {
		n := indexEOL(p[i:])
		if n < 0 {
			c.dirty = true
			return -1
		}
		i += n
		blank := !c.dirty && n == 0
		c.dirty = false
		if p[i] == '\r' {
			if i+1 == len(p) {
				c.cr, c.blank = true, blank
				return -1
			}
			if p[i+1] == '\n' {
				i++
			}
		}
		i++
		if blank {
			return i
		}
	}
	return -1
}

// indexEOL returns where the first LF or CR is, or -1.
func indexEOL(b []byte) int {
	n := bytes.IndexByte(b, '\n')
	if n >= 0 {
		b = b[:n]
	}
	if r := bytes.IndexByte(b, '\r'); r >= 0 {
		return r
	}
	return n
}
