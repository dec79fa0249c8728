package main

import (
	"encoding/json"
	"fmt"
)

// programConfig is what vllm-router's program scheduling must be told by hand: that a
// session header names a program, how large the cache of an engine is, and what prompts
// and decoding cost there. Its defaults are those of another card, and without the
// first it schedules none of this load.
type programConfig struct {
	EnableKey       string      `json:"program_scheduling_enable_key"`
	GlobalQueue     bool        `json:"global_queue"`
	BindingStrategy string      `json:"binding_strategy"`
	Capacity        int         `json:"token_capacity_per_dp_rank"`
	MetricsInterval float64     `json:"metrics_interval_seconds"`
	MaxActing       float64     `json:"max_acting_ttl_seconds"`
	Window          int         `json:"stats_window_size"`
	Prefill         prefillCost `json:"prefill_cost_model"`
	Decode          decodeCost  `json:"decode_throughput_model"`
}

// prefillCost is the time of a prompt by its length in thousands of tokens.
type prefillCost struct {
	Intercept float64 `json:"intercept_seconds"`
	Linear    float64 `json:"linear_seconds_per_1k_tokens"`
	Quadratic float64 `json:"quadratic_seconds_per_1k_tokens_squared"`
	Alpha     float64 `json:"decode_throughput_alpha"`
}

// decodeCost is the time of a step that decodes.
type decodeCost struct {
	Fixed   float64 `json:"fixed_step_seconds"`
	Request float64 `json:"batch_step_seconds_per_request"`
	Context float64 `json:"context_step_seconds_per_token"`
}

// programs returns the exact figures of the simulated engine, so that no calibration
// can be better, with its own clocks running as much faster as the engines do.
func (b box) programs() programConfig {
	cost := b.preset.Cost(1, 1)
	return programConfig{
		EnableKey: "auto", GlobalQueue: true, BindingStrategy: "least_program_count",
		Capacity:        b.preset.Capacity(utilization, 1, 1),
		MetricsInterval: 1 / b.speed, MaxActing: 10 / b.speed,
		// It keeps no cache before its window is full; of 100 turns an engine, as it has
		// it, a short step would see the end only.
		Window: 20,
		Prefill: prefillCost{
			Intercept: cost.Base.Seconds() / b.speed,
			Linear:    1e3 * cost.Linear / b.speed,
			// Each token attends to half of the prompt on average.
			Quadratic: 1e6 * cost.PrefillAttn / 2 / b.speed,
			Alpha:     0.15, // its default
		},
		Decode: decodeCost{
			Fixed:   (cost.Base.Seconds() + cost.Weights) / b.speed,
			Context: cost.KVRead / b.speed,
		},
	}
}

// programsArm is vllm-router with program scheduling.
func programsArm(name string) arm {
	plain := vllmArm(name)
	plain.command = func(b box) ([]string, error) {
		config, err := json.Marshal(b.programs())
		if err != nil {
			return nil, fmt.Errorf("write the settings of program scheduling: %w", err)
		}
		return vllmArm(name, "--policy", "consistent_hash", "--enable-program-scheduling", "--program-scheduling-config-json", string(config)).command(b)
	}
	return plain
}
