package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/lmwarden/lmwarden/tests/harness"
)

// A replay is several conversations over a cache that cannot hold them all. Prompts
// are token ids; each turn repeats its conversation, the engine's own answers in it,
// and adds some.
type replay struct {
	rng   *rand.Rand
	talks [][]int // tokens of each conversation so far
	who   int     // the one that speaks
	turns []turn
}

const (
	sharedPrefix = 150  // tokens that all conversations begin with
	longestTalk  = 1500 // tokens after which a conversation begins anew
	firstID      = 300  // token ids are from here
	lastID       = 4000
)

// turn is one request of a replay, as it was served.
type turn struct {
	tokens []int // of prompt and output
	prompt int
	cached int // as the engine says
}

func newReplay(conversations int, seed uint64) *replay {
	return &replay{rng: rand.New(rand.NewPCG(seed, 1)), talks: make([][]int, conversations)}
}

func randomTokens(rng *rand.Rand, n int) []int {
	tokens := make([]int, n)
	for i := range tokens {
		tokens[i] = firstID + rng.IntN(lastID-firstID)
	}
	return tokens
}

// next returns the next prompt and how many tokens of output it asks for.
func (r *replay) next() (prompt []int, output int) {
	r.who = r.rng.IntN(len(r.talks))
	add, output := 20+r.rng.IntN(300), 1+r.rng.IntN(24)
	talk := r.talks[r.who]
	if len(talk) == 0 || len(talk)+add+output > longestTalk {
		talk = randomTokens(rand.New(rand.NewPCG(0, 0)), sharedPrefix)
	}
	return slices.Concat(talk, randomTokens(r.rng, add)), output
}

// answered notes how the latest prompt was served.
func (r *replay) answered(prompt, output []int, cached int) {
	all := slices.Concat(prompt, output)
	r.turns = append(r.turns, turn{all, len(prompt), cached})
	r.talks[r.who] = all
}

// ask serves the next request of a replay.
func (r *replay) ask(ctx context.Context, e *engine) error {
	prompt, n := r.next()
	output, cached, err := complete(ctx, e.url, prompt, n)
	if err != nil {
		return fmt.Errorf("%s: request %d: %w", e.name, len(r.turns), err)
	}
	r.answered(prompt, output, cached)
	return nil
}

// complete sends a prompt of token ids to an engine.
func complete(ctx context.Context, url string, prompt []int, output int) (ids []int, cached int, err error) {
	body, err := json.Marshal(map[string]any{
		"model": model, "prompt": prompt, "max_tokens": output, "ignore_eos": true, "temperature": 0, "return_token_ids": true,
	})
	if err != nil {
		return nil, 0, err
	}
	got, err := exchange{path: "/v1/completions", body: string(body)}.send(ctx, url)
	if err != nil {
		return nil, 0, err
	}
	var reply struct {
		Choices []struct {
			IDs []int `json:"token_ids"`
		} `json:"choices"`
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(got.body), &reply); err != nil || got.status != http.StatusOK || len(reply.Choices) != 1 {
		return nil, 0, fmt.Errorf("status %d: %.300s", got.status, got.body)
	}
	if n := len(reply.Choices[0].IDs); n != output || reply.Usage.Prompt != len(prompt) {
		return nil, 0, fmt.Errorf("%d tokens for %d, want %d for %d", n, reply.Usage.Prompt, output, len(prompt))
	}
	return reply.Choices[0].IDs, reply.Usage.Details.Cached, nil
}

// share is the part of all prompts' tokens that was found in the cache.
func share(turns []turn) float64 {
	prompt, cached := 0, 0
	for _, turn := range turns {
		prompt += turn.prompt
		cached += turn.cached
	}
	return float64(cached) / float64(prompt)
}

// quick is the simulated engine at a speed that suits a replay.
func quick(t *testing.T) *engine {
	t.Helper()
	e := start(t, simulated(t, 40))
	e.waitReady(t)
	return e
}

// isSimulated is true when the subject of the table is the simulated engine itself.
func (e *engine) isSimulated() bool { return e.name == simulatedName }

