package wire

import "bytes"

// attributionEdit returns the edit that takes the attribution block out of the system
// text: the line in which it stands or, when its part of the text holds nothing else, the
// whole part. False when there is none.
func attributionEdit(s *Scan) (edit, bool) {
	raw, span := s.Raw(FieldSystem), s.spans[FieldSystem]
	switch {
	case len(raw) == 0:
	case raw[0] == '"':
		if n := attributionLine(raw); n > 0 {
			return edit{Span: Span{span.Start + 1, span.Start + 1 + n}}, true
		}
	case raw[0] == '[':
		return attributionPart(raw, span.Start)
	}
	return edit{}, false
}

// attributionPart looks at the first part of a system text in parts, which begins at
// byte at of the body.
func attributionPart(raw []byte, at int) (edit, bool) {
	e := elementsOf(raw)
	if !e.next() {
		return edit{}, false
	}
	part := e.val
	for m := membersOf(raw[:part.End], part.Start); m.next(); {
		if string(m.key) != "text" || raw[m.val.Start] != '"' {
			continue
		}
		text := raw[m.val.Start:m.val.End]
		n := attributionLine(text)
		switch {
		case n == 0:
			return edit{}, false
		case n < len(text)-2: // more text follows in the same part
			return edit{Span: Span{at + m.val.Start + 1, at + m.val.Start + 1 + n}}, true
		}
		end := part.End
		if next := skipSpace(raw, end); next < len(raw) && raw[next] == ',' {
			end = next + 1
		}
		return edit{Span: Span{at + part.Start, at + end}}, true
	}
	return edit{}, false
}

// attributionLine returns the length of the attribution line at the beginning of a
// quoted JSON text, with the end of the line; 0 when it does not begin with one.
func attributionLine(quoted []byte) int {
	inside := quoted[1 : len(quoted)-1]
	if !bytes.HasPrefix(inside, attribution) {
		return 0
	}
	for i := 0; i < len(inside); i++ {
		if inside[i] != '\\' {
			continue
		}
		if i+1 < len(inside) && inside[i+1] == 'n' {
			return i + 2
		}
		i++ // another escape
	}
	return len(inside)
}
