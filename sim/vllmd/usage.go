package vllmd

import (
	"encoding/json"
	"fmt"
	"time"
)

// nullable encodes as null. It keeps keys that vLLM always writes and we never fill.
type nullable *struct{}

// optional is a value whose key is left out when it is nil.
type optional *json.RawMessage

// jsonNull is never written to.
var jsonNull = json.RawMessage("null")

// raw makes an optional value of JSON.
func raw(text string) optional {
	v := json.RawMessage(text)
	return &v
}

// when returns the value if the release of the call has the feature.
func (c *call) when(f feature, text string) optional {
	if !c.release.has(f) {
		return nil
	}
	return raw(text)
}

// cacheDetails is usage.prompt_tokens_details.
type cacheDetails struct {
	Cached     int      `json:"cached_tokens"`
	Created    optional `json:"created_cache_tokens,omitempty"`
	Multimodal optional `json:"multimodal_tokens,omitempty"`
}

// openAIUsage is the usage of the chat and completions APIs in a whole body.
type openAIUsage struct {
	Prompt            int           `json:"prompt_tokens"`
	Total             int           `json:"total_tokens"`
	Completion        int           `json:"completion_tokens"`
	Details           *cacheDetails `json:"prompt_tokens_details"`
	CompletionDetails nullable      `json:"completion_tokens_details"`
}

// reportsCache says whether the usage of the OpenAI APIs mentions the cache.
func (c *call) reportsCache() bool {
	return c.details && (c.cached() > 0 || c.release.has(zeroCached))
}

// wholeUsage is the usage after the last token. Only the chat API says what the call
// has left in the cache.
func (c *call) wholeUsage(chat bool) openAIUsage {
	p, o := c.promptTokens(), c.outputTokens()
	u := openAIUsage{Prompt: p, Total: p + o, Completion: o}
	if c.reportsCache() {
		created := "null"
		if chat {
			created = fmt.Sprint(c.stored())
		}
		u.Details = &cacheDetails{
			Cached: c.cached(), Created: c.when(createdTokens, created), Multimodal: c.when(multimodalTokens, "null"),
		}
	}
	return u
}

// streamCounts is the usage in the middle of a stream, after n tokens of a sequence. The
// chat API has a key more than the completions API.
func (c *call) streamCounts(q *sequence, n int, chat bool) string {
	p := len(q.prompt)
	u := fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d`, p, p+n, n)
	if chat {
		u += `,"completion_tokens_details":null`
	}
	return u + "}"
}

// streamUsage is the usage at the end of a stream; only this one has the cache's details.
func (c *call) streamUsage(chat bool) string {
	p, o := c.promptTokens(), c.outputTokens()
	u := fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d`, p, p+o, o)
	if c.reportsCache() {
		u += fmt.Sprintf(`,"prompt_tokens_details":{"cached_tokens":%d`, c.cached())
		if chat && c.release.has(createdTokens) {
			u += fmt.Sprintf(`,"created_cache_tokens":%d`, c.stored())
		}
		u += "}"
	}
	return u + "}"
}

// anthropicUsage is the usage after the last token. Without the details flag the input
// is the whole prompt and the cache is not mentioned, as in releases that do not know it.
func (c *call) anthropicUsage() string {
	input, output := c.promptTokens(), c.outputTokens()
	if !c.details || !c.release.has(messagesCache) {
		return fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d}`, input, output)
	}
	if !c.release.has(createdTokens) {
		return fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d,"cache_read_input_tokens":%d}`, input-c.cached(), output, c.cached())
	}
	return fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d}`,
		input-c.cached()-c.stored(), output, c.stored(), c.cached())
}

// inputDetails, outputDetails and responseUsage are the usage of the responses API. The
// cached tokens need no flag here.
type inputDetails struct {
	Cached        int      `json:"cached_tokens"`
	Written       optional `json:"cache_write_tokens,omitempty"`
	InputPerTurn  []int    `json:"input_tokens_per_turn"`
	CachedPerTurn []int    `json:"cached_tokens_per_turn"`
}

type outputDetails struct {
	Reasoning         int   `json:"reasoning_tokens"`
	ToolOutput        int   `json:"tool_output_tokens"`
	OutputPerTurn     []int `json:"output_tokens_per_turn"`
	ToolOutputPerTurn []int `json:"tool_output_tokens_per_turn"`
}

type responseUsage struct {
	Input         int           `json:"input_tokens"`
	InputDetails  inputDetails  `json:"input_tokens_details"`
	Output        int           `json:"output_tokens"`
	OutputDetails outputDetails `json:"output_tokens_details"`
	Total         int           `json:"total_tokens"`
}

// responseUsage is the usage after the last token.
func (c *call) responseUsage() *responseUsage {
	p, o, none := c.promptTokens(), c.outputTokens(), []int{}
	return &responseUsage{
		Input: p, Output: o, Total: p + o,
		InputDetails: inputDetails{
			Cached: c.cached(), Written: c.when(createdTokens, fmt.Sprint(c.stored())),
			InputPerTurn: none, CachedPerTurn: none,
		},
		OutputDetails: outputDetails{OutputPerTurn: none, ToolOutputPerTurn: none},
	}
}

// requestMetrics encodes the times of a call of one answer; null when they are not asked
// for, and left out by releases that do not know them.
func (c *call) requestMetrics() optional {
	if !c.release.has(perRequestMetrics) {
		return nil
	}
	if !c.perRequest || len(c.seqs) != 1 {
		return raw("null")
	}
	ev := c.seqs[0].latest
	ms := func(from, to time.Duration) pyFloat { return pyFloat((to - from).Seconds() * 1000) }
	t := ev.Timing
	first, decode := ms(t.Arrived, t.First), ms(t.First, ev.At)
	m := struct {
		First      pyFloat  `json:"time_to_first_token_ms"`
		Generation pyFloat  `json:"generation_time_ms"`
		Queue      pyFloat  `json:"queue_time_ms"`
		Between    optional `json:"mean_itl_ms,omitempty"`
		PerSecond  pyFloat  `json:"tokens_per_second"`
		Spec       optional `json:"speculative_decoding,omitempty"`
	}{First: first, Generation: decode, Queue: ms(t.Arrived, t.Scheduled)}
	if ev.Output > 1 {
		m.Between = raw(string(mustJSON(decode / pyFloat(ev.Output-1))))
	}
	if whole := first + decode; whole > 0 {
		m.PerSecond = pyFloat(ev.Output) / whole * 1000
	}
	if !c.stream { // a stream leaves out what is null
		m.Spec = raw("null")
		if m.Between == nil {
			m.Between = raw("null")
		}
	}
	return raw(string(mustJSON(m)))
}
