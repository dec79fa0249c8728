package proxy

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/proxy/wire"
)

// limiter counts what a tenant or a model takes against its limits. It is carried over
// from snapshot to snapshot. It is safe for concurrent use.
type limiter struct {
	whose string // for the client: "key of team", "model qwen3-4b", "service"

	mu       sync.Mutex // guards what follows
	limits   Limits
	open     int
	requests bucket
	tokens   bucket
}

// bucket holds what may still be taken. It is full at first, holds what a minute allows,
// and refills evenly. Tokens are known only after an answer, so that the level may fall
// below zero; nothing more is let in then until it has risen again.
type bucket struct {
	level float64
	at    time.Time // when level was true; zero for a bucket that was never used
}

// refill lets time pass for a bucket of perMinute.
func (b *bucket) refill(now time.Time, perMinute int) {
	full := float64(perMinute)
	if b.at.IsZero() {
		b.level = full
	} else if passed := now.Sub(b.at); passed > 0 {
		b.level += full * passed.Minutes()
	}
	b.level, b.at = min(b.level, full), now
}

// wait returns the time until the level is at least need.
func (b *bucket) wait(need float64, perMinute int) time.Duration {
	if b.level >= need {
		return 0
	}
	return time.Duration((need - b.level) / float64(perMinute) * float64(time.Minute))
}

// set changes the limits, live. What is no longer limited is forgotten.
func (l *limiter) set(limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = limits
	if limits.RequestsPerMinute <= 0 {
		l.requests = bucket{}
	}
	if limits.TokensPerMinute <= 0 {
		l.tokens = bucket{}
	}
}

// take lets a request in, to be ended with end. The error is a *limitError, and nothing
// is taken then.
func (l *limiter) take(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.limits.Concurrent; n > 0 && l.open >= n {
		return &limitError{whose: l.whose, what: amount(n, "request") + " at once", after: time.Second}
	}
	if n := l.limits.TokensPerMinute; n > 0 {
		l.tokens.refill(now, n)
		if w := l.tokens.wait(min(1, float64(n)), n); w > 0 {
			return &limitError{whose: l.whose, what: amount(n, "token") + " a minute", after: w}
		}
	}
	if n := l.limits.RequestsPerMinute; n > 0 {
		l.requests.refill(now, n)
		if w := l.requests.wait(1, n); w > 0 {
			return &limitError{whose: l.whose, what: amount(n, "request") + " a minute", after: w}
		}
		l.requests.level--
	}
	l.open++
	return nil
}

// end counts a request that was let in and is over, with the tokens that were computed
// for it.
func (l *limiter) end(now time.Time, tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if n := l.limits.TokensPerMinute; n > 0 {
		l.tokens.refill(now, n)
		l.tokens.level -= float64(tokens)
	}
}

// giveBack takes back that a request was counted which another limit refuses.
func (l *limiter) giveBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.limits.RequestsPerMinute; n > 0 {
		l.requests.level = min(l.requests.level+1, float64(n))
	}
}

// maxTokens returns the longest answer that may be asked for; 0 means any.
func (l *limiter) maxTokens() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.limits.MaxTokens, 0)
}

// bodyBytes returns the longest request body in bytes; 0 means any.
func (l *limiter) bodyBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.limits.BodyBytes, 0)
}

// longestRetryAfter is the most seconds that a client is told to wait: SDKs that are told
// more than a minute do not wait at all.
const longestRetryAfter = 60

// limitError refuses a request over a limit.
type limitError struct {
	whose, what string
	after       time.Duration // until it may be tried again
}

// seconds returns when to try again, in whole seconds from 1 to longestRetryAfter.
func (e *limitError) seconds() int {
	return min(max(int(math.Ceil(e.after.Seconds())), 1), longestRetryAfter)
}

// Error names the limit.
func (e *limitError) Error() string {
	return fmt.Sprintf("The %s is limited to %s. Try again in %d s.", e.whose, e.what, e.seconds())
}

// amount writes "1 request" and "2 requests".
func amount(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// limit counts the request against the limits of its key or its model; there is nil for
// a key before the first snapshot.
func (x *exchange) limit(l *limiter) error {
	if l == nil {
		return nil
	}
	if n := l.bodyBytes(); n > 0 && int64(len(x.body)) > n {
		return &bodyTooLargeError{limit: n, whose: l.whose}
	}
	if err := l.take(time.Now()); err != nil {
		for _, before := range x.limiters {
			before.giveBack()
		}
		return err
	}
	x.limiters = append(x.limiters, l)
	return nil
}

// endLimits gives back what limit took, and counts the tokens that were computed.
func (x *exchange) endLimits(now time.Time) {
	if len(x.limiters) == 0 {
		return
	}
	tokens := x.computed()
	for _, l := range x.limiters {
		l.end(now, tokens)
	}
}

// computed returns the tokens that an engine computed for the request: the prompt without
// what was cached, and the answer. Engines report them at the end of an answer. Of one that
// was cut, and of one whose client had the engine report nothing, they are estimated: else
// who leaves before the end, or asks for no report, would pay nothing. The prompt is then
// what the decision expected, of an answer every event counts as a token. Of one without a
// stream, nobody can tell how far it came. A look at a stored response computes nothing:
// the figures in it are of the request that made it.
func (x *exchange) computed() int {
	if x.api == wire.APIResponseGet {
		return 0
	}
	u := x.usage
	prompt, answer := max(u.Prompt-max(u.Cached, 0), 0), max(u.Completion, 0)
	untold := u.Prompt < 0 || u.Completion < 0 && x.api.Generates()
	if x.flow == nil {
		untold = untold || x.gone
	} else {
		seen := x.flow.State()
		if untold = untold || !seen.Done; untold {
			answer = max(answer, seen.Events)
		}
	}
	if !untold || x.attempts == 0 || !x.served && !x.gone || !reads(x.api) {
		return prompt + answer
	}
	expected := x.place.decision.Uncached
	switch {
	case u.Prompt < 0:
		prompt = expected
	case u.Cached < 0:
		prompt = min(prompt, expected)
	}
	return prompt + answer
}

// reads says whether engines read prompts on a surface.
func reads(api wire.API) bool {
	switch api {
	case wire.APIEmbeddings, wire.APIRerank, wire.APIScore:
		return true
	}
	return api.Generates()
}

// bodyLimit returns the longest body that may be read, in bytes, and whose limit that is:
// that of all, "", or that of the key where it is less. The model is known only from the body, and [exchange.limit] looks
// then.
func (x *exchange) bodyLimit() (limit int64, whose string) {
	limit = x.p.options.MaxBodyBytes
	for _, l := range x.limiters {
		if n := l.bodyBytes(); n > 0 && n < limit {
			limit, whose = n, l.whose
		}
	}
	return limit, whose
}

// maxTokens returns the longest answer that the request may ask for; 0 means any.
func (x *exchange) maxTokens() int {
	least := 0
	for _, l := range x.limiters {
		if n := l.maxTokens(); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}
