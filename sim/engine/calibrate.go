package engine

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Sample is what a live engine's own counters say about two kinds of work, each done
// while the engine did nothing else: prompts read one at a time, and one sequence that
// decoded alone. Differences of counters before and after are what is meant.
type Sample struct {
	Prompts         int           // read
	PromptTokens    int           // of all of them together, those from the cache included
	CachedTokens    int           // of them, not computed
	PrefillTime     time.Duration // from being scheduled to the first token, all together
	ChunkTokens     int           // most tokens that the engine computes in one step
	DecodeTokens    int           // output tokens after the first one
	DecodeTime      time.Duration // from the first token to the last
	DecodeContext   int           // tokens of context while they were made, on average
	CapacityTokens  int           // KV tokens that the engine reports; 0 when it does not
	UtilizedPortion float64       // of the card's memory that the engine may use, 0 to 1
}

// Calibrate fits the effective figures of a card to what an engine with this model was
// seen to do: the operations in a second to the prompts that it read, the bandwidth to
// the steps that it decoded with, and the overhead to the cache that it reports. The
// model's own figures and the card's memory stay as they are. An error says which part
// of the sample cannot be.
//
// The fit is exact for the sample and nothing else: other depths of context and other
// batches follow from the model of a step.
func (p Preset) Calibrate(s Sample) (Preset, error) {
	computed := s.PromptTokens - s.CachedTokens
	switch {
	case s.Prompts < 1 || s.CachedTokens < 0 || computed < s.Prompts:
		return p, fmt.Errorf("%d prompts of %d tokens, %d of them cached, say nothing about the speed of reading", s.Prompts, s.PromptTokens, s.CachedTokens)
	case s.ChunkTokens < 1:
		return p, errors.New("the tokens of one step must be known to tell how many steps a prompt took")
	case s.PrefillTime <= 0 || s.DecodeTime <= 0 || s.DecodeTokens < 1 || s.DecodeContext < 0:
		return p, fmt.Errorf("%s for prompts and %s for %d output tokens cannot be", s.PrefillTime, s.DecodeTime, s.DecodeTokens)
	}
	// A decoding step reads the weights and the context: base + (weights + KV) / bandwidth.
	base := p.Cost(1, 1).Base.Seconds()
	step := s.DecodeTime.Seconds()/float64(s.DecodeTokens) - base
	if step <= 0 {
		return p, fmt.Errorf("a decoding step of %s is shorter than what every step takes", s.DecodeTime/time.Duration(s.DecodeTokens))
	}
	fitted := p
	fitted.Card.Bandwidth = (p.Model.Weights + p.Model.KVBytes*float64(s.DecodeContext)) / step

	// A prompt is read in chunks: base each, and operations in proportion to its tokens
	// and to the pairs of tokens. The last, short chunk may be bound by the weights.
	cached := float64(s.CachedTokens) / float64(s.Prompts)
	each := float64(computed) / float64(s.Prompts)
	chunks := math.Ceil(each / float64(s.ChunkTokens))
	time1 := s.PrefillTime.Seconds()/float64(s.Prompts) - chunks*base
	pairs := each * (cached + each/2)
	if time1 <= 0 {
		return p, fmt.Errorf("%.0f tokens read in %s is faster than the steps that it takes", each, s.PrefillTime/time.Duration(s.Prompts))
	}
	fitted.Card.FLOPS = (p.Model.LinearFLOP*each + p.Model.AttnFLOP*pairs) / time1
	if s.CapacityTokens > 0 {
		fitted.Card.Overhead = p.Card.Memory*s.UtilizedPortion - p.Model.Weights - p.Model.KVBytes*float64(s.CapacityTokens)
		if fitted.Card.Overhead < 0 {
			return p, fmt.Errorf("a cache of %d tokens beside the weights does not fit into %.0f %% of %s; the model's figures are those of another one", s.CapacityTokens, 100*s.UtilizedPortion, p.Card.Name)
		}
	}
	return fitted, nil
}
