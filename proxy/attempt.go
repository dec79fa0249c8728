package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/proxy/upstream"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// When a request may be sent a second time. At most once, and only while the client
// has no byte of an answer:
//
//   - to another replica, when the first one could not be reached, cut the connection
//     before a byte of its answer was passed on, says that its engine is dead, answers
//     503, aborts the answer before its first token though nobody asked for that, or was
//     drained. What it was doing for the request has ended with the connection. The next
//     life of a replica is another replica: where there is nobody else the request waits
//     for it at the door.
//   - to the same replica on a new connection, when a kept connection broke as the
//     request was sent: the engine had closed it as idle and never read the request.
//     When there is nobody to connect to it has died instead, nothing was sent, and
//     another replica may still be asked.
//
// Never after a time-out of ours, because the engine may still be at work; never after
// any other answer, because it is the engine's own.
type again int

// The ways to try again.
const (
	never     again = iota
	here            // to the same replica
	elsewhere       // to another one
)

// setback is an attempt that came to nothing.
type setback struct {
	cause  error
	again  again
	strike int     // against the replica, for its breaker
	unsent bool    // no connection stood, so nothing was sent
	answer *answer // what the engine said, to be passed on when there is no second attempt
}

// idleRace is how soon after it was sent a request on a kept connection must break for
// the engine not to have read it. Later it has died over it.
const idleRace = time.Second

// forward makes one attempt, or two, and passes the answer on.
func (x *exchange) forward() error {
	x.signsOfLife()
	for {
		x.attempts++
		a, back := x.try()
		if back == nil {
			return x.relay(a)
		}
		if back.strike > 0 {
			x.model.judge(time.Now(), &x.place, back.strike)
		}
		more, err := x.tryAgain(back)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		if back.answer != nil {
			return x.relay(back.answer)
		}
		return back.cause
	}
}

// mayRetry says whether a second attempt is allowed at all: the client is there, and there
// was none yet but one that sent nothing.
func (x *exchange) mayRetry(back *setback) bool {
	first := x.retried == never || x.retried == here && back.unsent
	return first && x.ctx.Err() == nil
}

// tryAgain prepares a second attempt, after another wait at the door if need be; false
// when there is none. The error ends the exchange.
func (x *exchange) tryAgain(back *setback) (bool, error) {
	if !x.mayRetry(back) {
		return false, nil
	}
	switch back.again {
	case here:
		// The other idle connections are as old, or older.
		x.place.replica.transport.CloseIdleConnections()
	case elsewhere:
		if moved, err := x.moveOn(back); !moved {
			return false, err
		}
	default:
		return false, nil
	}
	if back.answer != nil {
		back.answer.close()
	}
	if back.again == elsewhere && x.place.ready != nil {
		if err := x.await(); err != nil {
			return false, err
		}
	}
	x.retried = back.again
	x.model.metrics.retries.Inc()
	return true, nil
}

// try sends the request to the replica and waits for the beginning of the answer: its
// whole when it is JSON, its first bytes when it flows.
func (x *exchange) try() (*answer, *setback) {
	req, err := x.upstreamRequest()
	if err != nil {
		return nil, &setback{cause: err}
	}
	sent := time.Now()
	resp, err := x.place.replica.transport.Do(x.attempt.ctx, req) //nolint:bodyclose // answer.close does, in relay or tryAgain
	x.lent = x.lent || req.Lent
	if err != nil {
		return nil, x.setbackOf(err, time.Since(sent))
	}
	x.attempt.watch(x.p.options.StallTimeout)
	a := &answer{resp: resp, opening: wire.NewOpening(x.api)}
	verdict, err := x.beginning(a)
	if err != nil {
		a.close()
		return nil, x.setbackOf(err, 0)
	}
	switch {
	case verdict == wire.Aborted:
		return nil, &setback{cause: errDeadEngine, again: elsewhere, strike: strikeStatus, answer: a}
	case verdict == wire.EngineDead:
		return nil, &setback{cause: errDeadEngine, again: elsewhere, strike: strikeBroken, answer: a}
	case resp.StatusCode == http.StatusServiceUnavailable:
		return nil, &setback{cause: errDeadEngine, again: elsewhere, strike: strikeStatus, answer: a}
	case resp.StatusCode >= http.StatusInternalServerError:
		x.model.judge(time.Now(), &x.place, strikeStatus)
	}
	return a, nil
}

