package proxy

import (
	"errors"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/proxy/wire"
)

// reply is the client's side of an exchange. While a stream has nothing to say yet it
// sends signs of life from a timer, which is why it has a mutex.
type reply struct {
	ctl   *http.ResponseController
	stall time.Duration // longest time without progress while something is to be sent
	// strict is for HTTP/2, whose write deadline is a timer of the stream: it breaks the
	// stream when it fires, also while nothing is being written.
	strict bool

	mu     sync.Mutex
	w      http.ResponseWriter
	status int       // that was sent; 0 before
	trails bool      // headers that were not known when the status was sent follow the body
	mid    bool      // the client has part of a frame: no sign of life may follow
	armed  time.Time // when the write deadline was last set; zero while there is none
	pinger *time.Timer
}

// sent says whether the status line was sent.
func (y *reply) sent() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.status != 0
}

// header sends the status line, once; fill adds the headers before.
func (y *reply) header(status int, fill func(http.Header)) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.status != 0 {
		return
	}
	fill(y.w.Header())
	y.status = status
	y.w.WriteHeader(status)
}

// write sends a piece of the body and flushes it; mid says whether it ends inside a
// frame. An error means that the client is gone, or takes nothing.
func (y *reply) write(b []byte, mid bool) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.mid = mid
	return y.send(b)
}

// pieceBytes is how much of an answer one deadline is for. A longer answer is written
// in pieces, so that a client that takes it slowly is not cut for its length: the
// deadline counts from the last piece that was accepted.
const pieceBytes = 32 << 10

// send writes and flushes, each piece within the deadline. The caller holds mu.
func (y *reply) send(b []byte) error {
	for piece := range slices.Chunk(b, pieceBytes) {
		y.arm()
		if _, err := y.w.Write(piece); err != nil {
			return clientError(err)
		}
	}
	y.arm()
	if err := y.flush(); err != nil {
		return err
	}
	if y.strict {
		y.armed = time.Time{}
		_ = y.ctl.SetWriteDeadline(y.armed) // as in arm
	}
	return nil
}

// clientError says what an error of a write means.
func clientError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errClientStuck
	}
	return errors.Join(errClientGone, err)
}

// flush sends what was written. The caller holds mu.
func (y *reply) flush() error {
	if err := y.ctl.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return clientError(err)
	}
	return nil
}

// arm sets the deadline of the next write. It is left alone when it was set a moment
// ago, because that costs more than a small write. The caller holds mu.
func (y *reply) arm() {
	now := time.Now()
	if now.Sub(y.armed) < y.stall/8 {
		return
	}
	y.armed = now
	_ = y.ctl.SetWriteDeadline(now.Add(y.stall)) // not supported by a recorder in a test
}

// keepAlive sends ping every interval until quiet is called; the first one sends the
// headers of a stream. gone is called when the client does not take it.
func (y *reply) keepAlive(interval time.Duration, ping []byte, fill func(http.Header), gone func(error)) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.pinger != nil {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(interval, func() {
		y.mu.Lock()
		defer y.mu.Unlock()
		if y.pinger != t {
			return
		}
		if y.status == 0 {
			h := y.w.Header()
			fill(h)
			h.Set("Content-Type", eventStream)
			h.Set("Trailer", lateHeaders)
			y.trails = true
			y.status = http.StatusOK
			y.w.WriteHeader(y.status)
		}
		if !y.mid {
			if err := y.send(ping); err != nil {
				gone(err)
				return
			}
		}
		t.Reset(interval)
	})
	y.pinger = t
}

// lateHeaders are those of ours that a stream whose headers a sign of life has sent has
// behind its body as well: what is decided, or decided anew, comes later (RFC 9110 §6.5).
const lateHeaders = headerReplica + ", " + headerDecision + ", " + headerKeySource + ", " + headerConversation

// trail sets the headers that follow the body, if any do.
func (y *reply) trail(fill func(http.Header)) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.trails {
		fill(y.w.Header())
	}
}

// quiet ends the signs of life. Afterwards none is on its way.
func (y *reply) quiet() {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.pinger != nil {
		y.pinger.Stop()
		y.pinger = nil
	}
}

// eventStream is the content type of a stream of events, as vLLM states it. It sends
// nothing else with it, so neither does a stream that begins with a sign of life.
const eventStream = "text/event-stream; charset=utf-8"

// refuse answers with an error in the API's own shape. When the headers of a stream
// are already out it is an event, and the connection is cut afterwards: a stream that
// failed must never look complete.
func (x *exchange) refuse(err error) {
	x.reply.quiet()
	what := refusalOf(err, x.id)
	x.fault = err.Error()
	if what.status == http.StatusInternalServerError {
		x.p.options.Logger.Error().Err(err).Str("request", x.id).Str("path", x.r.URL.Path).Msg("request failed in the proxy")
	}
	if what.status == statusClientGone {
		x.gone = true
		panic(http.ErrAbortHandler)
	}
	if x.reply.sent() {
		x.status = what.status
		if x.streaming || x.flow != nil { // the engine may stream where no body asked for it
			_ = x.reply.write(x.errorFrame(what), false) // the connection is cut next anyway
		}
		panic(http.ErrAbortHandler)
	}
	if x.body == nil {
		x.drainBody()
	}
	body := wire.ErrorBody(x.api, what.status, what.message, what.param)
	x.reply.header(what.status, func(h http.Header) {
		x.ownHeadersSafely(h)
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", strconv.Itoa(len(body)))
		if what.retryAfter > 0 {
			h.Set("Retry-After", strconv.Itoa(what.retryAfter))
		}
		if what.allow != "" {
			h.Set("Allow", what.allow)
		}
		if what.status == http.StatusUnauthorized {
			h.Set("Www-Authenticate", "Bearer")
		}
	})
	_ = x.reply.write(body, false) // a client that is gone needs no answer
}
