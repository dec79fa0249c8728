package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/lmwarden/lmwarden/supervisor/vllm"
)

// ReplicaID names a replica of the box.
type ReplicaID struct {
	Model string
	Index int
}

// Spec is what one replica should be. Two equal specs are the same engine; a
// different one replaces it.
type Spec struct {
	ID   ReplicaID
	Args []string          // arguments after the engine command, "serve" first, without --host and --port
	Env  map[string]string // variables beside those that the supervisor sets
	GPUs []string          // full UUIDs, in order; empty when no card is asked for
	// ServedModel is the name that the readiness request sends.
	ServedModel string
	// Remote is the base URL of an engine that somebody else runs; Args are not used.
	Remote string
}

// State of a replica.
type State string

// The states.
const (
	Stopped  State = "stopped"
	Starting State = "starting"
	Ready    State = "ready"
	Suspect  State = "suspect"  // runs, but its health probe fails or is late, or it hangs
	Stopping State = "stopping" // drains or is being ended
	Backoff  State = "backoff"  // failed, will start again
	Failed   State = "failed"   // failed, waits for a person
)

// Status is what is the case with one replica. It is a value: safe to keep.
type Status struct {
	ID          ReplicaID
	State       State
	Message     string // one or two sentences: what, why, what to do
	Since       time.Time
	Phase       string // what a start is doing: "loading weights"
	Silent      bool   // suspect and to be taken out of rotation: it refuses its probes, hangs, or does no work; false while it is only slow
	PID         int
	Port        int
	URL         string
	Incarnation uint64 // number of its present or last life, from 1; persists over the daemon's restarts
	Restarts    int    // starts after a failure within the present budget
	NextStart   time.Time
	GPUs        []string // that it has or waits for, in order; nil when it has stopped
	APIKey      string   // that its engine asks for, of this life alone; empty for an engine that somebody else runs. Never shown or logged
	Command     []string
	LastLine    string
	LastExit    int // exit code, or 128 plus the signal; -1 when it never ended
	Engine      EngineFigures
}

// EngineFigures are an engine's own figures, from its metrics, its version and its
// log. A pointer is nil when the engine does not report the value.
type EngineFigures = vllm.Figures

// ErrEngineEnded is the cause of the context of Hooks.BeforeStop when the engine has
// ended by itself.
var ErrEngineEnded = errors.New("the engine ended by itself")

// Hooks let the data plane prepare for what happens to a replica. They are called
// from the replica's own goroutine and may block it, never the others.
type Hooks struct {
	// BeforeStop takes the replica out of rotation, waits until it has no request in
	// flight or ctx ends, and then cuts the connections that are left. An engine that
	// gets SIGTERM while a stream is open hangs for ever. When the cause of ctx's end is
	// ErrEngineEnded there is nothing to wait for: nobody stopped the engine.
	BeforeStop func(ctx context.Context, id ReplicaID)
	// Changed is called after every change of a status. It must not block.
	Changed func(Status)
	// InFlight says how many requests the data plane has at a replica; nil knows of
	// none. It is called about once a second and must not block.
	InFlight func(id ReplicaID) int
}

// LogLine is one line of an engine's log.
type LogLine struct {
	Incarnation uint64
	Time        time.Time
	Text        string
}
