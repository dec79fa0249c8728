// Package engine is a model of a vLLM V1 engine: its block cache, its scheduler and
// the time that its steps take. It computes no text; it says when tokens appear and
// how much of a prompt was served from the prefix cache.
//
// The engine is pure. It has no goroutine and reads no clock: the caller hands in the
// time, as a duration since an origin of its choice, and is called back for each
// token. The same calls give the same answers.
//
//   - [Hasher] turns a growing token sequence into the hashes of its full blocks, so
//     that a conversation is hashed once and not once a turn.
//   - cache is the pool of KV blocks with the rules of vLLM 0.32's prefix cache.
//   - [Engine] schedules: first come first served, chunked prefill, whole-prompt
//     admission, preemption of the last comer by recomputation.
//   - [Cost] is the time of one step, from the figures of a [Card] and a [Model];
//     a [Preset] is a card and a model whose figures were fitted to measurements.
//
// A step costs time in proportion to the running sequences, some hundred nanoseconds
// in all, so a quarter of an hour of four busy replicas takes well under a second
// and no step needs to be skipped.
package engine
