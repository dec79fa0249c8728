package proxy

import (
	"context"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// identify finds the conversation of the request: from what the client says, from the
// stored answer that it continues, or from the chain of its messages.
func (x *exchange) identify() {
	sources := *x.model.identity.Load()
	sources.Client = x.r.RemoteAddr
	x.identity = wire.Identify(x.api, x.r.Header, &x.scan, sources)
	maker, known := x.p.owners.get(x.tenant, x.identity.PreviousResponse)
	if known = known && maker.model == x.model.name; known {
		// When its maker is gone so is the answer, and any engine says so in its own words.
		x.holder, x.bound = x.model.holder(maker.replica, maker.incarnation)
	}
	if x.identity.Key != "" {
		x.key = wire.Hash(x.tenant, x.model.name, x.identity.Key)
		if x.uncrowd(); x.identity.Key != "" {
			return
		}
	}
	if known {
		x.key = maker.conversation
		return
	}
	if x.api.Generates() {
		x.chain = wire.BuildChain(nil, x.api, &x.scan, x.tenant, x.model.name)
		if len(x.chain.Hashes) > 0 {
			x.answer = new(wire.Answer)
		}
	}
}

// groupKey returns the key of the client's session, or zero.
func (x *exchange) groupKey() (k route.Key) {
	if x.model == nil {
		return k
	}
	return x.hash(x.identity.Group)
}

// hash scopes the text of a key; empty stays none.
func (x *exchange) hash(text string) (k route.Key) {
	if text != "" {
		k = wire.Hash(x.tenant, x.model.name, text)
	}
	return k
}

// keySource returns where the key of the conversation that was decided came from.
func (x *exchange) keySource(d *route.Decision) wire.Source {
	switch {
	case x.identity.Key != "":
		return x.identity.Source
	case x.key != route.Key{}:
		return wire.SourcePreviousResponse
	case d.Conversation != route.Key{}:
		return wire.SourceChain
	}
	return wire.SourceNone
}

// question puts the request to the router.
func (x *exchange) question() route.Request {
	q := route.Request{
		Key:         x.key,
		Group:       x.hash(x.identity.Group),
		Parent:      x.hash(x.identity.Parent),
		Kind:        route.Kind(x.identity.Kind),
		Chain:       x.chain.Hashes,
		ChainFirst:  x.chain.First,
		Rank:        clientRank(x.r.Header),
		PromptBytes: x.scan.PromptBytes(),
		HashKey:     binary.LittleEndian.Uint64(x.key[:8]),
	}
	if q.PromptBytes == 0 {
		q.PromptBytes = len(x.body)
	}
	if x.bound {
		q.Rank, q.Bound = x.holder, true
	}
	if x.api.Generates() {
		q.SharedHash = wire.SharedHash(x.api, &x.scan)
	}
	return q
}

// clientRank returns the replica that the client names, or -1 when it names none or
// does so in a way that no engine would understand.
func clientRank(h http.Header) int {
	values := h.Values(headerRank)
	if len(values) != 1 {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(values[0]))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// decide gets the request a place on a replica, after a wait at the door if need be.
func (x *exchange) decide() error {
	q := x.question()
	switch x.model.reserve(time.Now(), &q, &x.place) {
	case route.Forward:
		return nil
	case route.Held:
		return x.await()
	case route.RefusedFull:
		return x.model.queueFull()
	default:
		now := time.Now()
		if q.Bound {
			return &holderRestsError{q.Rank, x.identity.PreviousResponse, x.model.restsFor(now)}
		}
		return x.model.unready(now, q.Rank)
	}
}

// holdGrace is added to the longest hold of a model before the proxy gives up by
// itself: the core lets everybody go by then, unless no replica is ready.
const holdGrace = 5 * time.Second

// await waits at the door. Who leaves meanwhile has cost nothing. The wait is measured
// from the arrival of the request: a second attempt does not get another one.
func (x *exchange) await() error {
	x.signsOfLife()
	came := time.Now()
	limit := time.NewTimer(max(x.holdLeft(came), 0))
	defer limit.Stop()
	for {
		select {
		case <-x.place.ready:
			return x.place.err
		case <-x.ctx.Done():
			return x.ended()
		case <-limit.C:
			left := x.holdLeft(came) // the settings may have changed
			switch {
			case left > 0:
				limit.Reset(left)
			case !x.model.anyReady():
				return x.model.unready(time.Now(), -1)
			case left > -holdGrace:
				limit.Reset(left + holdGrace)
			default:
				return &later{errHeldTooLong, x.model.queueTime()}
			}
		}
	}
}

// holdLeft returns how long a request may still wait that came to the door at a moment, as
// the model says. It is negative by at most the time that it has waited at this door.
func (x *exchange) holdLeft(came time.Time) time.Duration {
	return max(x.model.longestHold()-time.Since(x.arrived), -time.Since(came))
}

// signsOfLife keeps a stream open that has nothing to say yet.
func (x *exchange) signsOfLife() {
	if x.streaming {
		x.reply.keepAlive(x.p.options.PingInterval, wire.Ping(x.api), x.ownHeadersSafely, x.cancel)
	}
}

// ended says why the exchange ended before its answer was whole: the client left, or
// the exchange with the replica was cut for a reason of ours.
func (x *exchange) ended() error {
	if x.ctx.Err() != nil {
		return errClientGone
	}
	return context.Cause(x.attempt.ctx)
}

// ownHeadersSafely sets our headers when the router may be deciding this moment.
func (x *exchange) ownHeadersSafely(h http.Header) {
	target, d := x.place.seen()
	x.ownHeaders(h, target, &d)
}

// ownHeaders sets the headers that tell what was decided and why; target is nil while
// nothing is decided.
func (x *exchange) ownHeaders(h http.Header, target *Replica, d *route.Decision) {
	h.Set(headerRequest, x.id)
	if x.model == nil {
		return
	}
	h.Set(headerKeySource, x.keySource(d).String())
	if target == nil {
		return
	}
	h.Set(headerReplica, string(target.ID))
	h.Set(headerDecision, d.Class.String())
	if d.Conversation != (route.Key{}) {
		h.Set(headerConversation, shortKey(d.Conversation))
	}
}

// shortKey returns how a conversation is shown: the first 16 hex digits of its key.
func shortKey(k route.Key) string {
	const hex = "0123456789abcdef"
	b := make([]byte, 0, 16)
	for _, c := range k[:8] {
		b = append(b, hex[c>>4], hex[c&15])
	}
	return string(b)
}
