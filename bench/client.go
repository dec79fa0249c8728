package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// API is the shape in which turns are sent.
type API string

// The two shapes.
const (
	// Messages is Anthropic's /v1/messages, as Claude Code sends it.
	Messages API = "messages"
	// Chat is OpenAI's /v1/chat/completions.
	Chat API = "chat"
)

// Client sends turns to one endpoint and measures them. It is safe for use by many
// goroutines.
type Client struct {
	// BaseURL of the endpoint without a path: "http://127.0.0.1:8000".
	BaseURL string
	// Model that requests ask for.
	Model string
	// Key sent as a bearer token; empty sends none.
	Key string
	// API is the shape of the requests; empty means Messages.
	API API
	// Rank, if set, names the replica of each turn, in the header X-Data-Parallel-Rank. It
	// is called by many goroutines.
	Rank func() int
	// HTTP sends them. It must have no overall timeout: answers are streams.
	HTTP *http.Client

	// reports says that an answer told cached tokens. The engine then tells them of each, but
	// vLLM 0.19 to 0.23 leave the figure out where it is 0.
	reports atomic.Bool
}

// NewHTTPClient returns a client for so many conversations at once: a connection
// each, kept open between turns as an agent's own client does.
func NewHTTPClient(conversations int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConns:        conversations + 1,
		MaxIdleConnsPerHost: conversations + 1,
		IdleConnTimeout:     30 * time.Second,
		// A transport that inflates would hide when the first byte came.
		DisableCompression: true,
	}}
}

// Message is one entry of a conversation's history.
type Message struct {
	// Role is "user" or "assistant".
	Role string
	// Text is what was said.
	Text string
}

// Ask is one turn to be sent.
type Ask struct {
	// Conversation is the id that the client states, in the shape of a UUID.
	Conversation string
	// Agent is the id of a subagent of that conversation, or empty.
	Agent string
	// System is the system prompt.
	System string
	// History holds the whole conversation, the new user message last.
	History []Message
	// MaxTokens is the most that the answer may have.
	MaxTokens int
}

// Usage holds the token counts that the engine reported.
type Usage struct {
	// Prompt counts all prompt tokens, those from the cache included.
	Prompt int
	// Cached counts prompt tokens served from the cache; -1 when not reported.
	Cached int
	// Completion counts the tokens of the answer.
	Completion int
}

// Answer is one measured turn.
type Answer struct {
	// Text is the answer, to be sent back with the next turn.
	Text string
	// Usage as the engine reported it; zero when the stream ended without.
	Usage Usage
	// FirstToken is the time from sending to the first streamed text; 0 when none came.
	FirstToken time.Duration
	// Duration is the time from sending to the end.
	Duration time.Duration
	// Replica that answered, or -1 when the response does not say.
	Replica int
	// Decision is the routing class that the response states, or empty.
	Decision string
}

// StatusError is an answer with a status other than 200.
type StatusError struct {
	// Status is the HTTP status.
	Status int
	// Message is the server's own sentence, or the beginning of the body.
	Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the endpoint answered %d: %s", e.Status, e.Message)
}

// ErrCut means that a stream ended without its proper end.
var ErrCut = errors.New("the stream ended before the answer was complete")

// maxErrorBody bounds what is read of an error's body, in bytes.
const maxErrorBody = 64 << 10

// Send sends one turn and reads the answer to its end. When the stream breaks off
// the part that came is returned with the error.
func (c *Client) Send(ctx context.Context, ask Ask) (Answer, error) {
	return c.send(ctx, ask, func() {})
}

// send calls heard whenever something came from the endpoint.
func (c *Client) send(ctx context.Context, ask Ask, heard func()) (Answer, error) {
	answer := Answer{Replica: -1}
	req, err := c.request(ctx, ask)
	if err != nil {
		return answer, err
	}
	start := time.Now()
	resp, err := c.HTTP.Do(req)
	if err != nil {
		answer.Duration = time.Since(start)
		return answer, err
	}
	defer resp.Body.Close()
	heard()

	answer.Decision = resp.Header.Get("x-lmwarden-decision")
	answer.Replica = replicaIndex(resp.Header.Get("x-lmwarden-replica"))
	if resp.StatusCode != http.StatusOK {
		answer.Duration = time.Since(start)
		return answer, statusError(resp)
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return answer, fmt.Errorf("the endpoint answered %q where a stream of events was asked for; is %s an Anthropic or OpenAI endpoint?", kind, c.BaseURL)
	}
	err = readStream(listener{resp.Body, heard}, &answer, start)
	answer.Duration = time.Since(start)
	if err == nil && answer.Usage.Prompt > 0 && answer.Usage.Cached >= 0 {
		c.reports.Store(true)
	}
	if err == nil && len(resp.Trailer) > 0 {
		// It had nothing to say for long: where it went in the end follows the body.
		_, _ = io.Copy(io.Discard, resp.Body) // the answer is complete whatever becomes of this
		answer.Decision = cmp.Or(resp.Trailer.Get("x-lmwarden-decision"), answer.Decision)
		if name := resp.Trailer.Get("x-lmwarden-replica"); name != "" {
			answer.Replica = replicaIndex(name)
		}
	}
	return answer, err
}

// replicaIndex reads the index out of a replica's name, "qwen3-4b/2", or returns -1.
func replicaIndex(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '/')+1:])
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// request builds the HTTP request of a turn.
func (c *Client) request(ctx context.Context, ask Ask) (*http.Request, error) {
	path, body := "/v1/messages?beta=true", any(messagesBody(c.Model, ask))
	if c.API == Chat {
		path, body = "/v1/chat/completions", chatBody(c.Model, ask)
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.BaseURL, "/")+path, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%q is not the URL of an endpoint: %w", c.BaseURL, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "lmwarden-bench/1")
	if c.Rank != nil {
		req.Header.Set("X-Data-Parallel-Rank", strconv.Itoa(c.Rank()))
	}
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	if c.API == Chat {
		// Clients of this API have no word for a subagent: it is a session of its own.
		req.Header.Set("X-Session-Id", cmp.Or(ask.Agent, ask.Conversation))
		return req, nil
	}
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("X-Claude-Code-Session-Id", ask.Conversation)
	if ask.Agent != "" {
		req.Header.Set("X-Claude-Code-Agent-Id", ask.Agent)
	}
	return req, nil
}

// statusError reads the sentence out of either API's error shape.
func statusError(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return &StatusError{Status: resp.StatusCode, Message: "and its body could not be read: " + err.Error()}
	}
	var shape struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
		Detail string `json:"detail"`
	}
	message := strings.TrimSpace(string(body))
	switch err := json.Unmarshal(body, &shape); {
	case err == nil && shape.Error.Message != "":
		message = shape.Error.Message
	case err == nil && shape.Detail == "Not Found" && resp.Request != nil:
		message = "it has no " + resp.Request.URL.Path // as vLLM says it
	}
	if len(message) > 300 {
		message = message[:300] + "…"
	}
	return &StatusError{Status: resp.StatusCode, Message: message}
}
