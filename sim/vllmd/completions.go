package vllmd

import (
	"encoding/json"
	"fmt"
	"net/http"
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
	if b.Prompt == nil || string(b.Prompt) == "null" {
		// The body may do without it: embeddings could stand in its place.
		refuseCall(w, f, badRequest("prompt", "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"))
		return
	}
	prompt, err := readPrompt(b.Prompt)
	if err != nil {
		refuseCall(w, f, err)
		return
	}
	c, err := s.newCall(b, prompt, b.MaxTokens, defaultCompletion, "max_tokens")
	if err != nil {
		refuseCall(w, f, err)
		return
	}
	rank, rankErr := s.rankOf(r)
	s.generate(w, r, c, f, rank, rankErr)
}

// readPrompt reads a text or a list of token ids, alone or as the only entry of a list.
func readPrompt(raw json.RawMessage) ([]uint32, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return nonEmpty(tokenize(nil, text))
	}
	var ids []uint32
	if json.Unmarshal(raw, &ids) == nil {
		return nonEmpty(ids)
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) == 1 {
		return readPrompt(list[0])
	}
	return nil, invalid("body.prompt", fmt.Sprintf("{'type': 'string_type', 'loc': 'body.prompt', 'msg': 'Input should be one text or one list of token ids', 'input': '<%d bytes>'}", len(raw)))
}

// nonEmpty refuses a prompt without tokens.
func nonEmpty(ids []uint32) ([]uint32, error) {
	if len(ids) == 0 {
		return nil, badRequest("prompt", "The decoder prompt cannot be empty")
	}
	return ids, nil
}

func (completionsFormat) whole(c *call) []byte {
	type choice struct {
		Index          int      `json:"index"`
		Text           string   `json:"text"`
		Logprobs       nullable `json:"logprobs"`
		FinishReason   string   `json:"finish_reason"`
		StopReason     nullable `json:"stop_reason"`
		TokenIDs       []uint32 `json:"token_ids"`
		PromptLogprobs nullable `json:"prompt_logprobs"`
		PromptTokenIDs []uint32 `json:"prompt_token_ids"`
		RoutedExperts  nullable `json:"routed_experts"`
	}
	return mustJSON(struct {
		ID          string      `json:"id"`
		Object      string      `json:"object"`
		Created     int64       `json:"created"`
		Model       string      `json:"model"`
		Choices     []choice    `json:"choices"`
		ServiceTier nullable    `json:"service_tier"`
		Fingerprint string      `json:"system_fingerprint"`
		Usage       openAIUsage `json:"usage"`
		KVTransfer  nullable    `json:"kv_transfer_params"`
		ECTransfer  nullable    `json:"ec_transfer_params"`
		Metrics     nullable    `json:"metrics"`
	}{
		ID: "cmpl-" + c.id, Object: "text_completion", Created: c.created, Model: c.model,
		Choices: []choice{{
			Text: c.text(), FinishReason: c.finish(), TokenIDs: c.outputIDs(), PromptTokenIDs: c.promptIDs(),
		}},
		Fingerprint: c.fingerprint, Usage: c.wholeUsage(false),
	})
}

func (completionsFormat) open(*call) []byte { return nil }

func (completionsFormat) token(c *call, text string, n int, last bool) []byte {
	b := c.chunk("cmpl-", "text_completion")
	b = append(b, `{"index":0,"text":`...)
	b = quote(b, text)
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	if last {
		b = append(b, `"`+c.finish()+`"`...)
	} else {
		b = append(b, `null`...)
	}
	prompt := "null"
	if c.returnIDs && c.told == 0 { // only the first frame has it
		prompt = string(mustJSON(c.prompt))
	}
	b = append(b, `,"stop_reason":null,"prompt_token_ids":`+prompt+`,"token_ids":`+c.tokenIDs(n)+"}]"...)
	return c.closeChunk(b, n, last, false)
}

func (completionsFormat) end(c *call) []byte { return c.endChunks("cmpl-", "text_completion", false) }
