package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

// utilization is the share of a card's memory that an engine takes, as vLLM's own
// default for --gpu-memory-utilization has it.
const utilization = 0.92

// Config of a run.
type Config struct {
	Preset           string         // card and model, see [engine.PresetNames]
	Box              *engine.Preset // when set, the card and model, whatever Preset says
	Replicas         int
	MaxNumSeqs       int
	MaxBatchedTokens int
	BlockSize        int
	CapacityTokens   int // KV tokens of a replica; 0 takes the preset's
	Policy           Policy
	Load             load.Load
	Trace            *load.Trace // when set, it is played instead of Load, once
	Network          time.Duration
	Deaths           []Death
	Warmup           time.Duration // not measured
	Length           time.Duration // measured, after the warm-up
	Seed             uint64
}

// DefaultConfig is the four-card box with the seed's load for 12 minutes after 3 of
// warm-up, with the given policy and conversations. Network is the way of a request to
// the box and of its answer back, together.
func DefaultConfig(p Policy, sessions int) Config {
	l := load.Seed()
	l.Sessions = sessions
	return Config{
		Preset: "a4000/qwen3-4b", Replicas: 4, MaxNumSeqs: 32, MaxBatchedTokens: 2048, BlockSize: 16,
		Policy: p, Load: l, Network: 150 * time.Millisecond, Warmup: 3 * time.Minute, Length: 12 * time.Minute, Seed: 1,
	}
}

// box is what a valid configuration stands for.
type box struct {
	engine   engine.Config
	capacity int
}

// preset returns the card and the model.
func (c Config) preset() (engine.Preset, error) {
	if c.Box != nil {
		return *c.Box, nil
	}
	return engine.FindPreset(c.Preset)
}

// Capacity returns the KV tokens of a replica.
func (c Config) Capacity() (int, error) {
	p, err := c.preset()
	if err != nil || c.CapacityTokens > 0 {
		return c.CapacityTokens, err
	}
	return p.Capacity(utilization, 1, 1), nil
}

// Validate returns an error that says why the configuration cannot be, or nil.
func (c Config) Validate() error {
	b, err := c.build()
	if err == nil {
		_, err = engine.New(b.engine)
	}
	return err
}

// build checks the configuration and sizes the engines.
func (c Config) build() (box, error) {
	preset, err := c.preset()
	if err != nil {
		return box{}, err
	}
	if err := c.validate(); err != nil {
		return box{}, err
	}
	capacity, err := c.Capacity()
	if err != nil {
		return box{}, err
	}
	longest, what := c.Load.Longest(), "a conversation"
	if c.Trace != nil {
		longest, what = c.Trace.Longest(), "a conversation of the trace"
	}
	blocks := capacity / c.BlockSize
	if longest > (blocks-1)*c.BlockSize {
		return box{}, fmt.Errorf("%s grows to %d tokens, but a replica holds %d; make the load smaller or the capacity larger", what, longest, capacity)
	}
	return box{
		capacity: capacity,
		engine: engine.Config{
			BlockSize: c.BlockSize, NumBlocks: blocks, MaxNumSeqs: c.MaxNumSeqs,
			MaxBatchedTokens: c.MaxBatchedTokens, MaxModelLen: longest, Cost: preset.Cost(1, 1),
		},
	}, nil
}

// validate returns an error that names every figure out of range, or nil.
func (c Config) validate() error {
	var errs []error
	atLeast := func(what string, value, least int) {
		if value < least {
			errs = append(errs, fmt.Errorf("%s is %d; it must be at least %d", what, value, least))
		}
	}
	atLeast("the number of replicas", c.Replicas, 1)
	atLeast("the block size", c.BlockSize, 1)
	atLeast("the number of sequences that a replica computes at once", c.MaxNumSeqs, 1)
	atLeast("the number of tokens of one step", c.MaxBatchedTokens, 1)
	atLeast("the capacity of a replica", c.CapacityTokens, 0)
	if c.Length <= 0 || c.Warmup < 0 || c.Network < 0 {
		errs = append(errs, errors.New("the measured time must be above 0, and neither the warm-up nor the network's time below 0"))
	}
	if c.Trace == nil {
		errs = append(errs, c.Load.Validate())
	}
	for i, d := range c.Deaths {
		errs = append(errs, d.validate(c.Replicas))
		for _, other := range c.Deaths[:i] {
			errs = append(errs, d.clash(other))
		}
		if end := c.Warmup + c.Length; d.At > end {
			errs = append(errs, fmt.Errorf("replica %d is to die %s after the beginning, but the run is over after %s", d.Replica, d.At, end))
		}
	}
	return errors.Join(errs...)
}
