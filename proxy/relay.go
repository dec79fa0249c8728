package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/lmwarden/lmwarden/proxy/wire"
)

// relay passes an answer on, and ends it.
func (x *exchange) relay(a *answer) error {
	defer a.close()
	x.watchPrefix(a)
	x.dropBody() // it is not sent again
	if a.flows {
		return x.relayFlow(a)
	}
	return x.relayWhole(a)
}

// relayWhole passes a JSON answer on.
func (x *exchange) relayWhole(a *answer) error {
	x.reply.quiet()
	ok := a.resp.StatusCode < http.StatusMultipleChoices
	if a.resp.StatusCode < http.StatusInternalServerError {
		x.model.judge(time.Now(), &x.place, 0)
	}
	if ok {
		x.firstByte()
		x.noteWhole(a.whole)
	} else {
		x.fault = "the replica answered with status " + strconv.Itoa(a.resp.StatusCode)
	}
	body := a.whole
	if x.renamed() {
		body = wire.RestoreModel(body, x.requested, x.model.name)
	}
	if x.reply.sent() { // by a sign of life, as the headers of a stream
		return x.wholeInStream(a.resp, body)
	}
	x.reply.header(a.resp.StatusCode, func(h http.Header) {
		x.answerHeaders(h, a.resp.Header)
		h.Set("Content-Length", strconv.Itoa(len(body)))
	})
	return x.reply.write(body, false)
}

// wholeInStream ends a stream that has its headers and gets a JSON answer: the engine's
// error becomes an event, and anything else is one. Either way the connection is cut
// behind it, since a stream that failed must never look complete.
func (x *exchange) wholeInStream(resp *http.Response, body []byte) error {
	if resp.StatusCode < http.StatusMultipleChoices {
		return fmt.Errorf("%w: status %d, %q", errNoStream, resp.StatusCode, clip(resp.Header.Get("Content-Type"), longestName))
	}
	x.status = resp.StatusCode
	_ = x.reply.write(wire.ErrorEvent(x.api, resp.StatusCode, body), false) // the connection is cut next anyway
	panic(http.ErrAbortHandler)
}

// noteWhole keeps what a whole successful answer tells.
func (x *exchange) noteWhole(body []byte) {
	x.usage = wire.ReadUsage(x.api, body)
	if x.api.Generates() {
		x.firstToken = time.Since(x.arrived)
	}
	if x.answer != nil {
		x.answer.Read(x.api, body)
	}
	if x.api == wire.APIResponses {
		x.remember(wire.ReadResponseID(body))
	}
}

// relayFlow passes an answer on as it comes, each piece flushed. A stream of events is
// read on the way.
func (x *exchange) relayFlow(a *answer) error {
	ok := a.resp.StatusCode < http.StatusMultipleChoices
	if ok && isEvents(a.resp.Header.Get("Content-Type")) && a.resp.Header.Get("Content-Encoding") == "" {
		x.flow = wire.NewStream(x.api, x.streamOptions())
	}
	if x.flow == nil {
		x.reply.quiet()
	}
	if x.flow == nil && x.reply.sent() { // by a sign of life, as the headers of a stream
		return fmt.Errorf("%w: status %d, %q", errNoStream, a.resp.StatusCode, clip(a.resp.Header.Get("Content-Type"), longestName))
	}
	x.reply.header(a.resp.StatusCode, func(h http.Header) {
		x.answerHeaders(h, a.resp.Header)
		if n := a.resp.ContentLength; n >= 0 && x.flow == nil {
			h.Set("Content-Length", strconv.FormatInt(n, 10))
		}
	})
	if !ok {
		x.fault = "the replica answered with status " + strconv.Itoa(a.resp.StatusCode)
	}
	piece, err := a.first, a.err
	a.first = nil // it may be large, and a stream may be long
	for {
		if werr := x.pass(piece, ok); werr != nil {
			return x.lost(werr)
		}
		if err != nil {
			break
		}
		x.attempt.watch(x.p.options.StallTimeout)
		piece, err = a.read()
	}
	if err := x.finish(err); err != nil {
		return err
	}
	x.reply.trail(x.ownHeadersSafely)
	return nil
}

