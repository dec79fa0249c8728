// Package supervisor owns engine processes.
//
// It is told which replicas should run ([Supervisor.Apply]) and makes it so: one
// goroutine per replica is the only writer of its state, starts the engine in a
// process group and session of its own, waits until it answers a real request,
// watches it, restarts it with back-off, and ends its whole process tree. It knows
// vLLM (package vllm), cards (package gpu) and layouts (package layout), and nothing
// of requests, routing, the store or the API.
//
//	stopped -> starting -> ready <-> suspect
//	   ^          |          |
//	   |          v          v
//	stopping <- backoff / failed
//
// # Whose process is it
//
// An engine is a tree whose root can die before its children, which then hold a card
// without an owner. So every process of one life of a replica carries a token in its
// environment (LMWARDEN_REPLICA=model/index/incarnation/random), and a replica counts
// as stopped only when no process is left that has the token, is in the root's session
// or descends from either ([family]). This process becomes the reaper of orphans
// (PR_SET_CHILD_SUBREAPER); it waits for single pids only and leaves those that it has
// started to os/exec.
//
// # Does it work
//
// Ready means that it has answered a request. Suspect means that its health probe is
// late, is refused or is never answered, or that it hangs although the probe is answered
// ([pulse]). In all but the first case it leaves rotation; when it goes on refusing, or
// hanging behind a good probe, it is ended.
//
// # When the daemon itself dies
//
// run/MODEL/INDEX.json names the present life: number, token, pid, start time, boot.
// It is written before there is a process, and [New] ends whatever of it still runs
// before anything is started beside it. The number goes on counting, so that an
// incarnation never means two lives. Taking over a running engine instead of ending it
// begins from the same record; today an engine's log is a pipe to this process, which
// it would have to outlive.
//
// The package needs Linux with /proc.
package supervisor
