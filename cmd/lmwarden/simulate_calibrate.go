package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	promodel "github.com/prometheus/common/model"

	"github.com/lmwarden/lmwarden/bench"
	"github.com/lmwarden/lmwarden/bench/report"
	"github.com/lmwarden/lmwarden/sim/engine"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

// The work with which an engine is measured, in tokens of it.
const (
	probePrompts = 3
	probePrompt  = 8000
	probeShort   = 200
	probeOutput  = 256
)

// How long the engine may be silent: with a long prompt, which a slow one reads for minutes,
// and with its counters.
const (
	probePatience  = 10 * time.Minute
	scrapePatience = time.Minute
)

// utilizedPortion of a card's memory is vLLM's own default.
const utilizedPortion = 0.92

// counters is what a vLLM says of itself that a calibration needs.
type counters struct {
	engines, busy         int
	prompt, cached        float64
	generated             float64
	prefill, decode       float64 // seconds
	prefillCount, decodes uint64
	capacity              int
}

// calibrate measures an idle vLLM by its own counters, and returns the preset with the
// card that it seems to have. It sends prompts of its own, which no cache holds.
func (a *app) calibrate(ctx context.Context, f simulateFlags, preset engine.Preset) (engine.Preset, error) {
	if f.model == "" {
		return preset, usageErrorf("--calibrate needs --model: the name that the engine knows its model by")
	}
	client := &bench.Client{
		BaseURL: f.calibrate, Model: f.model, Key: a.getenv("LMWARDEN_KEY"), API: bench.Chat, HTTP: bench.NewHTTPClient(1),
	}
	defer client.HTTP.CloseIdleConnections()
	fmt.Fprintf(a.err, "measuring %s at %s with %s of %s tokens and an answer of %d ...\n", f.model, f.calibrate,
		plural(probePrompts, "prompt", "prompts"), tokens(probePrompt), probeOutput)
	seed := uint64(a.now().UnixNano())
	ratio, err := client.Calibrate(ctx, seed)
	if err != nil {
		return preset, benchFailure(ctx, f.calibrate, err)
	}
	// Each probe is a conversation of one turn and a text of its own.
	probe := func(i, tokens, output int) error {
		l := bench.Load{Load: load.Load{First: load.Size{Min: tokens, Max: tokens}, Turns: 1, TurnTokens: 1, OutputTokens: output}, BytesPerToken: ratio}
		script := bench.NewScript(l, seed, "probe", 0, i)
		said, _ := script.Next()
		_, err := client.Probe(ctx, bench.Ask{Conversation: script.ID, History: []bench.Message{{Role: "user", Text: said.Text}}, MaxTokens: output}, probePatience)
		return err
	}
	before, err := scrapeIdle(ctx, client)
	if err != nil {
		return preset, err
	}
	for i := range probePrompts {
		if err := probe(i, probePrompt, 1); err != nil {
			return preset, benchFailure(ctx, f.calibrate, err)
		}
	}
	between, err := scrapeIdle(ctx, client)
	if err != nil {
		return preset, err
	}
	if err := probe(probePrompts, probeShort, probeOutput); err != nil {
		return preset, benchFailure(ctx, f.calibrate, err)
	}
	after, err := scrapeIdle(ctx, client)
	if err != nil {
		return preset, err
	}
	if between.prefillCount-before.prefillCount != probePrompts || after.decodes-between.decodes != 1 {
		return preset, fmt.Errorf("%s served others meanwhile; its counters say nothing about a single request", f.calibrate)
	}
	made := after.generated - between.generated
	return preset.Calibrate(engine.Sample{
		Prompts: probePrompts, PromptTokens: int(between.prompt - before.prompt), CachedTokens: int(between.cached - before.cached),
		PrefillTime: duration(between.prefill - before.prefill), ChunkTokens: f.batched,
		DecodeTokens: int(made) - 1, DecodeTime: duration(after.decode - between.decode),
		DecodeContext:  int(after.prompt - between.prompt + made/2),
		CapacityTokens: after.capacity, UtilizedPortion: utilizedPortion,
	})
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// scrapeIdle reads the counters of an engine that does nothing now.
func scrapeIdle(ctx context.Context, c *bench.Client) (counters, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, scrapePatience, fmt.Errorf("they did not come within %s", scrapePatience))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(c.BaseURL, "/")+"/metrics", http.NoBody)
	if err != nil {
		return counters{}, fmt.Errorf("%q is not the URL of an engine: %w", c.BaseURL, err)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return counters{}, fmt.Errorf("the metrics of %s cannot be read: %w", c.BaseURL, cmp.Or(context.Cause(ctx), err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return counters{}, fmt.Errorf("%s answered %d to /metrics; is it a vLLM's own address?", c.BaseURL, resp.StatusCode)
	}
	parser := expfmt.NewTextParser(promodel.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return counters{}, fmt.Errorf("the metrics of %s cannot be read: %w", c.BaseURL, cmp.Or(context.Cause(ctx), err))
	}
	m := readCounters(families)
	switch {
	case m.engines != 1:
		return m, fmt.Errorf("%s reports %d engines; name the address of one vLLM with one engine", c.BaseURL, m.engines)
	case m.busy > 0:
		return m, fmt.Errorf("%s is serving %s; calibrate an idle engine", c.BaseURL, plural(m.busy, "request", "requests"))
	}
	return m, nil
}

// readCounters picks what is needed.
func readCounters(families map[string]*dto.MetricFamily) counters {
	sum := func(name string) (total float64, n int) {
		for _, m := range families["vllm:"+name].GetMetric() {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			n++
		}
		return total, n
	}
	histogram := func(name string) (seconds float64, count uint64) {
		for _, m := range families["vllm:"+name].GetMetric() {
			seconds += m.GetHistogram().GetSampleSum()
			count += m.GetHistogram().GetSampleCount()
		}
		return seconds, count
	}
	var c counters
	running, engines := sum("num_requests_running")
	waiting, _ := sum("num_requests_waiting")
	c.engines, c.busy = engines, int(running+waiting)
	c.prompt, _ = sum("prompt_tokens_total")
	c.generated, _ = sum("generation_tokens_total")
	c.cached, _ = sum("prefix_cache_hits_total")
	c.prefill, c.prefillCount = histogram("request_prefill_time_seconds")
	c.decode, c.decodes = histogram("request_decode_time_seconds")
	for _, m := range families["vllm:cache_config_info"].GetMetric() {
		label := make(map[string]int)
		for _, l := range m.GetLabel() {
			if n, err := strconv.Atoi(l.GetValue()); err == nil {
				label[l.GetName()] = n
			}
		}
		c.capacity = label["kv_cache_size_tokens"]
		if c.capacity == 0 {
			c.capacity = label["num_gpu_blocks"] * label["block_size"]
		}
	}
	return c
}

// calibrated fits the base of a series to a live engine, if one is named, and says how. A
// series that goes on is of the engine as it was measured when the series began: measured
// again it would be a little faster or slower, and the runs would not belong together.
func (a *app) calibrated(ctx context.Context, f simulateFlags, s *series) error {
	if f.calibrate == "" {
		return nil
	}
	preset, err := engine.FindPreset(s.base.Preset)
	if err != nil {
		return err
	}
	var kept simulateSettings
	begun, err := report.KeptSettings(f.resume, &kept)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	said := f.calibrate
	if begun && kept.Calibrated != nil && kept.CalibratedFrom == f.calibratedFrom() && kept.Preset == s.base.Preset {
		preset = *kept.Calibrated
		said += " as it was when " + f.resume + " began"
	} else if preset, err = a.calibrate(ctx, f, preset); err != nil {
		return err
	}
	s.base.Box = &preset
	cost := preset.Cost(1, 1)
	fmt.Fprintf(a.err, "%s: %.0f tokens a second read at 4k of context, %.1f ms a step to decode, %s KV tokens\n", said,
		cost.PrefillRate(4000), 1000*cost.Weights, tokens(preset.Capacity(utilizedPortion, 1, 1)))
	if err := s.base.Validate(); err != nil {
		return errors.Join(errors.New("the engine was measured, but the load does not fit it"), err)
	}
	s.settings, err = f.settings(s.base)
	return err
}

// calibratedFrom names the engine that --calibrate measures; empty without.
func (f simulateFlags) calibratedFrom() string {
	if f.calibrate == "" {
		return ""
	}
	return f.calibrate + " " + f.model
}
