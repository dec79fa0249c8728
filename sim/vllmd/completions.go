package vllmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// defaultCompletion is the output limit of the completions API when none is given.
const defaultCompletion = 16

// completionsFormat writes the completions API; errors are those of chat.
type completionsFormat struct{ chatFormat }

func (s *server) completions(w http.ResponseWriter, r *http.Request) {
	f := completionsFormat{}
	b, err := readBody(r)
	if err != nil {
		refuseCall(w, f, err)
		return
	}
	if b.Prompt == nil || string(b.Prompt) == "null" || string(b.Prompt) == `""` {
		// The body may do without it: embeddings could stand in its place.
		refuseCall(w, f, badRequest("prompt", "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"))
		return
	}
	if b.Suffix != nil && *b.Suffix != "" {
		refuseCall(w, f, badRequest("suffix", "suffix is only supported for models with FIM completion rendering"))
		return
	}
	c, err := s.readCompletion(b)
	if err != nil {
		refuseCall(w, f, err)
		return
	}
	rank, rankErr := s.rankOf(r)
	s.generate(w, r, c, f, rank, rankErr)
}

// readCompletion checks a request of the completions API.
func (s *server) readCompletion(b body) (*call, error) {
	w := wish{limit: b.MaxTokens, fallback: defaultCompletion, field: "max_tokens", logprobs: -1, echo: b.Echo}
	var err error
	if w.prompts, w.texts, err = readPrompts(b.Prompt); err != nil {
		return nil, err
	}
	if w.stops, err = readStops(b.Stop); err != nil {
		return nil, err
	}
	if len(b.Logprobs) > 0 && string(b.Logprobs) != "null" {
		if json.Unmarshal(b.Logprobs, &w.logprobs) != nil {
			return nil, invalid("body.logprobs", "{'type': 'int_type', 'loc': 'body.logprobs', 'msg': 'Input should be a valid integer', 'input': '<no integer>'}")
		}
	}
	if err := checkLogprobs(w.logprobs); err != nil {
		return nil, err
	}
	return s.newCall(b, w)
}

// readPrompts reads a text or a list of token ids, alone or several in a list. The texts
// are "" where tokens were given.
func readPrompts(raw json.RawMessage) (prompts [][]uint32, texts []string, err error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) == 0 {
		return nil, nil, badRequest("", "You must pass at least one prompt")
	}
	if len(list) == 0 || list[0][0] != '"' && list[0][0] != '[' {
		list = []json.RawMessage{raw}
	}
	if len(list) > mostChoices {
		return nil, nil, badRequest("prompt", "%d prompts; the simulated engine takes at most %d", len(list), mostChoices)
	}
	for _, one := range list {
		var text string
		var ids []uint32
		switch {
		case json.Unmarshal(one, &text) == nil:
			ids = tokenize(nil, text)
		case json.Unmarshal(one, &ids) != nil:
			return nil, nil, invalid("body.prompt", fmt.Sprintf("{'type': 'string_type', 'loc': 'body.prompt', 'msg': 'Input should be a text or a list of token ids', 'input': '<%d bytes>'}", len(one)))
		}
		if ids, err = nonEmpty(ids); err != nil {
			return nil, nil, err
		}
		prompts, texts = append(prompts, ids), append(texts, text)
	}
	return prompts, texts, nil
}

// nonEmpty refuses a prompt without tokens.
func nonEmpty(ids []uint32) ([]uint32, error) {
	if len(ids) == 0 {
		return nil, badRequest("prompt", "The decoder prompt cannot be empty")
	}
	return ids, nil
}

// textChoice is one answer of a whole body.
type textChoice struct {
	Index          int             `json:"index"`
	Text           string          `json:"text"`
	Logprobs       json.RawMessage `json:"logprobs"`
	FinishReason   string          `json:"finish_reason"`
	StopReason     any             `json:"stop_reason"`
	TokenIDs       []uint32        `json:"token_ids"`
	PromptLogprobs json.RawMessage `json:"prompt_logprobs"`
	PromptTokenIDs []uint32        `json:"prompt_token_ids"`
	RoutedExperts  nullable        `json:"routed_experts"`
}

func (completionsFormat) whole(c *call) []byte {
	choices := make([]textChoice, 0, len(c.seqs))
	for _, q := range c.seqs {
		choices = append(choices, textChoice{
			Index: q.index, Text: q.text(), Logprobs: c.completionLogprobs(q, 0, q.latest.Output),
			FinishReason: q.finish(), StopReason: q.answer.stop, TokenIDs: c.outputIDs(q),
			PromptLogprobs: c.promptLogprobsOf(q), PromptTokenIDs: c.promptIDs(q),
		})
	}
	return mustJSON(struct {
		ID          string       `json:"id"`
		Object      string       `json:"object"`
		Created     int64        `json:"created"`
		Model       string       `json:"model"`
		Choices     []textChoice `json:"choices"`
		ServiceTier nullable     `json:"service_tier"`
		Fingerprint any          `json:"system_fingerprint"`
		Usage       openAIUsage  `json:"usage"`
		KVTransfer  nullable     `json:"kv_transfer_params"`
		ECTransfer  nullable     `json:"ec_transfer_params"`
		Metrics     optional     `json:"metrics,omitempty"`
	}{
		ID: "cmpl-" + c.id, Object: "text_completion", Created: c.created, Model: c.model, Choices: choices,
		Fingerprint: textOrNull(c.fingerprint), Usage: c.wholeUsage(false), Metrics: c.requestMetrics(),
	})
}

func (completionsFormat) open(*call) []byte { return nil }

func (completionsFormat) token(c *call, q *sequence, d delta) []byte {
	b := c.chunk("cmpl-", "text_completion")
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(q.index), 10)
	b = append(b, `,"text":`...)
	b = quote(b, d.text)
	b = append(b, `,"logprobs":`...)
	b = append(b, c.completionLogprobs(q, d.from, d.n)...)
	b = append(b, `,"finish_reason":`...)
	stop := []byte("null")
	if d.last {
		b = append(b, `"`+q.finish()+`"`...)
		stop = mustJSON(q.answer.stop)
	} else {
		b = append(b, `null`...)
	}
	prompt := "null"
	if (c.returnIDs || q.echoed != "") && d.from == 0 { // only the first frame has it
		prompt = string(mustJSON(q.prompt))
	}
	b = append(b, `,"stop_reason":`+string(stop)+`,"prompt_token_ids":`+prompt+`,"token_ids":`+c.streamIDs(q, d)+"}]"...)
	return c.closeChunk(b, q, d, false)
}

func (completionsFormat) end(c *call) []byte { return c.endChunks("cmpl-", "text_completion", false) }
