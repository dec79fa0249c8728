// Package proxy carries requests from clients to replicas: the hot path.
//
// The life of a request: the handler reads the body once (bounded), [wire] scans
// it once for model and conversation, [route] decides a replica and reserves it,
// one upstream attempt is made, the answer is copied and flushed as it comes, the
// usage is read from the frames that pass, a [Record] goes to a [Recorder] that
// never blocks, and the reservation is given back in exactly one place.
//
// It reads one immutable [Snapshot] of models and replicas, replaced whole by
// [Proxy.Apply]. It writes no store, holds no lock across I/O, logs nothing above
// debug per request, and knows nothing of the control plane or of processes.
package proxy
