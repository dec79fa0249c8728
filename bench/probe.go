package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/lmwarden/lmwarden/sim/run/load"
)

// listener reads a body and says so whenever something came.
type listener struct {
	io.Reader
	heard func()
}

func (l listener) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 {
		l.heard()
	}
	return n, err
}

// Probe is [Client.Send] to an endpoint that may never answer: it gives up when nothing
// came from it for so long.
func (c *Client) Probe(ctx context.Context, ask Ask, patience time.Duration) (Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := fmt.Errorf("nothing came from it for %s; is it an engine, and does it answer others?", patience)
	timer := time.AfterFunc(patience, func() { cancel(silent) })
	defer timer.Stop()
	answer, err := c.send(ctx, ask, func() { timer.Reset(patience) })
	if err != nil && errors.Is(context.Cause(ctx), silent) {
		err = silent
	}
	return answer, err
}

// patience is how long a request of [Client.Calibrate] may be silent.
const patience = 2 * time.Minute

// Calibrate measures how many bytes of the load's text make a token, with two
// requests of one token of answer each: the difference of their prompts leaves out
// what the chat template adds. A first failure here tells that the endpoint is not
// one that a load can be run against. Where neither told cached tokens the second is sent
// again, since an endpoint that leaves out a 0 then has more to tell.
func (c *Client) Calibrate(ctx context.Context, seed uint64) (bytesPerToken float64, err error) {
	size := load.Load{First: load.Size{Min: 1, Max: 1}, TurnTokens: 1, OutputTokens: 1, Turns: 1}
	var asks [2]Ask
	var bytes, prompts [2]int
	for i, bytesPerToken := range []float64{4000, 12000} {
		said, _ := NewScript(Load{size, bytesPerToken}, seed, "calibrate", 0, i).Next()
		asks[i] = Ask{
			Conversation: uuid(rand.New(rand.NewPCG(seed, uint64(i)))),
			History:      []Message{{Role: "user", Text: said.Text}},
			MaxTokens:    1,
		}
		answer, err := c.Probe(ctx, asks[i], patience)
		if err != nil {
			return 0, err
		}
		bytes[i], prompts[i] = len(said.Text), answer.Usage.Prompt
	}
	tokens := prompts[1] - prompts[0]
	if tokens <= 0 {
		return 0, fmt.Errorf("%s reports no prompt tokens that grow with the prompt (%d, then %d); the load cannot be sized", c.BaseURL, prompts[0], prompts[1])
	}
	if !c.reports.Load() {
		if _, err := c.Probe(ctx, asks[1], patience); err != nil {
			return 0, err
		}
	}
	return float64(bytes[1]-bytes[0]) / float64(tokens), nil
}