// subjects are the simulated engine, and the subject of the table when that is another.
func subjects(t *testing.T, e *engine) []*engine {
	t.Helper()
	if e.isSimulated() {
		return []*engine{quick(t)}
	}
	return []*engine{quick(t), e}
}

// replayOne: every request finds what the rules say, in each engine.
func replayOne(t *testing.T, e *engine) {
	for _, e := range subjects(t, e) {
		before := sum(e.scrape(t), "vllm:prefix_cache_hits_total")
		r := newReplay(9, 1)
		for range 240 {
			if err := r.ask(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		m, wrong, cached := newCacheModel(), 0, 0
		for i, turn := range r.turns {
			cached += turn.cached
			if want := m.serve(turn.tokens, turn.prompt); turn.cached != want {
				wrong++
				t.Errorf("%s: request %d found %d of %d tokens, want %d", e.name, i, turn.cached, turn.prompt, want)
			}
		}
		t.Logf("%s: %d of %d requests found what the rules say, %.1f %% of all tokens", e.name, len(r.turns)-wrong, len(r.turns), 100*share(r.turns))
		if s := share(r.turns); s < 0.3 || s > 0.95 {
			t.Errorf("%.1f %% of the tokens were found; the replay should overflow the cache and still find much", 100*s)
		}
		harness.Within(t, soon, func() error {
			if got := sum(e.scrape(t), "vllm:prefix_cache_hits_total") - before; got != float64(cached) {
				return fmt.Errorf("%s counts %v found tokens, its answers say %d", e.name, got, cached)
			}
			return nil
		})
	}
}

// Four replays beside each other.
const (
	lanes     = 4
	laneTalks = 3
	rounds    = 90
)

// atOnce serves four replays, a request of each at a time, and returns the share of
// found tokens. Each round waits for its slowest request: otherwise the engines' speeds
// would decide who comes next.
func atOnce(t *testing.T, e *engine) float64 {
	t.Helper()
	rs := newLanes()
	for range rounds {
		errs := make([]error, lanes)
		var wait sync.WaitGroup
		for i, r := range rs {
			wait.Go(func() { errs[i] = r.ask(t.Context(), e) })
		}
		wait.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	return share(allTurns(rs))
}

// inTurn applies the rules to the same replays, one request of each after the other.
func inTurn() float64 {
	m, rng, rs := newCacheModel(), rand.New(rand.NewPCG(3, 3)), newLanes()
	for range rounds {
		for _, r := range rs {
			prompt, n := r.next()
			output := randomTokens(rng, n)
			r.answered(prompt, output, m.serve(slices.Concat(prompt, output), len(prompt)))
		}
	}
	return share(allTurns(rs))
}

func newLanes() []*replay {
	rs := make([]*replay, lanes)
	for i := range rs {
		rs[i] = newReplay(laneTalks, uint64(10+i))
	}
	return rs
}

func allTurns(rs []*replay) (all []turn) {
	for _, r := range rs {
		all = append(all, r.turns...)
	}
	return all
}

// replayFour: within a round of four the order is a matter of chance, so only the share
// of found tokens is compared, of the engines and of the rules in turn. The simulated
// engine is quick: the mean of three runs takes most of its chance away.
func replayFour(t *testing.T, e *engine) {
	const runs = 3
	rules, simulated := inTurn(), 0.0
	for range runs {
		got := atOnce(t, quick(t))
		t.Logf("the simulated engine: %.1f %% of all tokens found", 100*got)
		simulated += got / runs
	}
	if math.Abs(simulated-rules) > 0.05 {
		t.Errorf("the simulated engine found %.1f %% of the tokens, the rules in turn %.1f %%; they should be 5 points apart at most", 100*simulated, 100*rules)
	}
	if e.isSimulated() {
		return // the subject is the simulated engine itself
	}
	got := atOnce(t, e)
	t.Logf("%s: %.1f %% of all tokens found; the simulated one: %.1f %%, the rules in turn: %.1f %%", e.name, 100*got, 100*simulated, 100*rules)
	if math.Abs(got-simulated) > 0.02 {
		t.Errorf("%s found %.1f %% of the tokens, the simulated engine %.1f %%; they should be 2 points apart at most", e.name, 100*got, 100*simulated)
	}
}