// beginning reads as much of an answer as must be known before a byte of it is passed on,
// and says what that tells. An answer that breaks off behind its first event is passed on
// as far as it came.
func (x *exchange) beginning(a *answer) (v wire.Verdict, err error) {
	limit := time.Duration(0)
	if x.api == wire.APIResponses {
		limit = silence
	}
	err = a.begin()
	for more := true; err == nil && more; more, err = a.next(limit) {
		if v = a.verdict(x.api); v != wire.Undecided {
			return v, nil
		}
		x.attempt.watch(x.p.options.StallTimeout)
	}
	if a.begun() {
		a.err, err = err, nil
	}
	return v, err
}

// upstreamRequest returns the request for the replica.
func (x *exchange) upstreamRequest() (*upstream.Request, error) {
	body, err := x.upstreamBody()
	if err != nil {
		return nil, err
	}
	target := x.place.target
	return &upstream.Request{
		Engine: target.URL,
		Method: x.r.Method,
		Path:   x.r.URL.EscapedPath(),
		Query:  x.r.URL.RawQuery,
		// With affinity off the engines' own balancer chooses the rank.
		Header: upstreamHeader(x.r.Header, target, x.place.decision.Class != route.ClassOff),
		Body:   body,
	}, nil
}

// setbackOf says what an error of the transport means that came some time after the
// request was sent.
func (x *exchange) setbackOf(err error, after time.Duration) *setback {
	var dial *upstream.DialError
	var stale *upstream.StaleError
	var request *upstream.RequestError
	var ne net.Error
	switch {
	case x.attempt.ctx.Err() != nil:
		back := &setback{cause: x.ended()}
		switch {
		case errors.Is(back.cause, errStalled):
			back.strike = strikeBroken
		case errors.Is(back.cause, errDrained), errors.Is(back.cause, errDeadEngine):
			back.again = elsewhere
		}
		return back
	case errors.As(err, &request):
		return &setback{cause: fmt.Errorf("replica %s cannot be asked: %w", x.place.target.ID, err)}
	case errors.As(err, &dial):
		return &setback{cause: fmt.Errorf("%w (%w)", errUnreachable, dial), again: elsewhere, strike: strikeBroken, unsent: true}
	case errors.As(err, &stale) && after < idleRace:
		return &setback{cause: errCut, again: here}
	case errors.As(err, &ne) && ne.Timeout():
		return &setback{cause: errHeaderWait, strike: strikeBroken}
	default:
		return &setback{cause: errCut, again: elsewhere, strike: strikeBroken}
	}
}

// attempt is the exchange with one replica.
type attempt struct {
	ctx      context.Context //nolint:containedctx // an attempt is a context with a watchdog; it ends with the client's exchange, or by a cut
	cancel   context.CancelCauseFunc
	watchdog *time.Timer // ends an answer that stalls; nil before its headers
}

// newAttempt begins the exchange with the replica that the request has just got.
func (x *exchange) newAttempt() {
	x.attempt.end()
	ctx, cancel := context.WithCancelCause(x.ctx)
	x.attempt = attempt{ctx: ctx, cancel: cancel}
	x.place.cut = cancel
}

// end ends the exchange with the replica, if there is one.
func (t *attempt) end() {
	if t.cancel != nil {
		t.cancel(nil)
	}
	if t.watchdog != nil {
		t.watchdog.Stop()
	}
}

// watch ends the answer when the engine is silent for longer than limit from now on.
func (t *attempt) watch(limit time.Duration) {
	if t.watchdog != nil {
		t.watchdog.Reset(limit)
		return
	}
	cancel := t.cancel
	t.watchdog = time.AfterFunc(limit, func() { cancel(errStalled) })
}
