// Package route decides which replica a request goes to and when.
//
// It is a pure state machine: events in (a request arrived, a first byte came, a
// request ended, the replicas changed, a tick), decisions out, the time handed in.
// It does no I/O, starts no goroutine and takes no lock. The live proxy and the
// virtual-time simulator drive the same core; the caller serializes the calls.
//
// The nouns:
//
//   - Core: the router of one model.
//   - Replica: one full copy of the model, by index 0..N-1. An incarnation is one
//     life of a replica; a new incarnation has an empty cache.
//   - Conversation: the unit that is pinned, named by a [Key]. Its home is the
//     replica that holds its cache.
//   - Group: what a client calls a session; ties conversations together softly.
//   - Ticket: one request from arrival to end. A ticket holds a reservation on a
//     replica from its decision until Done, and Done is the only place that gives
//     it back.
//   - Place: with working-set admission, the right of a conversation to the part of
//     a replica's cache that its context takes.
//
// Each request gets exactly one [Class]; the classes add up to the requests
// forwarded, per replica and per model.
//
// Where to read: core.go has the events, decide.go the classes, placement.go and
// spill.go the choices; table.go remembers conversations, chain.go tells those of
// clients without ids, shadow.go and shared.go estimate what the caches hold;
// admission.go, queue.go, offer.go and seats.go hold at the door what the caches cannot keep,
// with what learn.go and rhythm.go have measured; strand.go keeps what waits for a
// replica to come back.
package route
