package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Card holds the effective figures of one GPU: what a serving engine reaches, not
// what the data sheet promises.
type Card struct {
	Name      string
	Memory    float64 // bytes
	Bandwidth float64 // bytes of memory read in a second
	FLOPS     float64 // floating-point operations in a second
	Overhead  float64 // bytes that weights and KV cache cannot use
}

// Model holds the figures of one model.
type Model struct {
	Name         string
	Architecture string  // class name of the model's code
	Weights      float64 // bytes read in each step
	LinearFLOP   float64 // operations for each token, without attention
	AttnFLOP     float64 // operations for each pair of a token and a token before it
	KVBytes      float64 // bytes of KV cache for each token
	MaxLen       int     // tokens of context when nobody asks for fewer or more
}

// Preset is a card with a model on it.
type Preset struct {
	Card  Card
	Model Model
}

// presets by name. The first is fitted to measurements on a 16 GiB card: 46k tokens
// of KV, 3,080 tok/s of prefill at 7k context, 22.4 ms to read the weights. The second
// has the 125k tokens that such a box reports and the card's bandwidth, scaled; its
// arithmetic, 31 % of what the data sheet says for 8 bits, is fitted to the study's row of
// the rule without admission at 26 conversations of 58k tokens on seven cards.
var presets = map[string]Preset{
	"a4000/qwen3-4b": {
		Card: Card{Name: "NVIDIA RTX A4000", Memory: 17.18e9, Bandwidth: 359e9, FLOPS: 37.5e12, Overhead: 0.97e9},
		Model: Model{
			Name: "Qwen/Qwen3-4B-Instruct-2507", Architecture: "Qwen3ForCausalLM",
			Weights: 8.045e9, LinearFLOP: 8.045e9, AttnFLOP: 590e3, KVBytes: 147456, MaxLen: 32768,
		},
	},
	"5090/27b": {
		Card: Card{Name: "NVIDIA GeForce RTX 5090", Memory: 34.19e9, Bandwidth: 1430e9, FLOPS: 130e12, Overhead: 2.05e9},
		Model: Model{
			Name: "Qwen/Qwen3.6-27B-FP8", Architecture: "Qwen3_5ForConditionalGeneration",
			Weights: 17.1e9, LinearFLOP: 54e9, AttnFLOP: 393e3, KVBytes: 98304, MaxLen: 98304,
		},
	},
}

// PresetNames returns the names that [FindPreset] knows, sorted.
func PresetNames() []string {
	names := make([]string, 0, len(presets))
	for n := range presets {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// FindPreset returns the preset of that name, or an error that lists the names.
func FindPreset(name string) (Preset, error) {
	p, ok := presets[name]
	if !ok {
		return Preset{}, fmt.Errorf("there is no simulated box %q; choose one of %s", name, strings.Join(PresetNames(), ", "))
	}
	return p, nil
}

// Capacity returns how many KV tokens fit on tp cards of which the engine may use the
// share utilization (0 to 1), with KV entries of kvScale times their usual size (0.5
// for 8-bit ones). It is 0 or less when the weights alone do not fit.
func (p Preset) Capacity(utilization float64, tp int, kvScale float64) int {
	n := float64(tp)
	room := n*p.Card.Memory*utilization - p.Model.Weights - n*p.Card.Overhead
	return int(room / (p.Model.KVBytes * kvScale))
}

// Cost returns the step times of the model spread over tp cards.
func (p Preset) Cost(tp int, kvScale float64) Cost {
	// Every card past the first loses a tenth to the exchange between them.
	n := float64(tp)
	if tp > 1 {
		n *= 0.9
	}
	return Cost{
		Base:        time.Millisecond,
		Weights:     p.Model.Weights / (p.Card.Bandwidth * n),
		Linear:      p.Model.LinearFLOP / (p.Card.FLOPS * n),
		PrefillAttn: p.Model.AttnFLOP / (p.Card.FLOPS * n),
		KVRead:      p.Model.KVBytes * kvScale / (p.Card.Bandwidth * n),
	}
}

// Cost is what a step takes: the base, plus the longer of reading the weights and
// computing with them, plus attention of prefilled tokens, plus reading the KV entries
// of the sequences that decode.
type Cost struct {
	Base        time.Duration // launch and scheduling, each step
	Weights     float64       // seconds to read all weights
	Linear      float64       // seconds for each token of the step
	PrefillAttn float64       // seconds for each pair of a prefilled token and a token before it
	KVRead      float64       // seconds for each token of context of a decoding sequence
}

// work is what one step computes.
type work struct {
	tokens  int     // all tokens of the step
	pairs   float64 // prefilled tokens times the tokens before them
	context float64 // tokens of context of decoding sequences
}

// step returns the time that w takes, at least a nanosecond so that time moves.
func (c Cost) step(w work) time.Duration {
	s := max(c.Weights, c.Linear*float64(w.tokens)) + c.PrefillAttn*w.pairs + c.KVRead*w.context
	return max(c.Base+time.Duration(s*float64(time.Second)), 1)
}

// PrefillRate returns the tokens in a second at which prompts are read at the given
// depth of context, when nothing else runs.
func (c Cost) PrefillRate(context int) float64 {
	return 1 / (c.Linear + c.PrefillAttn*float64(context))
}
