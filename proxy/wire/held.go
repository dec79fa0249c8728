package wire

import "bytes"

// held are the chunks that end a choice and wait for the chunk of usage. vLLM puts its
// system_fingerprint on the last chunks of a stream: on each one that ends a choice, or,
// when it is asked for usage, on the chunk that carries it. Where the proxy asks in the
// client's place, the member therefore goes back to where the client would have had it.
//
// With one choice nothing waits for that: an engine sends the chunk of usage in the same
// moment. With several, the last chunk of a choice that ends early waits for the others,
// whose chunks pass it.
type held struct {
	frames []byte // whole frames, as the client is to get them
	joints []int  // where a member can be added: the closing brace of each one's data
}

// keep takes a frame whose object closes at raw[brace]; false when there is no room for
// it.
func (h *held) keep(frame []byte, brace int) bool {
	if len(h.frames)+len(frame) > maxFrame {
		return false
	}
	h.joints = append(h.joints, len(h.frames)+brace)
	h.frames = append(h.frames, frame...)
	return true
}

// release appends the frames to dst, each with the fingerprint, a JSON value, unless it
// is nil.
func (h *held) release(dst, fingerprint []byte) []byte {
	at := 0
	for _, joint := range h.joints {
		dst = append(dst, h.frames[at:joint]...)
		if fingerprint != nil {
			dst = append(append(dst, `,"system_fingerprint":`...), fingerprint...)
		}
		at = joint
	}
	dst = append(dst, h.frames[at:]...)
	h.frames, h.joints = h.frames[:0], h.joints[:0]
	return dst
}

// Held returns the whole frames that still wait for a chunk of usage, and forgets them.
// When the upstream ends or is cut before that chunk, the client gets them as they are:
// before what [Stream.Close] returns, and before any error event.
func (s *Stream) Held() []byte {
	s.out = s.held.release(s.out[:0], nil)
	return s.out
}

// settle deals with a chunk on a stream whose usage the client did not ask for. It
// returns false when the client gets the chunk now.
func (s *Stream) settle(kind chunkKind, raw []byte) bool {
	switch {
	case s.unasked:
		return false
	case kind == chunkCounted:
		// Nobody asked for usage on every chunk: the engine sends it to everybody, with a
		// chunk of it at the end, and so it does to a client of its own.
		s.unasked = true
	case kind == chunkUsage:
		value, _ := member(s.ev.data, "system_fingerprint")
		if len(value) == 0 || value[0] != '"' {
			value = nil
		}
		s.out = s.held.release(s.out, value)
		return true
	case kind == chunkLast:
		return s.holdBack(raw)
	}
	if kind != chunkPlain {
		s.out = s.held.release(s.out, nil)
	}
	return false
}

// holdBack keeps a chunk that ends a choice, if its place for a fingerprint is free.
func (s *Stream) holdBack(raw []byte) bool {
	brace, ok := closingBrace(s.ev.data)
	if !ok {
		return false
	}
	place, ok := s.ev.rawSpan(Span{brace, brace + 1})
	if !ok {
		return false
	}
	frame, tail := raw, len(raw)-place.Start
	if s.opt.Requested != "" {
		s.renamed = s.rename(s.renamed[:0], raw)
		frame = s.renamed
	}
	return s.held.keep(frame, len(frame)-tail)
}

// closingBrace returns where the object of a chunk closes; false when it is broken, or
// says its fingerprint itself.
func closingBrace(data []byte) (at int, ok bool) {
	if bytes.Contains(data, keyFingerprint) {
		return 0, false
	}
	m, count := membersOf(data, 0), 0
	for m.next() {
		count++
	}
	return m.i - 1, count > 0 && m.bad.What == ""
}
