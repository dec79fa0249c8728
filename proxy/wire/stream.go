package wire

import "bytes"

// maxFrame bounds the bytes of one frame that a stream keeps, 8 MiB. A longer frame
// is passed on unread.
const maxFrame = 8 << 20

// StreamOptions say what a stream changes. The zero value changes nothing.
type StreamOptions struct {
	// DropUsage drops the chunk that carries only usage, since [Rewrite] and not the
	// client asked for it. The fingerprint of the engine, which vLLM puts there, goes to
	// the chunks where the client would have had it.
	DropUsage bool
	// Requested is the model name that the client asked for, to put in place of the
	// served one; "" leaves names alone.
	Requested string
	// Served is the name that the engine knows, to be found in error messages; may be "".
	Served string
	// Answer collects the answer for the chain, when it is not nil.
	Answer *Answer
}

// Stream follows one SSE answer. Feed it what the upstream sends with Write and give
// the client what Write returns; call Close at the end of the upstream. It is not
// safe for concurrent use.
//
// When nothing is to be changed, Write returns its argument: bytes never wait.
// Otherwise whole frames are passed on and the beginning of an unfinished one waits; with
// DropUsage the chunk that ends a choice waits for the chunk of usage behind it.
type Stream struct {
	api   API
	opt   StreamOptions
	state State
	cut   cutter
	ev    event
	edits []edit
	buf   []byte // beginning of the current frame
	out   []byte // what Write returns, when it is not its argument
	over  bool   // the current frame is too long to keep
	mid   bool   // the client has part of a frame

	held    held   // chunks that wait for the one of usage
	renamed []byte // room for one of them
	unasked bool   // the engine sends usage to everybody
}

// NewStream returns a stream for the answer of one request.
func NewStream(api API, o StreamOptions) *Stream {
	return &Stream{api: api, opt: o, state: State{Usage: NoUsage()}}
}

// State returns what has been seen so far.
func (s *Stream) State() State { return s.state }

// MidFrame says whether what Write has returned ends inside a frame. A blank line
// must then come before any frame of ours.
func (s *Stream) MidFrame() bool { return s.mid }

// changes says whether bytes may be changed.
func (s *Stream) changes() bool { return s.opt.DropUsage || s.opt.Requested != "" }

// Write takes the next bytes of the upstream and returns those for the client. What
// it returns is valid until the next call and may be p itself.
func (s *Stream) Write(p []byte) []byte {
	all := p
	s.out = s.out[:0]
	if n := len(s.buf) + len(p); s.changes() && cap(s.out) < n {
		s.out = make([]byte, 0, n+len(s.opt.Requested)) // once, instead of frame by frame
	}
	for {
		n := s.cut.cut(p)
		if n < 0 {
			break
		}
		s.end(p[:n])
		p = p[n:]
		s.mid = false
	}
	s.hold(p)
	if s.changes() {
		return s.out
	}
	if len(p) > 0 {
		s.mid = true
	}
	return all
}

// Close says that the upstream has ended. It returns the bytes that still waited: a
// last frame without a blank line counts as a frame when its data is whole. When the
// upstream was cut, call Close for what [Stream.State] then says, and give the client
// what [Stream.Held] returned before and an error frame instead of the bytes.
func (s *Stream) Close() []byte {
	s.out = s.out[:0]
	if len(s.buf) > 0 {
		s.ev.parse(s.buf)
		if s.ev.has && !wholeData(s.ev.data) {
			s.out = s.held.release(s.out, nil)
			s.pass(s.buf)
		} else {
			s.frame(s.buf)
		}
		s.buf = s.buf[:0]
	}
	s.out = s.held.release(s.out, nil)
	return s.out
}

// wholeData says whether the data of a frame is all there: an end marker, or an
// object that is closed. The figures of half a frame may be halves themselves.
func wholeData(data []byte) bool {
	if bytes.Equal(bytes.TrimSpace(data), doneMarker) {
		return true
	}
	m := membersOf(data, 0)
	for m.next() {
	}
	return m.bad.What == ""
}

// hold keeps the beginning of a frame.
func (s *Stream) hold(p []byte) {
	if len(p) == 0 {
		return
	}
	if s.over || len(s.buf)+len(p) > maxFrame {
		s.over, s.mid = true, true
		s.out = s.held.release(s.out, nil)
		s.pass(s.buf)
		s.pass(p)
		s.buf = s.buf[:0]
		return
	}
	s.buf = append(s.buf, p...)
}

// pass puts bytes to the output, when the output is not Write's own argument.
func (s *Stream) pass(p []byte) {
	if s.changes() {
		s.out = append(s.out, p...)
	}
}

// end takes the last bytes of a frame and deals with the frame.
func (s *Stream) end(p []byte) {
	if s.over {
		s.pass(p)
		s.over = false
		return
	}
	raw := p
	if len(s.buf) > 0 {
		s.buf = append(s.buf, p...)
		raw = s.buf
	}
	s.frame(raw)
	s.buf = s.buf[:0]
}

// frame reads a whole frame and puts what is left of it to the output.
func (s *Stream) frame(raw []byte) {
	s.ev.parse(raw)
	if !s.ev.has {
		s.pass(raw)
		return
	}
	kind := s.state.see(s.api, &s.ev)
	if s.opt.Answer != nil && kind != chunkUsage {
		s.opt.Answer.event(s.api, &s.ev)
	}
	if s.opt.DropUsage && s.settle(kind, raw) {
		return
	}
	if s.opt.Requested == "" {
		s.pass(raw)
		return
	}
	s.out = s.rename(s.out, raw)
}

// rename appends the current frame to dst with the requested name of the model in it.
func (s *Stream) rename(dst, raw []byte) []byte {
	s.edits = modelEdits(s.edits[:0], s.ev.data, s.opt.Requested, s.opt.Served)
	kept := s.edits[:0]
	for _, e := range s.edits {
		if p, ok := s.ev.rawSpan(e.Span); ok {
			kept = append(kept, edit{p, e.text})
		}
	}
	return apply(dst, raw, kept)
}
