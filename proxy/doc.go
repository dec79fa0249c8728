// Package proxy carries requests from clients to replicas: the hot path.
//
// The life of a request, and where to read it:
//
//   - handler.go: [Proxy.ServeHTTP], the steps in order, and the one place where every
//     request ends: there its reservation is given back, whatever happened.
//   - resolve.go, limits.go, body.go: whose request it is, whether its key or its model is
//     over a limit, its body (read once, bounded by itself and with all others, into memory
//     that is used again: block.go), and the model that it names. [wire] scans it once.
//   - decide.go, model.go: which conversation it belongs to; [route] decides a replica
//     and reserves a place there, or holds the request at the door.
//   - attempt.go, answer.go: one attempt upstream, or two; the rule for the second one.
//     [upstream] is the connection to the engine.
//   - relay.go, reply.go: the answer is copied and flushed as it comes, the usage is
//     read from the frames that pass.
//   - errors.go: what went wrong, in the words of the API that was called.
//
// Around it: return.go has what happens while no replica is there and one is expected back,
// crowd.go finds ids that many conversations share, owners.go remembers which replica made a stored response, snapshot.go takes
// over news about models, breaker.go keeps requests away from a replica that fails,
// drain.go empties a replica before it is stopped.
//
// It reads one immutable [Snapshot] of models and replicas, replaced whole by
// [Proxy.Apply]. One mutex per model guards its router and is never held across I/O. A
// finished request is a [Record] for a [Recorder] that never blocks. The package writes
// no store, logs nothing above debug per request, and knows nothing of the control
// plane or of processes.
package proxy
