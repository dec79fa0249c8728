// Package vllmd is a stand-in for vLLM as a process, 0.32 unless another is asked for: the same command line, log
// lines, HTTP surface, metrics and process tree, with [engine.Engine] in the place of
// the GPU. It exists so that everything which starts, watches and talks to engines can
// be tried on a machine without one.
//
// What it answers is deterministic: the same prompt gives the same words. Its
// tokenizer is its own (see tokenize), but has the property that matters to a prefix
// cache: a text that begins with another begins with the other's tokens.
//
// What clients and supervisors see of it is held against a real vLLM by the table in
// tests/contract. Where the real one leaves something to chance, this one takes the
// worse turn: on SIGTERM a stream may still be told that it was aborted, be broken off
// with an error, or hang until its client goes away; here it hangs.
//
// One process is the API server, or stands for all of several, and holds the model. It starts a child with the title
// VLLM::EngineCore, as vLLM does; the child does nothing but live. It outlives a killed
// parent, and when it dies the parent's engine is dead.
//
// # Environment
//
// These variables belong to the simulation and have no counterpart in vLLM:
//
//	LMWARDEN_SIM_VERSION the vLLM to play, 0.19 to 0.33 (0.32); release.go says what differs
//	LMWARDEN_SIM_PRESET  card and model, see engine.PresetNames (a4000/qwen3-4b)
//	LMWARDEN_SIM_SPEED   how many times faster than real the engine runs (1)
//	LMWARDEN_SIM_START   how long the start takes, a Go duration (1s)
//	LMWARDEN_SIM_FAULT   faults, comma separated, see below
//
// # Faults
//
// Faults can also be set while it runs: POST /sim/fault {"fault":"cut=3,wedge"} replaces
// all of them, an empty string clears them, GET shows them.
//
//	refuse[=D]     new connections are reset, for the duration D or for good
//	hang           no request is answered, not even /health
//	wedge          /health is 200, but no token comes and no figure changes
//	500            requests for tokens fail with status 500
//	cut=N          streams break off after N tokens, without an end
//	slow-start=D   the start takes D longer (only in the environment)
//	ignore-term    SIGTERM does nothing
//	die=CODE[@D]   the process exits with CODE, D after it is ready or at once
//	flood-log      a thousand log lines in a second
//	orphan         a child stays behind when it stops (only in the environment)
package vllmd
