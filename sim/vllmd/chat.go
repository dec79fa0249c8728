package vllmd

import (
	"fmt"
	"net/http"
	"strconv"
)

// nullable encodes as null. It keeps keys that vLLM always writes and we never fill.
type nullable *struct{}

// cacheDetails is usage.prompt_tokens_details.
type cacheDetails struct {
	Cached     int `json:"cached_tokens"`
	Created    any `json:"created_cache_tokens"`
	Multimodal any `json:"multimodal_tokens"`
}

// openAIUsage is the usage of the chat and completions APIs in a whole body.
type openAIUsage struct {
	Prompt            int           `json:"prompt_tokens"`
	Total             int           `json:"total_tokens"`
	Completion        int           `json:"completion_tokens"`
	Details           *cacheDetails `json:"prompt_tokens_details"`
	CompletionDetails nullable      `json:"completion_tokens_details"`
}

// wholeUsage is the usage after the last token.
func (c *call) wholeUsage(withCreated bool) openAIUsage {
	p, o := c.request.Prompt, c.request.Output
	u := openAIUsage{Prompt: p, Total: p + o, Completion: o}
	if c.details {
		u.Details = &cacheDetails{Cached: c.cached}
		if withCreated {
			u.Details.Created = c.createdCache()
		}
	}
	return u
}

// createdCache is the number of prompt tokens that this call put into the cache.
func (c *call) createdCache() int { return max(0, c.cacheable-c.cached) }

