package vllmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
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

	MaxTokens           *int     `json:"max_tokens"`
	MaxCompletionTokens *int     `json:"max_completion_tokens"`
	MaxOutputTokens     *int     `json:"max_output_tokens"`
	MinTokens           int      `json:"min_tokens"`
	IgnoreEOS           bool     `json:"ignore_eos"`
	ReturnIDs           bool     `json:"return_token_ids"`
	ReturnTexts         bool     `json:"return_token_strs"`
	Tokens              []uint32 `json:"tokens"`
	N                   *int     `json:"n"`
	Temperature         *float64 `json:"temperature"`
	TopP                *float64 `json:"top_p"`

	Stop          json.RawMessage `json:"stop"`
	StopSequences []string        `json:"stop_sequences"`
	StopIDs       []uint32        `json:"stop_token_ids"`
	IncludeStop   bool            `json:"include_stop_str_in_output"`

	Logprobs       json.RawMessage `json:"logprobs"` // a boolean of the chat API, a number of completions
	TopLogprobs    *int            `json:"top_logprobs"`
	PromptLogprobs *int            `json:"prompt_logprobs"`
	Echo           bool            `json:"echo"`
	Suffix         *string         `json:"suffix"`

	Instructions  string          `json:"instructions"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	ParallelCalls *bool           `json:"parallel_tool_calls"`
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
	release      release
	maxTokens    int
	stream       bool
	includeUsage bool
	eachUsage    bool
	details      bool // cached tokens are reported
	perRequest   bool // so are the times of the call
	returnIDs    bool // token ids are part of the answer
	instructions string
	fingerprint  string // "" when the release has none
	modelJSON    []byte // model as a JSON string

	logprobs       int // alternatives of each token; -1 when none are asked for
	promptLogprobs int // the same for the prompt
	tools          []tool
	choice         toolChoice
	callsTool      bool // the answer is a call of a tool
	parallel       bool

	choices int // answers to each prompt
	seqs    []*sequence
}

// known refuses a model that this server does not have.
func (s *server) known(model string) error {
	if s.serves(model) {
		return nil
	}
	msg := fmt.Sprintf("The model `%s` does not exist.", model)
	if s.release.has(aliasesInNotFound) {
		msg += fmt.Sprintf(" Valid aliases: %s.", strings.Join(s.opt.served, ", "))
	}
	return &apiError{http.StatusNotFound, "NotFoundError", msg, "model"}
}

// wish is what an API makes of a body before the checks that are common to all.
type wish struct {
	prompts  [][]uint32
	texts    []string // of the prompts, "" where only tokens were given
	limit    *int     // of the output
	fallback int      // limit when none is given; 0 for as much as fits
	field    string   // name of the field that limits the output
	stops    []string
	logprobs int  // see call
	echo     bool // of the prompt's text
	textOnly bool // without a parser this API answers as if there were no tools
}

// newCall checks what is common to all APIs and decides what will be answered.
func (s *server) newCall(b body, w wish) (*call, error) {
	if err := s.known(b.Model); err != nil {
		return nil, err
	}
	tools := readTools(b.Tools)
	choice := readChoice(b.ToolChoice, tools)
	if !w.textOnly {
		if err := s.checkChoice(choice, tools, len(b.ToolChoice) > 0 && string(b.ToolChoice) != "null"); err != nil {
			return nil, err
		}
	}
	maxTokens := 0
	for _, p := range w.prompts {
		n, err := s.room(len(p), w)
		if err != nil {
			return nil, err
		}
		maxTokens = max(maxTokens, n)
	}
	choices, err := checkSampling(b, maxTokens)
	if err != nil {
		return nil, err
	}
	c := &call{
		id:             fmt.Sprintf("%016x", rand.Uint64()),
		model:          s.opt.served[0],
		modelJSON:      mustJSON(s.opt.served[0]),
		created:        time.Now().Unix(),
		release:        s.release,
		maxTokens:      maxTokens,
		stream:         b.Stream,
		details:        s.opt.promptDetails,
		perRequest:     s.opt.perRequest,
		returnIDs:      b.ReturnIDs,
		instructions:   b.Instructions,
		includeUsage:   s.opt.forceUsage,
		eachUsage:      s.opt.forceUsage,
		logprobs:       w.logprobs,
		promptLogprobs: -1,
		tools:          tools,
		choice:         choice,
		callsTool:      !w.textOnly && len(tools) > 0 && (choice.kind == choiceNamed || choice.kind == choiceRequired),
		parallel:       b.ParallelCalls == nil || *b.ParallelCalls,
		choices:        choices,
	}
	if b.PromptLogprobs != nil {
		c.promptLogprobs = *b.PromptLogprobs
	} else if w.echo {
		c.promptLogprobs = w.logprobs
	}
	if s.release.has(systemFingerprint) {
		c.fingerprint = "vllm-" + s.version + s.layout + "-" + s.fingerprint
	}
	if o := b.StreamOptions; o != nil && o.IncludeUsage {
		c.includeUsage = true
		c.eachUsage = c.eachUsage || o.ContinuousUsage
	}
	for i, p := range w.prompts {
		n, _ := s.room(len(p), w) // it had room above
		l := limits{tokens: max(1, n), least: b.MinTokens, ignoreEnd: b.IgnoreEOS, stops: w.stops, includeStop: b.IncludeStop, stopIDs: b.StopIDs}
		for range choices {
			q := s.newSequence(c, p, saltOf(b.CacheSalt), l)
			q.index, q.silent = len(c.seqs), n == 0
			if w.echo {
				if q.echoed = w.texts[i]; q.echoed == "" {
					q.echoed = detokenize(p)
				}
			}
			c.seqs = append(c.seqs, q)
		}
	}
	return c, nil
}

// room returns how many tokens the answer to a prompt may have. It is 0 only for a
// prompt that is to be echoed and not continued.
func (s *server) room(prompt int, w wish) (int, error) {
	longest := s.maxModelLen
	if prompt >= longest {
		return 0, badRequest("input_tokens", "This model's maximum context length is %d tokens. However, your prompt contains at least %d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=%d)", longest, longest+1, longest+1)
	}
	room := longest - prompt
	n := w.fallback
	switch {
	case w.limit != nil:
		n = *w.limit
	case n == 0:
		n = room
	}
	switch {
	case n == 0 && w.echo:
		return 0, nil
	case n < 1:
		return 0, badRequest(w.field, "%s must be at least 1, got %d. (parameter=%s, value=%d)", w.field, n, w.field, n)
	case n > longest:
		return 0, badRequest(w.field, "%[1]s=%[2]d cannot be greater than max_model_len=%[3]d. Please request fewer output tokens. (parameter=%[1]s, value=%[2]d)", w.field, n, longest)
	case n > room:
		return 0, badRequest("input_tokens", "This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=%d)", longest, n, prompt, prompt+n, prompt)
	}
	return n, nil
}

// mostChoices is more than anybody asks for, and few enough to hold.
const mostChoices = 128

// checkSampling refuses parameters that no sampler takes, and returns the number of
// choices. The simulation does not sample, but what is refused is refused here too.
func checkSampling(b body, maxTokens int) (choices int, err error) {
	choices = 1
	if b.N != nil {
		choices = *b.N
	}
	temperature := 1.0
	if b.Temperature != nil {
		temperature = *b.Temperature
	}
	switch {
	case choices < 1:
		return 0, badRequest("", "n must be at least 1, got %d.", choices)
	case choices > mostChoices:
		return 0, badRequest("", "n must be at most %d, got %d.", mostChoices, choices)
	case temperature < 0:
		return 0, badRequest("temperature", "temperature must be non-negative, got %[1]s. (parameter=temperature, value=%[1]s)", pyNumber(temperature))
	case temperature > 2:
		return 0, badRequest("temperature", "temperature must be in [0, 2], got %[1]s. (parameter=temperature, value=%[1]s)", pyNumber(temperature))
	case b.TopP != nil && (*b.TopP <= 0 || *b.TopP > 1):
		return 0, badRequest("top_p", "top_p must be in (0, 1], got %[1]s. (parameter=top_p, value=%[1]s)", pyNumber(*b.TopP))
	case b.MinTokens < 0:
		return 0, badRequest("", "min_tokens must be greater than or equal to 0, got %d.", b.MinTokens)
	case b.MinTokens > maxTokens:
		return 0, badRequest("", "min_tokens must be less than or equal to max_tokens=%d, got %d.", maxTokens, b.MinTokens)
	case choices > 1 && temperature == 0:
		return 0, badRequest("", "n must be 1 when using greedy sampling, got %d.", choices)
	}
	return choices, nil
}

// newSequence decides one answer to a prompt; the choices of a call differ.
func (s *server) newSequence(c *call, prompt []uint32, salt uint64, l limits) *sequence {
	h := engine.NewHasher(s.opt.blockSize, salt)
	h.Append(prompt...)
	sum := h.Sum() + uint64(len(c.seqs)%max(1, c.choices))*0x9e3779b97f4a7c15
	q := &sequence{prompt: prompt}
	if c.callsTool {
		q.answer = callTool(sum, c.choice, c.tools, l)
	} else {
		q.answer = newAnswer(sum, l)
	}
	h.Append(q.answer.ids...)
	if s.opt.prefixCaching {
		q.cacheable = (len(prompt) - 1) / s.opt.blockSize * s.opt.blockSize
	}
	q.request = engine.Request{Prompt: len(prompt), Output: len(q.answer.ids), Hashes: h.Hashes()}
	return q
}

// readStops reads a text or a list of texts.
func readStops(raw json.RawMessage) ([]string, error) {
	var one string
	var list []string
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case json.Unmarshal(raw, &one) == nil:
		list = []string{one}
	case json.Unmarshal(raw, &list) != nil:
		return nil, invalid("body.stop", "{'type': 'string_type', 'loc': 'body.stop', 'msg': 'Input should be a valid string', 'input': '<no text>'}")
	}
	if slices.Contains(list, "") {
		return nil, badRequest("", "stop cannot contain an empty string.")
	}
	return list, nil
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
