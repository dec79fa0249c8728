package supervisor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/supervisor/vllm"
)

// maxPatience bounds how long an engine that was suspected wrongly may stand still.
const maxPatience = 5 * time.Minute

// pulse tells an engine that hangs from one that is busy. vLLM answers /health with 200
// while its engine core stands still, so only progress shows that it works:
//
//   - A sign of life is any change of a figure that the engine core itself sends with
//     its steps: tokens, steps, looked-up prefixes, preemptions, blocks in use. Tokens
//     alone would not do: those of a long prompt are counted when its last chunk is
//     done, minutes later, while every chunk takes blocks.
//   - There is work when the engine says so or the proxy has sent it requests; the
//     gauges of an engine that hangs stand still too, perhaps at zero.
//   - Work without a sign of life for a while is a question, not a verdict. The engine
//     is asked for one token, which may queue behind others for as long as there are
//     signs of life. Without any until the deadline, it is wedged.
//
// It stays so, and is asked again and again, until there is a sign of life or a token.
// One that goes on by itself has steps that long, on a processor for example: it is
// given twice that time from then on. An engine that counts
// no tokens is never suspected.
//
// A pulse belongs to its prober's goroutine.
type pulse struct {
	inFlight func() int                  // requests that the proxy has there
	token    func(context.Context) error // asks for one token
	still    time.Duration               // of work without a sign of life, until it is asked
	timeout  time.Duration               // for the answer

	signs  signs
	since  time.Time // when work was first seen after the last sign of life; zero when none was
	wedged error     // why it counts as wedged; nil when it does not

	answer  chan error // of the request under way; nil when none is
	cancel  context.CancelFunc
	pending sync.WaitGroup
}

// signs are the figures that an engine's steps change. What a request changes by
// coming in is not among them.
type signs struct{ prompt, generation, steps, queries, hits, preemptions, used float64 }

func signsOf(f vllm.Figures) signs {
	return signs{
		prompt: number(f.PromptTokens), generation: number(f.GenerationTokens), steps: number(f.Steps),
		queries: number(f.PrefixQueries), hits: number(f.PrefixHits),
		preemptions: number(f.Preemptions), used: number(f.KVUsed),
	}
}

func number(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}

// beat takes a new reading and says why the engine counts as wedged, or nil.
func (u *pulse) beat(ctx context.Context, f vllm.Figures, now time.Time) error {
	if f.PromptTokens == nil && f.GenerationTokens == nil {
		return u.wedged
	}
	if s := signsOf(f); s != u.signs {
		if u.wedged != nil {
			u.still = max(u.still, min(2*now.Sub(u.since), maxPatience))
		}
		u.signs = s
		u.alive()
	}
	if u.since.IsZero() && (number(f.Running)+number(f.Waiting) > 0 || u.inFlight() > 0) {
		u.since = now
	}
	select {
	case err := <-u.answer:
		u.hear(err, now)
	default: // none is under way, or it has not come
	}
	if u.answer == nil && !u.since.IsZero() && now.Sub(u.since) >= u.still {
		u.ask(ctx)
	}
	return u.wedged
}

// hear takes the answer to the request for a token.
func (u *pulse) hear(err error, now time.Time) {
	u.stop()
	switch {
	case err == nil:
		u.alive()
	case isTimeout(err):
		if u.wedged == nil {
			u.wedged = fmt.Errorf("it has requests but has done nothing for %s, and gave no token within %s", now.Sub(u.since).Round(time.Second), u.timeout)
		}
	case u.wedged == nil:
		u.since = now // a refusal is no hang, and says nothing of progress: wait and ask again
	}
}

// ask sends the request for one token.
func (u *pulse) ask(ctx context.Context) {
	ctx, u.cancel = context.WithTimeout(ctx, u.timeout)
	answer := make(chan error, 1)
	u.answer = answer
	u.pending.Go(func() { answer <- u.token(ctx) })
}

// alive forgets every suspicion.
func (u *pulse) alive() {
	u.since, u.wedged = time.Time{}, nil
	u.stop()
}

// stop lets go of the request under way, if there is one.
func (u *pulse) stop() {
	if u.cancel != nil {
		u.cancel()
	}
	u.pending.Wait()
	u.answer, u.cancel = nil, nil
}
