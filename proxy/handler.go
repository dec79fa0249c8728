package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// exchange is one request from its arrival to its end. Its handler owns it; only
// cancel and reply are used from elsewhere.
type exchange struct {
	p       *Proxy
	r       *http.Request
	table   *table // the snapshot that was in force when it arrived
	reply   reply
	id      string
	arrived time.Time

	// What the client asks for.
	api       wire.API
	tenant    string
	limiters  []*limiter // that count it
	body      []byte     // until the answer begins
	block     *block     // the memory of body; nil when it is not the exchange's any more
	lent      bool       // an engine may be reading body for longer than the exchange needs it
	buffered  int64      // bytes taken from the budget of all bodies
	scan      wire.Scan
	requested string // name of the model, as the client wrote it
	streaming bool   // it asked for a stream
	form      bool   // the body is a multipart form
	model     *model
	identity  wire.Identity
	key       route.Key // of its conversation, from identity; zero when it named none
	holder    int       // replica that alone holds the answer that the request continues
	bound     bool      // there is one
	chain     wire.Chain
	watch     watch // on its id

	// Where it goes.
	ctx      context.Context //nolint:containedctx // an exchange is the life of a request; it ends when the client leaves
	cancel   context.CancelCauseFunc
	place    reservation
	attempt  attempt
	attempts int
	retried  again // where the latest attempt but the first was made
	dropped  bool  // usage was asked for by us, its frame is to be dropped

	// What came of it.
	flow       *wire.Stream // the stream of events that passes; nil for others
	answer     *wire.Answer // collects the answer for the chain; nil without one
	broken     *atomic.Bool // its prompt does not continue the one before, as far as that was seen by the end; nil for some
	announced  bool         // the id of a response came
	served     bool         // the replica gave the first byte of a successful answer
	usage      wire.Usage
	firstToken time.Duration
	status     int
	fault      string
	gone       bool
	local      bool // the proxy answers it itself
}

// ServeHTTP serves one request, from a client to a replica and back.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := p.begin(w, r)
	defer x.end()
	var err error
	switch x.api {
	case wire.APIProbe:
		err = x.answerProbe()
	case wire.APIModels:
		err = x.answerModels()
	case wire.APIResponseGet, wire.APIResponseCancel:
		err = x.carryToOwner()
	case wire.APIOther:
		err = x.answerOther()
	default:
		err = x.carry()
	}
	if err != nil {
		x.refuse(err)
	}
}

// carry takes a request to a replica and its answer back, step by step.
func (x *exchange) carry() error {
	if err := x.authorize(); err != nil {
		return err
	}
	if err := x.limit(x.table.limiters[x.tenant]); err != nil {
		return err
	}
	if err := x.readBody(); err != nil {
		return err
	}
	if err := x.resolve(); err != nil {
		return err
	}
	if err := x.limit(x.model.limiter); err != nil {
		return err
	}
	x.identify()
	if err := x.decide(); err != nil {
		return err
	}
	return x.forward()
}

// begin makes the exchange of a request.
func (p *Proxy) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{
		p:       p,
		r:       r,
		table:   p.table.Load(),
		id:      p.nextID(),
		arrived: time.Now(),
		api:     wire.APIOf(r.Method, r.URL.Path),
		usage:   wire.NoUsage(),
	}
	x.reply.w = w
	x.reply.ctl = http.NewResponseController(w)
	x.reply.stall = p.options.WriteStallTimeout
	x.reply.strict = r.ProtoMajor >= 2
	x.ctx, x.cancel = context.WithCancelCause(r.Context())
	x.place.seated = x.newAttempt
	return x
}

