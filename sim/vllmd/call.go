package vllmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
)

// body is what all APIs' requests are decoded into. Fields that only one of them has
// are of that one.
type body struct {
	Model     string          `json:"model"`
	Stream    bool            `json:"stream"`
	Messages  []chatMessage   `json:"messages"`
	Prompt    json.RawMessage `json:"prompt"`
	Input     json.RawMessage `json:"input"`
	System    json.RawMessage `json:"system"`
	Tools     json.RawMessage `json:"tools"`
	CacheSalt string          `json:"cache_salt"`

	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
	MaxOutputTokens     *int `json:"max_output_tokens"`
	MinTokens           int  `json:"min_tokens"`
	IgnoreEOS           bool `json:"ignore_eos"`
	ReturnIDs           bool `json:"return_token_ids"`

	Instructions  string          `json:"instructions"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	StreamOptions *struct {
		IncludeUsage    bool `json:"include_usage"`
		ContinuousUsage bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

// readBody reads and decodes a request. Required names fields that must be there.
func readBody(r *http.Request, required ...string) (body, error) {
	var b body
	if ct, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); ct != "application/json" {
		return b, invalid("", "Unsupported Media Type: Only 'application/json' is allowed")
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return b, fmt.Errorf("read the request: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return b, decodeError(err, raw)
	}
	for _, f := range required {
		if v, ok := fields[f]; !ok || bytes.Equal(v, []byte("null")) {
			return b, missing(f, fields)
		}
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return b, decodeError(err, raw)
	}
	return b, nil
}

// call is one request for tokens, from a valid body to its last token.
type call struct {
	id           string // hex part of the ids in the answer
	model        string
	created      int64
	prompt       []uint32
	maxTokens    int
	stream       bool
	includeUsage bool
	eachUsage    bool
	details      bool // cached tokens are reported
	returnIDs    bool // token ids are part of the answer
	told         int  // output tokens whose ids a stream has had
	instructions string
	answer       answer
	request      engine.Request
	fingerprint  string
	modelJSON    []byte // model as a JSON string
	cached       int    // prompt tokens found in the cache, known from the first token on
	cacheable    int    // prompt tokens in blocks that can be found again
}

// known refuses a model that this server does not have.
func (s *server) known(model string) error {
	if s.serves(model) {
		return nil
	}
	return &apiError{
		http.StatusNotFound, "NotFoundError",
		fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", model, strings.Join(s.opt.served, ", ")), "model",
	}
}

// newCall checks what is common to all APIs. field is the name of the one that
// limits the output; fallback the limit when none is given, 0 for as much as fits.
func (s *server) newCall(b body, prompt []uint32, limit *int, fallback int, field string) (*call, error) {
	if err := s.known(b.Model); err != nil {
		return nil, err
	}
	if choice := string(b.ToolChoice); hasTools(b.Tools) && !s.opt.tools && choice != `"none"` {
		return nil, badRequest("", `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`)
	}
	longest := s.maxModelLen
	if len(prompt) >= longest {
		return nil, badRequest("input_tokens", "This model's maximum context length is %d tokens. However, your prompt contains at least %d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=%d)", longest, longest+1, longest+1)
	}
	room := longest - len(prompt)
	maxTokens := fallback
	switch {
	case limit != nil:
		maxTokens = *limit
	case fallback == 0:
		maxTokens = room
	}
	if maxTokens < 1 {
		return nil, badRequest(field, "%s must be at least 1, got %d. (parameter=%s, value=%d)", field, maxTokens, field, maxTokens)
	}
	if maxTokens > longest {
		return nil, badRequest(field, "%[1]s=%[2]d cannot be greater than max_model_len=%[3]d. Please request fewer output tokens. (parameter=%[1]s, value=%[2]d)", field, maxTokens, longest)
	}
	if maxTokens > room {
		return nil, badRequest("input_tokens", "This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=%d)", longest, maxTokens, len(prompt), len(prompt)+maxTokens, len(prompt))
	}
	c := &call{
		id:           fmt.Sprintf("%016x", rand.Uint64()),
		model:        s.opt.served[0],
		modelJSON:    mustJSON(s.opt.served[0]),
		created:      time.Now().Unix(),
		prompt:       prompt,
		maxTokens:    maxTokens,
		stream:       b.Stream,
		details:      s.opt.promptDetails,
		returnIDs:    b.ReturnIDs,
		instructions: b.Instructions,
		fingerprint:  "vllm-" + version + "-" + s.fingerprint,
		includeUsage: s.opt.forceUsage,
		eachUsage:    s.opt.forceUsage,
	}
	if o := b.StreamOptions; o != nil && o.IncludeUsage {
		c.includeUsage = true
		c.eachUsage = c.eachUsage || o.ContinuousUsage
	}
	h := engine.NewHasher(s.opt.blockSize, saltOf(b.CacheSalt))
	h.Append(prompt...)
	c.answer = newAnswer(h.Sum(), maxTokens, b.MinTokens, b.IgnoreEOS)
	h.Append(c.answer.ids...)
	if s.opt.prefixCaching {
		c.cacheable = (len(prompt) - 1) / s.opt.blockSize * s.opt.blockSize
	}
	c.request = engine.Request{Prompt: len(prompt), Output: len(c.answer.ids), Hashes: h.Hashes()}
	return c, nil
}

// saltOf folds a request's cache salt into a number; no salt is 0.
func saltOf(salt string) uint64 {
	h := uint64(0)
	for i := range len(salt) {
		h = h*1099511628211 + uint64(salt[i]) + 1
	}
	return h
}

// hasTools is true for a list with an entry.
func hasTools(raw json.RawMessage) bool {
	var list []json.RawMessage
	return json.Unmarshal(raw, &list) == nil && len(list) > 0
}

// toolText is the part of a prompt that describes tools.
func toolText(raw json.RawMessage) string {
	if !hasTools(raw) {
		return ""
	}
	return string(raw)
}

// rankOf reads the X-data-parallel-rank header: -1 when there is none, or when it is
// not a number, which is ignored.
func (s *server) rankOf(r *http.Request) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(r.Header.Get("X-Data-Parallel-Rank")))
	if err != nil {
		return -1, nil //nolint:nilerr // vLLM ignores what is not a number
	}
	if n < 0 || n >= len(s.cores) {
		return 0, badRequest("", "data_parallel_rank %d is out of range [0, %d).", n, len(s.cores))
	}
	return n, nil
}
