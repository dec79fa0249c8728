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
package supervisor