// streamOptions says what is changed on the way.
func (x *exchange) streamOptions() wire.StreamOptions {
	o := wire.StreamOptions{DropUsage: x.dropped, Answer: x.answer}
	if x.renamed() {
		o.Requested, o.Served = x.requested, x.model.name
	}
	return o
}

// pass gives the client one piece of a flowing answer.
func (x *exchange) pass(piece []byte, ok bool) error {
	if len(piece) == 0 {
		return nil
	}
	if x.flow != nil {
		piece = x.flow.Write(piece)
		x.noteID()
		if !x.served && x.flow.State().First {
			x.reply.quiet()
			x.firstToken = time.Since(x.arrived)
			x.firstByte()
		}
	} else if !x.served && ok {
		x.firstByte()
	}
	if len(piece) == 0 {
		return nil
	}
	return x.reply.write(piece, x.flow != nil && x.flow.MidFrame())
}

// firstByte says that the replica has begun to answer well.
func (x *exchange) firstByte() {
	x.served = true
	now := time.Now()
	x.model.judge(now, &x.place, 0)
	x.model.firstByte(now, &x.place)
}

// finish ends a flowing answer: cleanly, when the engine had said its last word, or when
// the upstream ended cleanly and there is no such word. The end of a connection alone
// says nothing: an answer without a length ends with it, whole or cut.
func (x *exchange) finish(err error) error {
	var seen wire.State
	whole := errors.Is(err, io.EOF)
	if x.flow != nil {
		if held := x.flow.Held(); len(held) > 0 && x.ctx.Err() == nil {
			if werr := x.reply.write(held, false); werr != nil {
				return x.lost(werr)
			}
		}
		var rest []byte
		if whole {
			rest = x.flow.Close()
		}
		seen = x.flow.State()
		x.noteStream(seen)
		whole = whole && (seen.Done || seen.Failed || !x.api.Ends())
		if whole && len(rest) > 0 {
			if werr := x.reply.write(rest, false); werr != nil {
				return x.lost(werr)
			}
		}
	}
	if whole || seen.Done {
		return nil
	}
	if x.attempt.ctx.Err() != nil {
		err = x.ended()
		if !errors.Is(err, errStalled) {
			return err
		}
	} else {
		err = errCut
	}
	x.model.judge(time.Now(), &x.place, strikeBroken)
	return err
}

// lost ends a flowing answer whose client took no more of it.
func (x *exchange) lost(err error) error {
	if x.flow != nil {
		seen := x.flow.State()
		x.noteStream(seen)
		if seen.Done {
			return nil // it had all of it, and left before the end of the transfer
		}
	}
	return err
}

// noteStream keeps what a stream told.
func (x *exchange) noteStream(seen wire.State) {
	x.usage = seen.Usage
	if seen.Failed {
		x.fault = "the replica ended the stream with an error"
	}
	x.noteID()
}

// noteID remembers who makes a response as soon as it is announced: its client may cancel
// it, or look at it, from then on.
func (x *exchange) noteID() {
	if x.api != wire.APIResponses || x.announced {
		return
	}
	if id := x.flow.State().ResponseID; id != "" {
		x.announced = true
		x.remember(id)
	}
}

// answerHeaders sets the headers of an answer: the engine's, less those of its
// connection, and ours.
func (x *exchange) answerHeaders(h, engine http.Header) {
	copyHeaders(h, engine, answerOnly)
	x.ownHeaders(h, x.place.target, &x.place.decision)
}

// errorFrame returns the event that tells of a failure inside a stream.
func (x *exchange) errorFrame(what refusal) []byte {
	sequence := 0
	if x.flow != nil {
		sequence = x.flow.State().Sequence
	}
	frame := wire.ErrorFrame(x.api, sequence, what.status, what.message)
	if x.flow != nil && x.flow.MidFrame() {
		return append([]byte("\n\n"), frame...)
	}
	return frame
}
