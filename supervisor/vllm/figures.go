package vllm

import "time"

// Figures are an engine's own figures, from its metrics, its version and its log. A
// pointer is nil when the engine does not report the value.
type Figures struct {
	At               time.Time // when they were read; zero before the first reading
	Version          string    // empty when not reported
	MaxModelLen      *int64    // tokens
	MaxNumSeqs       *int64
	MaxBatchedTokens *int64   // tokens
	CapacityTokens   *int64   // KV tokens that the engine can hold
	Running          *float64 // requests
	Waiting          *float64 // requests
	KVUsed           *float64 // 0 to 1, blocks held by running requests
	PrefixQueries    *float64 // tokens, counter of this life
	PrefixHits       *float64 // tokens, counter of this life
	PromptTokens     *float64 // counter of this life
	CachedTokens     *float64 // counter of this life
	GenerationTokens *float64 // counter of this life
	Preemptions      *float64 // counter of this life
	Steps            *float64 // of the engine that brought tokens, counter of this life
}
