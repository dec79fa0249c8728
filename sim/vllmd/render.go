package vllmd

import (
	"fmt"
	"net/http"
)

// samplingParams are those of a rendered request. The simulation does not sample: what
// it does not keep of a request has vLLM's defaults.
type samplingParams struct {
	PresencePenalty   pyFloat `json:"presence_penalty"`
	FrequencyPenalty  pyFloat `json:"frequency_penalty"`
	RepetitionPenalty pyFloat `json:"repetition_penalty"`
	Temperature       pyFloat `json:"temperature"`
	TopP              pyFloat `json:"top_p"`
	MinP              pyFloat `json:"min_p"`
	Stop              []int   `json:"stop"`
	StopTokenIDs      []int   `json:"stop_token_ids"`
	MaxTokens         int     `json:"max_tokens"`
	OutputKind        int     `json:"output_kind"`
	SkipClone         bool    `json:"skip_clone"`
	BadWords          []int   `json:"bad_words"`
	SkipReadingCache  bool    `json:"skip_reading_prefix_cache"`
}

// Kinds of output, as vLLM numbers them.
const (
	outputDeltas = 1 // a stream
	outputWhole  = 2 // one body
)

// streamOptions are those of a rendered stream.
type streamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"`
}

// renderedRequest is a request whose prompt has become tokens: what routers ask for to
// know what a prefix cache holds.
type renderedRequest struct {
	RequestID      string         `json:"request_id"`
	TokenIDs       []uint32       `json:"token_ids"`
	TokenOffsets   nullable       `json:"token_offsets"`
	Features       nullable       `json:"features"`
	ContentParts   nullable       `json:"content_parts"`
	Sampling       samplingParams `json:"sampling_params"`
	Model          any            `json:"model"`
	ReasoningEnded nullable       `json:"reasoning_ended"`
	ReasoningArgs  nullable       `json:"reasoning_parser_kwargs"`
	ReturnIDs      nullable       `json:"return_token_ids"`
	OutputMode     string         `json:"output_mode"`
	Stream         bool           `json:"stream"`
	StreamOptions  *streamOptions `json:"stream_options"`
	CacheSalt      any            `json:"cache_salt"`
	Priority       int            `json:"priority"`
	KVTransfer     nullable       `json:"kv_transfer_params"`
	ECTransfer     nullable       `json:"ec_transfer_params"`
}

// renderChat answers with the tokens of a chat's prompt and generates nothing.
func (s *server) renderChat(w http.ResponseWriter, r *http.Request) {
	b, c, err := s.readChat(r)
	if err != nil {
		refuseCall(w, chatFormat{}, err)
		return
	}
	if id := r.Header.Get("X-Request-Id"); plainID(id) {
		c.id = id
	}
	writeJSON(w, http.StatusOK, mustJSON(rendered(b, c, "chatcmpl-"+c.id, c.seqs[0])))
}

// renderCompletion does the same for the completions API, for each of its prompts.
func (s *server) renderCompletion(w http.ResponseWriter, r *http.Request) {
	b, err := readBody(r, "prompt")
	var c *call
	if err == nil {
		c, err = s.readCompletion(b)
	}
	if err != nil {
		refuseCall(w, completionsFormat{}, err)
		return
	}
	var all []renderedRequest
	for i := 0; i < len(c.seqs); i += c.choices {
		id := "cmpl-" + c.id
		if len(c.seqs) > c.choices {
			id += fmt.Sprintf("-%d", i/c.choices)
		}
		all = append(all, rendered(b, c, id, c.seqs[i]))
	}
	writeJSON(w, http.StatusOK, mustJSON(all))
}

// rendered describes a sequence of a call.
func rendered(b body, c *call, id string, q *sequence) renderedRequest {
	out := renderedRequest{
		RequestID: id, TokenIDs: q.prompt, OutputMode: "tokens", Stream: c.stream,
		Model: textOrNull(b.Model), CacheSalt: textOrNull(b.CacheSalt),
		Sampling: samplingParams{
			RepetitionPenalty: 1, Temperature: 1, TopP: 1, Stop: []int{}, StopTokenIDs: []int{}, BadWords: []int{},
			MaxTokens: c.maxTokens, OutputKind: outputWhole, SkipClone: true,
		},
	}
	if c.stream {
		out.Sampling.OutputKind = outputDeltas
		if o := b.StreamOptions; o != nil {
			out.StreamOptions = &streamOptions{o.IncludeUsage, o.ContinuousUsage}
		}
	}
	return out
}

// textOrNull returns what encodes as the text, or as null when there is none.
func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