// streamUsage is the usage in a stream after n tokens; only the last has the cache's
// details. The chat API has some keys more than the completions API.
func (c *call) streamUsage(n int, last, chat bool) string {
	p := c.request.Prompt
	u := fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d`, p, p+n, n)
	if last && c.details {
		u += fmt.Sprintf(`,"prompt_tokens_details":{"cached_tokens":%d`, c.cached)
		if chat {
			u += fmt.Sprintf(`,"created_cache_tokens":%d`, c.createdCache())
		}
		u += "}"
	}
	if !last && chat {
		u += `,"completion_tokens_details":null`
	}
	return u + "}"
}

// finish is how the OpenAI APIs name the end.
func (c *call) finish() string {
	if c.answer.ended {
		return "stop"
	}
	return "length"
}

// promptIDs and outputIDs are the tokens of the call when its client wants them, else
// nil, which encodes as null.
func (c *call) promptIDs() []uint32 {
	if !c.returnIDs {
		return nil
	}
	return c.prompt
}

func (c *call) outputIDs() []uint32 {
	if !c.returnIDs {
		return nil
	}
	return c.answer.ids
}

// tokenIDs are the tokens of a stream since the last call, up to the n-th, as JSON.
func (c *call) tokenIDs(n int) string {
	if !c.returnIDs {
		return "null"
	}
	ids := c.answer.ids[c.told:n]
	c.told = n
	return string(mustJSON(ids))
}

// text is the whole answer.
func (c *call) text() string { return c.answer.text(0, len(c.answer.pieces)) }

// quote appends s as a JSON string. Answers are plain ASCII words, for which Go's and
// JSON's quotes agree.
func quote(b []byte, s string) []byte { return strconv.AppendQuote(b, s) }

// chatFormat writes the chat completions API.
type chatFormat struct{}

func (s *server) chat(w http.ResponseWriter, r *http.Request) {
	_, c, err := s.readChat(r)
	if err != nil {
		refuseCall(w, chatFormat{}, err)
		return
	}
	rank, rankErr := s.rankOf(r)
	s.generate(w, r, c, chatFormat{}, rank, rankErr)
}

// readChat reads and checks a request of the chat API.
func (s *server) readChat(r *http.Request) (body, *call, error) {
	b, err := readBody(r, "messages")
	if err != nil {
		return b, nil, err
	}
	limit, field := b.MaxTokens, "max_tokens"
	if b.MaxCompletionTokens != nil {
		limit, field = b.MaxCompletionTokens, "max_completion_tokens"
	}
	c, err := s.newCall(b, render(chatMessages(b.Messages), toolText(b.Tools)), limit, 0, field)
	return b, c, err
}

func (chatFormat) whole(c *call) []byte {
	type reply struct {
		Role         string   `json:"role"`
		Content      string   `json:"content"`
		Refusal      nullable `json:"refusal"`
		Annotations  nullable `json:"annotations"`
		Audio        nullable `json:"audio"`
		FunctionCall nullable `json:"function_call"`
		Reasoning    nullable `json:"reasoning"`
	}
	type choice struct {
		Index         int      `json:"index"`
		Message       reply    `json:"message"`
		Logprobs      nullable `json:"logprobs"`
		FinishReason  string   `json:"finish_reason"`
		StopReason    nullable `json:"stop_reason"`
		TokenIDs      []uint32 `json:"token_ids"`
		RoutedExperts nullable `json:"routed_experts"`
	}
	return mustJSON(struct {
		ID             string      `json:"id"`
		Object         string      `json:"object"`
		Created        int64       `json:"created"`
		Model          string      `json:"model"`
		Choices        []choice    `json:"choices"`
		ServiceTier    nullable    `json:"service_tier"`
		Fingerprint    string      `json:"system_fingerprint"`
		Usage          openAIUsage `json:"usage"`
		PromptLogprobs nullable    `json:"prompt_logprobs"`
		PromptTokenIDs []uint32    `json:"prompt_token_ids"`
		PromptText     nullable    `json:"prompt_text"`
		KVTransfer     nullable    `json:"kv_transfer_params"`
		ECTransfer     nullable    `json:"ec_transfer_params"`
		Metrics        nullable    `json:"metrics"`
	}{
		ID: "chatcmpl-" + c.id, Object: "chat.completion", Created: c.created, Model: c.model,
		Choices: []choice{{
			Message:      reply{Role: "assistant", Content: c.text()},
			FinishReason: c.finish(), TokenIDs: c.outputIDs(),
		}},
		Fingerprint: c.fingerprint, Usage: c.wholeUsage(true), PromptTokenIDs: c.promptIDs(),
	})
}

// chunk begins a frame of a chat or completions stream, up to its choices.
func (c *call) chunk(prefix, object string) []byte {
	b := make([]byte, 0, 320)
	b = append(b, `data: {"id":"`...)
	b = append(b, prefix...)
	b = append(b, c.id...)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, c.created, 10)
	b = append(b, `,"model":`...)
	b = append(b, c.modelJSON...)
	return append(b, `,"choices":[`...)
}

// closeChunk ends a frame that carries tokens.
func (c *call) closeChunk(b []byte, n int, last, chat bool) []byte {
	if last && !c.includeUsage {
		b = append(b, `,"system_fingerprint":"`+c.fingerprint+`"`...)
	}
	if c.eachUsage {
		b = append(b, `,"usage":`+c.streamUsage(n, false, chat)...)
	}
	return append(b, "}\n\n"...)
}

// endChunks are the last frames: usage when it was asked for, and the end mark.
func (c *call) endChunks(prefix, object string, chat bool) []byte {
	var b []byte
	if c.includeUsage {
		b = c.chunk(prefix, object)
		b = append(b, `],"usage":`+c.streamUsage(c.request.Output, true, chat)...)
		b = append(b, `,"system_fingerprint":"`+c.fingerprint+"\"}\n\n"...)
	}
	return append(b, "data: [DONE]\n\n"...)
}

const chatChunk = "chat.completion.chunk"

func (chatFormat) accepted(*call) []byte { return nil }

func (chatFormat) open(c *call) []byte {
	b := c.chunk("chatcmpl-", chatChunk)
	b = append(b, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":`...)
	b = append(b, mustJSON(c.promptIDs())...)
	b = append(b, `,"prompt_text":null`...)
	if c.eachUsage {
		b = append(b, `,"usage":`+c.streamUsage(0, false, true)...)
	}
	return append(b, "}\n\n"...)
}

func (chatFormat) token(c *call, text string, n int, last bool) []byte {
	b := c.chunk("chatcmpl-", chatChunk)
	b = append(b, `{"index":0,"delta":{"content":`...)
	b = quote(b, text)
	b = append(b, `},"logprobs":null,"finish_reason":`...)
	if last {
		b = append(b, `"`+c.finish()+`","stop_reason":null`...)
	} else {
		b = append(b, `null`...)
	}
	b = append(b, `,"token_ids":`+c.tokenIDs(n)+"}]"...)
	return c.closeChunk(b, n, last, true)
}

func (chatFormat) end(c *call) []byte { return c.endChunks("chatcmpl-", chatChunk, true) }

func (chatFormat) envelope(e *apiError) []byte { return e.openAI() }

func (chatFormat) failure(e *apiError) []byte {
	return []byte("data: " + string(e.openAI()) + "\n\ndata: [DONE]\n\n")
}
