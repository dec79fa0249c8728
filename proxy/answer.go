package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/proxy/upstream"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// answer is the beginning of what an engine answers.
type answer struct {
	resp  *http.Response
	whole []byte // the body, when it is JSON of a bearable size
	flows bool   // the body is to be passed on as it comes
	first []byte // what has come of a flowing body
	err   error  // what came behind first; io.EOF at the end
	buf   *[]byte
	late  <-chan part // a read that was not waited for; nil without one

	opening wire.Opening // of a stream of events
}

// wholeLimit is the longest JSON answer that is read whole before it is passed on, in
// bytes: it has to be, to give back the model's name and to read the usage.
const wholeLimit = 64 << 20

// beginningLimit is how much of a stream is kept back while it cannot be told whether it
// was aborted, in bytes. The responses surface announces an answer by repeating the whole
// request but its input, twice.
const beginningLimit = 1 << 20

// Sizes of the pieces in which an answer is passed on, in bytes. An event is smaller; of
// all else the more at once the better. The server writes what fits into its 4 KiB, with
// what HTTP puts around it, in one call.
const (
	eventsPiece = 4<<10 - 64
	otherPiece  = 32 << 10
)

// pieces are the buffers in which answers are passed on, by size.
var pieces = map[int]*sync.Pool{eventsPiece: {}, otherPiece: {}}

// newBuffer returns a buffer for an answer of a content type, to be put back into pieces.
func newBuffer(contentType string) *[]byte {
	size := otherPiece
	if isEvents(contentType) {
		size = eventsPiece
	}
	return takePiece(size)
}

// takePiece returns a buffer of a size that there are pieces of.
func takePiece(size int) *[]byte {
	if b, ok := pieces[size].Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, size)
	return &b
}

// begin reads the body as far as must be before a byte of it is passed on.
func (a *answer) begin() error {
	kind := a.resp.Header.Get("Content-Type")
	encoded := a.resp.Header.Get("Content-Encoding")
	if isJSON(kind) && (encoded == "" || encoded == "identity") && a.resp.ContentLength <= wholeLimit {
		return a.readWhole(wholeLimit)
	}
	a.flows = true
	a.await()
	a.buf = newBuffer(kind)
	var n int
	for n == 0 && a.err == nil {
		n, a.err = a.resp.Body.Read(*a.buf)
	}
	a.first = (*a.buf)[:n]
	if n == 0 && !errors.Is(a.err, io.EOF) {
		return a.err
	}
	return nil
}

// verdict says what the answer tells of the engine. Until it is decided call next.
func (a *answer) verdict(api wire.API) wire.Verdict {
	switch {
	case !a.flows:
		return wire.WholeVerdict(api, a.resp.StatusCode, a.whole)
	case a.resp.StatusCode >= http.StatusMultipleChoices,
		!isEvents(a.resp.Header.Get("Content-Type")), a.resp.Header.Get("Content-Encoding") != "":
		return wire.Begun
	}
	v := a.opening.Read(a.first)
	if v == wire.Undecided && (a.err != nil || len(a.first) >= beginningLimit) {
		return wire.Begun
	}
	return v
}

// begun says whether an event has come. What the engine does from then on is passed on
// as it is, unless it turns out to be an abort.
func (a *answer) begun() bool { return bytes.Contains(a.first, []byte("data:")) }

// silence is how long a response that was announced may be silent before its announcement
// is passed on. The client learns from it under which name it can be cancelled, and a
// prefill may be long; an abort follows at once.
const silence = 100 * time.Millisecond

// part is what one read gave.
type part struct {
	data []byte
	err  error
}

// leastRoom is the least that is asked for at once while a beginning is read, in bytes.
const leastRoom = 512

// midChunk is how many bytes must have come, at least, for a read not to wait for an
// engine that is silent: fewer may be the end of a chunk, and nothing behind it.
const midChunk = len("\r\n") + 1

// next reads on in a flowing body before a byte of it is passed on. With a limit it gives
// up waiting when nothing has come for so long; more is false then, and what comes is the
// next thing that read returns.
func (a *answer) next(limit time.Duration) (more bool, err error) {
	if limit == 0 || a.buffered() >= midChunk {
		a.await()
		a.first = slices.Grow(a.first, leastRoom)
		n, err := a.resp.Body.Read(a.first[len(a.first):cap(a.first)])
		return a.got(part{a.first[len(a.first) : len(a.first)+n], err})
	}
	came := make(chan part, 1)
	go func() { // ends with the body at the latest
		a.await()
		buf := make([]byte, eventsPiece)
		n, err := a.resp.Body.Read(buf)
		came <- part{buf[:n], err}
	}()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case p := <-came:
		return a.got(p)
	case <-timeout.C:
		a.late = came
		return false, nil
	}
}

// got takes what has come to what came before.
func (a *answer) got(p part) (more bool, err error) {
	a.first, a.err = append(a.first, p.data...), p.err
	if p.err != nil && !errors.Is(p.err, io.EOF) {
		return false, p.err
	}
	return true, nil
}

// read reads on in a flowing body. What it returns is valid until the next call.
func (a *answer) read() ([]byte, error) {
	if a.late != nil {
		p := <-a.late
		a.late = nil
		return p.data, p.err
	}
	size := len(*a.buf)
	pieces[size].Put(a.buf)
	a.buf = nil
	a.await()
	a.buf = takePiece(size)
	n, err := a.resp.Body.Read(*a.buf)
	return (*a.buf)[:n], err
}

// await returns when there is something to be read. An answer that is waited for has no
// piece, as most open streams do nothing else.
func (a *answer) await() {
	if b, ok := a.resp.Body.(*upstream.Body); ok {
		b.Await()
	}
}

// buffered returns how many bytes of the connection can be read without waiting.
func (a *answer) buffered() int {
	if b, ok := a.resp.Body.(*upstream.Body); ok {
		return b.Buffered()
	}
	return 0
}

// readWhole reads a JSON body. One that is longer than limit flows, unread.
func (a *answer) readWhole(limit int64) error {
	var b bytes.Buffer
	if n := a.resp.ContentLength; n > 0 {
		b.Grow(int(n) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(a.resp.Body, limit+1)); err != nil {
		return err
	}
	if int64(b.Len()) <= limit {
		a.whole = b.Bytes()
		if a.untold() && !wire.Closed(a.whole) {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	a.flows, a.first = true, b.Bytes()
	a.buf = newBuffer("")
	return nil
}

// untold says whether the answer has no length of its own: then it ends with its
// connection, and HTTP cannot tell a whole one from one that was cut.
func (a *answer) untold() bool {
	return a.resp.ContentLength < 0 && len(a.resp.TransferEncoding) == 0 && a.resp.Body != http.NoBody
}

// close ends the upstream exchange.
func (a *answer) close() {
	_ = a.resp.Body.Close() // only the connection is affected
	if a.buf != nil {
		pieces[len(*a.buf)].Put(a.buf)
		a.buf, a.first = nil, nil
	}
}

// isJSON says whether a content type is JSON.
func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

// isEvents says whether a content type is a stream of events.
func isEvents(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
