package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// roundTrip answers requests in the place of the network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// streamOf is an answer that streams a body.
func streamOf(body io.Reader) *http.Response {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(body)}
}

// TestProbe gives up on an endpoint of which nothing comes, with its headers or without, and
// not on one that says a little now and then.
func TestProbe(t *testing.T) {
	headers := func(r *http.Request) (*http.Response, error) {
		return streamOf(pausing{r.Context(), time.Hour}), nil
	}
	silent := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	slow := func(r *http.Request) (*http.Response, error) {
		late := pausing{r.Context(), 50 * time.Second}
		return streamOf(io.MultiReader(late, strings.NewReader(": ping\n\n"), late, strings.NewReader(messagesStream+messagesEnd))), nil
	}
	for name, c := range map[string]struct {
		answers roundTrip
		want    string
		after   time.Duration
	}{
		"silent":       {silent, "nothing came from it for 1m0s", time.Minute},
		"only headers": {headers, "nothing came from it for 1m0s", time.Minute},
		"slow":         {slow, "", 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := Client{BaseURL: "http://engine", HTTP: &http.Client{Transport: c.answers}}
				begun := time.Now()
				_, err := client.Probe(t.Context(), Ask{Conversation: "0123"}, time.Minute)
				if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				if took := time.Since(begun); took != c.after {
					t.Errorf("it ended after %s, want %s", took, c.after)
				}
			})
		})
	}
}

// TestBrokenStream says what a connection that broke means for the answer.
func TestBrokenStream(t *testing.T) {
	broken := roundTrip(func(*http.Request) (*http.Response, error) {
		return streamOf(io.MultiReader(strings.NewReader(messagesStream), iotest.ErrReader(io.ErrUnexpectedEOF))), nil
	})
	client := Client{BaseURL: "http://engine", HTTP: &http.Client{Transport: broken}}
	_, err := client.Send(t.Context(), Ask{Conversation: "0123"})
	if want := "the stream ended before the answer was complete: unexpected EOF"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// leavesOutZero is an engine as vLLM 0.19 to 0.23 are: it tells cached tokens where there are
// some. It finds the whole prompt of the turn before in its cache, unless it has no details.
type leavesOutZero struct {
	details bool
	cached  map[string]int // prompt tokens by conversation
}

func (e *leavesOutZero) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var chat chatRequest
	if err := json.Unmarshal(body, &chat); err != nil {
		return nil, err
	}
	prompt, details, who := 0, "", r.Header.Get("X-Session-Id")
	for _, m := range chat.Messages {
		prompt += len(m.Content) / 4
	}
	if n := min(e.cached[who], prompt); n > 0 && e.details {
		details = fmt.Sprintf(`,"prompt_tokens_details":{"cached_tokens":%d}`, n)
	}
	e.cached[who] = prompt
	return streamOf(strings.NewReader(fmt.Sprintf(
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":1%s}}\n\ndata: [DONE]\n\n", prompt, details,
	))), nil
}

// TestHitsOfNone counts a figure that is left out as 0 where the engine reports others, and
// tells no share where it reports none.
func TestHitsOfNone(t *testing.T) {
	measure := func(t *testing.T, details bool, turns int) string {
		engine := &leavesOutZero{details, make(map[string]int)}
		client := &Client{BaseURL: "http://engine", API: Chat, HTTP: &http.Client{Transport: engine}}
		ratio, err := client.Calibrate(t.Context(), 1)
		if err != nil || ratio < 3.9 || ratio > 4.1 {
			t.Fatalf("%g bytes a token, %v", ratio, err)
		}
		l := AgentLoad()
		l.SharedTokens, l.First.Min, l.First.Max, l.TurnTokens, l.Turns = 0, 8000, 8000, 200, turns
		ctx, cancel := context.WithCancel(t.Context())
		sent := 0
		step, err := Run(ctx, StepOptions{Client: client, Load: l, Sessions: 1, Duration: time.Minute, OnTurn: func(Turn) {
			if sent++; sent == turns {
				cancel()
			}
		}})
		if err != nil || step.Requests != turns {
			t.Fatalf("%d requests, %v", step.Requests, err)
		}
		if step.HitPercent == nil {
			return "none"
		}
		return fmt.Sprintf("%.1f", *step.HitPercent)
	}
	synctest.Test(t, func(t *testing.T) {
		// 8000 of 8000 + 8200, and not of the 8200 alone.
		if hits := measure(t, true, 2); hits != "49.4" {
			t.Errorf("hits %s, want 49.4", hits)
		}
		if hits := measure(t, true, 1); hits != "0.0" {
			t.Errorf("hits %s of a first turn, want 0.0", hits)
		}
		if hits := measure(t, false, 2); hits != "none" {
			t.Errorf("hits %s of an engine that reports none", hits)
		}
	})
}
