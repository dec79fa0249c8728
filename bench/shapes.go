package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// block is one text block of Anthropic's API.
type block struct {
	Type         string        `json:"type"`
	Text         string        `json:"text"`
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

type cacheControl struct {
	Type string `json:"type"`
}

type messagesRequest struct {
	Model     string            `json:"model"`
	MaxTokens int               `json:"max_tokens"`
	Stream    bool              `json:"stream"`
	System    []block           `json:"system"`
	Metadata  map[string]string `json:"metadata"`
	Messages  []messagesEntry   `json:"messages"`
}

type messagesEntry struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// messagesBody is a turn as Claude Code sends it: an attribution block before the
// system prompt, which engines drop, and the session in metadata.user_id.
func messagesBody(model string, ask Ask) messagesRequest {
	body := messagesRequest{
		Model:     model,
		MaxTokens: ask.MaxTokens,
		Stream:    true,
		System:    []block{{Type: "text", Text: "x-anthropic-billing-header: cc_version=2.1.197." + ask.Conversation[:3] + "; cc_entrypoint=cli;"}},
		Metadata:  map[string]string{"user_id": fmt.Sprintf(`{"device_id":"bench","account_uuid":"","session_id":%q}`, ask.Conversation)},
	}
	if ask.System != "" {
		body.System = append(body.System, block{Type: "text", Text: ask.System, CacheControl: &cacheControl{Type: "ephemeral"}})
	}
	for _, m := range ask.History {
		body.Messages = append(body.Messages, messagesEntry{Role: m.Role, Content: []block{{Type: "text", Text: m.Text}}})
	}
	return body
}

type chatRequest struct {
	Model         string          `json:"model"`
	MaxTokens     int             `json:"max_tokens"`
	Stream        bool            `json:"stream"`
	StreamOptions map[string]bool `json:"stream_options"`
	Messages      []chatEntry     `json:"messages"`
}

type chatEntry struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// chatBody is a turn as clients of OpenAI's API send it.
func chatBody(model string, ask Ask) chatRequest {
	body := chatRequest{
		Model:         model,
		MaxTokens:     ask.MaxTokens,
		Stream:        true,
		StreamOptions: map[string]bool{"include_usage": true},
	}
	if ask.System != "" {
		body.Messages = append(body.Messages, chatEntry{Role: "system", Content: ask.System})
	}
	for _, m := range ask.History {
		body.Messages = append(body.Messages, chatEntry{Role: m.Role, Content: m.Text})
	}
	return body
}

// event holds what is read of a frame of either API.
type event struct {
	Type  string `json:"type"`
	Delta struct {
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
	} `json:"delta"`
	Message struct {
		Usage *usageShape `json:"usage"`
	} `json:"message"`
	Choices []struct {
		Delta struct {
			Content          string `json:"content"`
			ReasoningContent string `json:"reasoning_content"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *usageShape `json:"usage"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// usageShape holds the usage of both APIs; the fields of the other one are absent.
type usageShape struct {
	InputTokens   int  `json:"input_tokens"`
	OutputTokens  int  `json:"output_tokens"`
	CacheCreation int  `json:"cache_creation_input_tokens"`
	CacheRead     *int `json:"cache_read_input_tokens"`

	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	PromptDetails    *struct {
		CachedTokens *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// usage adds Anthropic's three prompt figures up; OpenAI's prompt count holds the
// cached tokens already.
func (u *usageShape) usage() Usage {
	out := Usage{
		Prompt:     u.InputTokens + u.CacheCreation + u.PromptTokens,
		Cached:     -1,
		Completion: u.OutputTokens + u.CompletionTokens,
	}
	if u.CacheRead != nil {
		out.Prompt += *u.CacheRead
		out.Cached = *u.CacheRead
	}
	if u.PromptDetails != nil && u.PromptDetails.CachedTokens != nil {
		out.Cached = *u.PromptDetails.CachedTokens
	}
	return out
}

// maxFrame bounds one line of a stream, in bytes.
const maxFrame = 8 << 20

// readStream reads frames into the answer until the API's own end. A stream that
// stops without it is ErrCut, also when the connection was closed properly.
func readStream(r io.Reader, answer *Answer, start time.Time) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 16<<10), maxFrame)
	var text bytes.Buffer
	defer func() { answer.Text = text.String() }()
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			return nil
		}
		var ev event
		if err := json.Unmarshal(data, &ev); err != nil {
			return fmt.Errorf("a frame of the stream is not JSON: %w", err)
		}
		if ev.Error != nil {
			return fmt.Errorf("the stream carried an error: %s", ev.Error.Message)
		}
		said, thought := ev.text()
		if answer.FirstToken == 0 && said+thought != "" {
			answer.FirstToken = time.Since(start)
		}
		text.WriteString(said)
		if u := ev.usage(); u != nil {
			answer.Usage = u.usage()
		}
		if ev.Type == "message_stop" {
			return nil
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("a frame of the stream is longer than %d MiB", maxFrame>>20)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrCut, err)
	}
	return ErrCut
}

// text is what the frame adds to the answer and to the reasoning before it, which
// clients do not send back.
func (e *event) text() (said, thought string) {
	said, thought = e.Delta.Text, e.Delta.Thinking
	for _, choice := range e.Choices {
		said += choice.Delta.Content
		thought += choice.Delta.ReasoningContent
	}
	return said, thought
}

// usage is the usage of the frame, wherever its API puts it, or nil. The last one of
// a stream holds.
func (e *event) usage() *usageShape {
	if e.Usage != nil {
		return e.Usage
	}
	return e.Message.Usage
}
