package engine

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// measure runs an engine on a card and reads a sample off its events.
func measure(t *rapid.T, p Preset, prompts, tokens, output int) Sample {
	capacity := p.Capacity(0.92, 1, 1)
	e, err := New(Config{
		BlockSize: 16, NumBlocks: capacity / 16, MaxNumSeqs: 8, MaxBatchedTokens: 2048,
		MaxModelLen: tokens + output, Cost: p.Cost(1, 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := Sample{Prompts: prompts, ChunkTokens: 2048, CapacityTokens: capacity, UtilizedPortion: 0.92}
	now := time.Duration(0)
	one := func(output int) (scheduled, first, last time.Duration) {
		if _, err := e.Add(now, Request{Prompt: tokens, Output: output}); err != nil {
			t.Fatal(err)
		}
		for {
			end, busy := e.Next()
			if !busy {
				return scheduled, first, last
			}
			now = end
			e.Advance(now, func(ev Event) { scheduled, first, last = ev.Timing.Scheduled, ev.Timing.First, ev.At })
		}
	}
	for range prompts {
		scheduled, first, _ := one(1)
		s.PromptTokens += tokens
		s.PrefillTime += first - scheduled
	}
	_, first, last := one(output)
	s.DecodeTokens, s.DecodeTime, s.DecodeContext = output-1, last-first, tokens+output/2
	return s
}

// TestCalibrate lets engines with other cards measure themselves: the fit finds the card
// again.
func TestCalibrate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(PresetNames()).Draw(t, "preset")
		known, err := FindPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		truth := known
		truth.Card.Bandwidth *= rapid.Float64Range(0.5, 2).Draw(t, "bandwidth")
		truth.Card.FLOPS *= rapid.Float64Range(0.5, 2).Draw(t, "operations")
		truth.Card.Overhead *= rapid.Float64Range(0.7, 1.3).Draw(t, "overhead")
		// Whole chunks: no step is bound by reading the weights.
		s := measure(t, truth, rapid.IntRange(1, 3).Draw(t, "prompts"), 2048*rapid.IntRange(2, 6).Draw(t, "chunks"), 200)
		fitted, err := known.Calibrate(s)
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, got, want, within float64) {
			if math.Abs(got/want-1) > within {
				t.Errorf("%s: %.4g, the engine had %.4g", what, got, want)
			}
		}
		near("bandwidth", fitted.Card.Bandwidth, truth.Card.Bandwidth, 0.005)
		near("operations", fitted.Card.FLOPS, truth.Card.FLOPS, 0.02)
		near("capacity", float64(fitted.Capacity(0.92, 1, 1)), float64(truth.Capacity(0.92, 1, 1)), 0.001)
		if fitted.Model != known.Model || fitted.Card.Memory != known.Card.Memory {
			t.Error("the fit changed what it must leave")
		}
	})
}

func TestCalibrateRefusals(t *testing.T) {
	p, err := FindPreset("a4000/qwen3-4b")
	if err != nil {
		t.Fatal(err)
	}
	good := Sample{Prompts: 1, PromptTokens: 8192, PrefillTime: 3 * time.Second, ChunkTokens: 2048, DecodeTokens: 100, DecodeTime: 3 * time.Second, DecodeContext: 8000}
	if _, err := p.Calibrate(good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Sample){
		"speed of reading":   func(s *Sample) { s.CachedTokens = 8192 },
		"0 prompts":          func(s *Sample) { s.Prompts = 0 },
		"one step":           func(s *Sample) { s.ChunkTokens = 0 },
		"0 output tokens":    func(s *Sample) { s.DecodeTokens = 0 },
		"shorter than":       func(s *Sample) { s.DecodeTime = time.Millisecond },
		"faster than":        func(s *Sample) { s.PrefillTime = time.Millisecond },
		"does not fit into":  func(s *Sample) { s.CapacityTokens, s.UtilizedPortion = 900_000, 0.92 },
		"0s for prompts":     func(s *Sample) { s.PrefillTime = 0 },
		"-1 of them cached,": func(s *Sample) { s.CachedTokens = -1 },
	} {
		s := good
		change(&s)
		if fitted, err := p.Calibrate(s); err == nil || !strings.Contains(err.Error(), want) || fitted != p {
			t.Errorf("error %v, want one with %q and the figures as they were", err, want)
		}
	}
}