// end is where every request ends, whatever happened: its reservation is given back
// here and nowhere else, and it is counted and recorded. It must be deferred itself,
// because it recovers: a handler that panics has held a replica like any other.
func (x *exchange) end() {
	problem := recover()
	now := time.Now()
	x.reply.quiet()
	if problem != nil && !isAbort(problem) {
		x.fault, x.status = "the proxy failed on this request", http.StatusInternalServerError
		x.lent = true // whatever it was doing with the body
		x.p.options.Logger.Error().Interface("panic", problem).Str("request", x.id).
			Str("path", x.r.URL.Path).Msg("request failed in the proxy")
	}
	var on *replica
	var miss route.Miss
	if x.place.model != nil {
		if x.served && (x.flow == nil || x.flow.State().Done) {
			x.place.model.complete(&x.place, x.api, &x.usage)
		}
		on, miss = x.place.model.release(now, &x.place, x.outcome())
	}
	x.attempt.end()
	x.watch.over()
	x.cancel(nil)
	x.dropBody()
	x.endLimits(now)
	if x.gone {
		x.status = statusClientGone
	} else if x.status == 0 {
		x.status = x.reply.status
	}
	if x.isCall() {
		x.count(now, on)
		x.p.options.Recorder.Record(x.record(now, on, miss))
	}
	if problem != nil {
		panic(http.ErrAbortHandler) // the server closes the connection without a word
	}
}

// isAbort says whether a panic is the agreed way to cut a connection.
func isAbort(problem any) bool {
	err, ok := problem.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// isCall says whether the request was meant for a replica: what the proxy answers
// itself is neither counted nor recorded.
func (x *exchange) isCall() bool {
	switch x.api {
	case wire.APIProbe, wire.APIModels, wire.APIOther:
		return false
	}
	return !x.local
}

// outcome tells the core how the request ended.
func (x *exchange) outcome() route.Outcome {
	o := route.Outcome{
		Served:     x.served,
		Whole:      x.flow == nil,
		Prompt:     x.usage.Prompt,
		Cached:     x.usage.Cached,
		Completion: x.usage.Completion,
		Broken:     x.broken != nil && x.broken.Load(),
	}
	if x.answer != nil && x.served {
		o.ChainNext = x.chain.After(x.answer.Digests())
	}
	return o
}

// count adds the request to the metrics; on is the replica it ended on, or nil.
func (x *exchange) count(now time.Time, on *replica) {
	if on == nil {
		name := otherModel
		if x.model != nil {
			name = x.model.name
		}
		x.p.metrics.refused.WithLabelValues(name, statusLabels[statusIndex(x.status)]).Inc()
		return
	}
	m := x.model.metrics
	on.metrics.ended(x.place.decision.Class, x.status)
	on.metrics.count(x.usage.Prompt, x.usage.Cached, x.usage.Completion)
	m.source(x.keySource(&x.place.decision))
	m.duration.Observe(now.Sub(x.arrived).Seconds())
	if x.firstToken > 0 {
		m.ttft.Observe(x.firstToken.Seconds())
	}
}

// apiPath returns the path for the history: of those with an id, the part before it.
func (x *exchange) apiPath() string {
	switch x.api {
	case wire.APIResponseGet:
		return "/v1/responses/{id}"
	case wire.APIResponseCancel:
		return "/v1/responses/{id}/cancel"
	}
	return clip(x.r.URL.Path, longestName)
}

// longestFault is how much of an error the history keeps, in bytes: the longest of ours
// lists names of models, and those of a parser may quote what the client sent.
const longestFault = 4096

// record returns what the history keeps of the request: bounded copies, for nothing of a
// body or a header may outlive its request.
func (x *exchange) record(now time.Time, on *replica, miss route.Miss) Record {
	rec := Record{
		ID:             x.id,
		Arrived:        x.arrived,
		RequestedModel: clip(x.requested, longestName),
		Path:           x.apiPath(),
		Client:         clientProduct(x.r.UserAgent()),
		KeySource:      x.keySource(&x.place.decision).String(),
		Group:          x.groupKey(),
		Streamed:       x.streaming,
		Status:         x.status,
		Error:          clip(x.fault, longestFault),
		Attempts:       x.attempts,
		Decision:       x.place.decision,
		Decided:        on != nil,
		Miss:           miss,
		FirstToken:     x.firstToken,
		Duration:       now.Sub(x.arrived),
		Prompt:         x.usage.Prompt,
		Cached:         x.usage.Cached,
		Completion:     x.usage.Completion,
	}
	if x.model != nil {
		rec.Model = x.model.name
	}
	rec.Decision.Terms = slices.Clone(rec.Decision.Terms)
	return rec
}
