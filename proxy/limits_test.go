package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmwarden/lmwarden/proxy/wire"
)

// limited returns a box whose key "secret" is of tenant "team", with limits on that
// tenant or on the model.
func limited(t *testing.T, perKey bool, l Limits, script http.HandlerFunc) *box {
	t.Helper()
	return newBox(t, 1, script, func(_ *Options, s *Snapshot) {
		s.Keys = map[string]string{"secret": "team", "other": "another-team"}
		if perKey {
			s.TenantLimits = map[string]Limits{"team": l}
		} else {
			s.Models[0].Limits = l
		}
	})
}

// limitTenant changes the limits of a tenant, live.
func (b *box) limitTenant(tenant string, l Limits) {
	b.t.Helper()
	s := *b.snapshot
	s.TenantLimits = map[string]Limits{tenant: l}
	b.snapshot = &s
	b.proxy.Apply(&s)
}

// ask sends a request of a tenant.
func (b *box) ask(path, key string) gotReply {
	return b.post(path, chat("m", false), "Authorization", "Bearer "+key)
}

// wantLimited checks a refusal for its status, its advice and its text.
func wantLimited(t *testing.T, got gotReply, after, text string) {
	t.Helper()
	if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != after || !strings.Contains(got.body, text) {
		t.Errorf("got %d, Retry-After %q, %s; want 429, %q, %q", got.status, got.header.Get("Retry-After"), got.body, after, text)
	}
}

func TestConcurrentLimit(t *testing.T) {
	for _, perKey := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			b := limited(t, perKey, Limits{Concurrent: 2}, silentUntilGone)
			ctx, leave := context.WithCancel(context.Background())
			for range 2 {
				go b.do(b.request(ctx, "/v1/chat/completions", chat("m", false), "Authorization", "Bearer secret"))
			}
			synctest.Wait()
			wantLimited(t, b.ask("/v1/chat/completions", "secret"), "1", `"type":"RateLimitError"`)
			wantLimited(t, b.ask("/v1/messages", "secret"), "1", `"type":"rate_limit_error"`)
			b.engines[0].does(answers(1))
			if got := b.ask("/v1/chat/completions", "other"); (got.status == 200) != perKey {
				t.Errorf("per key %t: another key got %d", perKey, got.status)
			}
			leave()
			synctest.Wait()
			if got := b.ask("/v1/chat/completions", "secret"); got.status != 200 {
				t.Errorf("got %d %s when the others have left", got.status, got.body)
			}
			b.wantIdle()
		})
	}
}

func TestRequestsPerMinute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := limited(t, true, Limits{RequestsPerMinute: 4}, answers(1))
		for i := range 4 {
			if got := b.ask("/v1/chat/completions", "secret"); got.status != 200 {
				t.Fatalf("request %d: got %d %s", i, got.status, got.body)
			}
		}
		wantLimited(t, b.ask("/v1/chat/completions", "secret"), "15", "The key of team is limited to 4 requests a minute")
		<-time.After(14 * time.Second)
		wantLimited(t, b.ask("/v1/chat/completions", "secret"), "1", "Try again in 1 s")
		<-time.After(time.Second)
		if got := b.ask("/v1/chat/completions", "secret"); got.status != 200 {
			t.Errorf("got %d %s after the time it was told", got.status, got.body)
		}
	})
}

// What the model's limit refuses has cost the key nothing.
func TestRefusedByTheModelCostsTheKeyNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := limited(t, true, Limits{RequestsPerMinute: 2}, answers(1))
		b.change(func(m *Model) { m.Limits = Limits{RequestsPerMinute: 1} })
		if got := b.ask("/v1/chat/completions", "secret"); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		for range 3 {
			wantLimited(t, b.ask("/v1/chat/completions", "secret"), "60", "The model m is limited to 1 request a minute")
		}
		b.change(func(m *Model) { m.Limits = Limits{} })
		if got := b.ask("/v1/chat/completions", "secret"); got.status != 200 {
			t.Errorf("the second request of the key: got %d %s", got.status, got.body)
		}
		wantLimited(t, b.ask("/v1/chat/completions", "secret"), "30", "The key of team is limited to 2 requests a minute")
	})
}

// answers reports 20 tokens of prompt with 16 of them cached, and 5 of answer: 9 are
// computed.
func TestTokensPerMinute(t *testing.T) {
	for _, perKey := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			b := limited(t, perKey, Limits{TokensPerMinute: 12}, answers(1))
			for i := range 2 {
				if got := b.ask("/v1/chat/completions", "secret"); got.status != 200 {
					t.Fatalf("request %d: got %d %s", i, got.status, got.body)
				}
				synctest.Wait()
			}
			// 6 tokens too many were computed; 7 must come back, at 12 a minute.
			wantLimited(t, b.ask("/v1/chat/completions", "secret"), "35", "12 tokens a minute")
			<-time.After(35 * time.Second)
			if got := b.ask("/v1/chat/completions", "secret"); got.status != 200 {
				t.Errorf("got %d %s after the time it was told", got.status, got.body)
			}
		})
	}
}

// Who leaves before the engine says what it computed pays for what is known of it.
func TestCutAnswersAreCharged(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/embeddings"} {
		for _, stream := range []bool{true, false} {
			bubble(t, func(t *testing.T) {
				script := silentUntilGone
				if stream {
					script = tokensUntilGone(100 * time.Millisecond)
				}
				b := limited(t, true, Limits{TokensPerMinute: 1}, script)
				ctx, leave := context.WithTimeout(context.Background(), 10*time.Second)
				defer leave()
				if got := b.do(b.request(ctx, path, chat("m", stream), "Authorization", "Bearer secret")); got.err == nil {
					t.Fatalf("%s, stream %t: the request was answered: %d %s", path, stream, got.status, got.body)
				}
				synctest.Wait()
				wantLimited(t, b.ask("/v1/chat/completions", "secret"), "60", "1 token a minute")
				if got := b.lastRecord(); got.Prompt != -1 || got.Completion != -1 {
					t.Errorf("%s, stream %t: the record takes the estimate for a figure of the engine: %+v", path, stream, got)
				}
				b.wantIdle()
			})
		}
	}
}

// Who has the engine report nothing, or asks for a stream in a way that only the engine
// reads as one, pays too.
func TestUnreportedAnswersAreCharged(t *testing.T) {
	for _, asks := range []string{`"stream":true,"stream_options":{"include_usage":false}`, `"stream":1`} {
		bubble(t, func(t *testing.T) {
			b := limited(t, true, Limits{TokensPerMinute: 1}, func(w http.ResponseWriter, _ *http.Request) {
				sendFrames(w, append(chatChunks(3), doneFrame), 0)
			})
			if got := b.post("/v1/chat/completions", `{"model":"m",`+asks+`,"messages":[]}`, "Authorization", "Bearer secret"); got.status != 200 || got.err != nil {
				t.Fatalf("%s: got %d %v %s", asks, got.status, got.err, got.body)
			}
			synctest.Wait()
			wantLimited(t, b.ask("/v1/chat/completions", "secret"), "60", "1 token a minute")
			b.wantIdle()
		})
	}
}

// What is charged of a request, by how it ended and what the engine said.
func TestComputed(t *testing.T) {
	stream := func(api wire.API, frames ...string) *wire.Stream {
		s := wire.NewStream(api, wire.StreamOptions{})
		for _, f := range frames {
			s.Write([]byte(f))
		}
		return s
	}
	chunks := chatChunks(7) // nine events
	start := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":900,\"output_tokens\":0}}}\n\n"
	for name, test := range map[string]struct {
		x    *exchange
		want int
	}{
		"whole":                       {&exchange{api: wire.APIChat, served: true, usage: wire.Usage{Prompt: 20, Cached: 16, Completion: 5}}, 9},
		"whole stream":                {&exchange{api: wire.APIChat, served: true, flow: stream(wire.APIChat, append(chunks, usageFrame, doneFrame)...)}, 9},
		"stream, left":                {&exchange{api: wire.APIChat, served: true, gone: true, flow: stream(wire.APIChat, chunks...)}, 109},
		"stream, cut by the engine":   {&exchange{api: wire.APIChat, served: true, flow: stream(wire.APIChat, chunks...)}, 109},
		"messages, left at the start": {&exchange{api: wire.APIMessages, served: true, gone: true, flow: stream(wire.APIMessages, start)}, 101},
		"left before the first byte":  {&exchange{api: wire.APIChat, gone: true, usage: wire.NoUsage()}, 100},
		"whole stream, no report":     {&exchange{api: wire.APIChat, served: true, flow: stream(wire.APIChat, append(chunks, doneFrame)...)}, 109},
		"whole, no report":            {&exchange{api: wire.APIChat, served: true, usage: wire.NoUsage()}, 100},
		"embeddings":                  {&exchange{api: wire.APIEmbeddings, served: true, usage: wire.Usage{Prompt: 500, Cached: -1, Completion: -1}}, 500},
		"embeddings, no report":       {&exchange{api: wire.APIEmbeddings, served: true, usage: wire.NoUsage()}, 100},
		"a look at a stored response": {&exchange{api: wire.APIResponseGet, served: true, usage: wire.Usage{Prompt: 20, Cached: 16, Completion: 5}}, 0},
		"refused by the engine":       {&exchange{api: wire.APIChat, usage: wire.NoUsage()}, 0},
		"no prompt to read":           {&exchange{api: wire.APITokenize, gone: true, usage: wire.NoUsage()}, 0},
	} {
		x := test.x
		x.attempts, x.place.decision.Uncached = 1, 100
		if x.flow != nil {
			x.usage = x.flow.State().Usage
		}
		if got := x.computed(); got != test.want {
			t.Errorf("%s: %d tokens, want %d", name, got, test.want)
		}
		if x.attempts = 0; x.gone && x.flow == nil && x.computed() != 0 {
			t.Errorf("%s: charged though it never left the door", name)
		}
	}
}

// No client is told to wait for longer than SDKs do.
func TestRetryAfterIsBounded(t *testing.T) {
	for after, want := range map[time.Duration]int{0: 1, 1: 1, time.Second: 1, 1001 * time.Millisecond: 2, time.Hour: longestRetryAfter} {
		if got := (&limitError{after: after}).seconds(); got != want {
			t.Errorf("%v: got %d s, want %d", after, got, want)
		}
	}
}

// Limits change live, and what was counted stays.
func TestLimitsChangeLive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := limited(t, false, Limits{RequestsPerMinute: 1}, answers(1))
		b.ask("/v1/chat/completions", "secret")
		b.change(func(m *Model) { m.MaxModelLen++ })
		wantLimited(t, b.ask("/v1/chat/completions", "secret"), "60", "model m")
		b.change(func(m *Model) { m.Limits = Limits{} })
		for range 5 {
			if got := b.ask("/v1/chat/completions", "secret"); got.status != 200 {
				t.Errorf("got %d %s without limits", got.status, got.body)
			}
		}
	})
}

// A limit that comes later knows of the requests that are open, and one that goes and
// comes again does too.
func TestConcurrentLimitComesLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := limited(t, true, Limits{}, silentUntilGone)
		ctx, leave := context.WithCancel(context.Background())
		for range 2 {
			go b.do(b.request(ctx, "/v1/chat/completions", chat("m", false), "Authorization", "Bearer secret"))
		}
		synctest.Wait()
		b.limitTenant("team", Limits{Concurrent: 2})
		wantLimited(t, b.ask("/v1/chat/completions", "secret"), "1", "2 requests at once")
		b.limitTenant("team", Limits{})
		b.limitTenant("team", Limits{Concurrent: 1})
		wantLimited(t, b.ask("/v1/chat/completions", "secret"), "1", "1 request at once")
		leave()
		synctest.Wait()
		b.engines[0].does(answers(1))
		if got := b.ask("/v1/chat/completions", "secret"); got.status != 200 {
			t.Errorf("got %d %s when the others have left", got.status, got.body)
		}
		b.wantIdle()
	})
}

// A larger limit applies to the next request, and what was taken under the smaller one
// stays taken.
func TestRaisedLimitKeepsTheCount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := limited(t, true, Limits{RequestsPerMinute: 1}, answers(1))
		b.ask("/v1/chat/completions", "secret")
		wantLimited(t, b.ask("/v1/chat/completions", "secret"), "60", "1 request a minute")
		b.limitTenant("team", Limits{RequestsPerMinute: 60})
		wantLimited(t, b.ask("/v1/chat/completions", "secret"), "1", "60 requests a minute")
		<-time.After(time.Minute)
		for i := range 60 {
			if got := b.ask("/v1/chat/completions", "secret"); got.status != 200 {
				t.Fatalf("request %d of the next minute: got %d %s", i, got.status, got.body)
			}
		}
		wantLimited(t, b.ask("/v1/chat/completions", "secret"), "1", "60 requests a minute")
	})
}

// A body over the limit of its key is refused before it is read, one over that of its
// model when it is known whose it is.
func TestBodyLimits(t *testing.T) {
	for whose, perKey := range map[string]bool{"key of team": true, "model m": false} {
		bubble(t, func(t *testing.T) {
			b := limited(t, perKey, Limits{BodyBytes: 1024}, answers(1))
			large := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 1024) + `"}]}`
			for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
				got := b.post(path, large, "Authorization", "Bearer secret")
				if got.status != http.StatusRequestEntityTooLarge || !strings.Contains(got.body, "over the limit of 1 KiB of the "+whose) {
					t.Errorf("%s: got %d %s", path, got.status, got.body)
				}
			}
			if got := b.ask("/v1/chat/completions", "secret"); got.status != 200 {
				t.Errorf("a small body: got %d %s", got.status, got.body)
			}
			if got := b.post("/v1/chat/completions", large, "Authorization", "Bearer other"); (got.status == 200) != perKey {
				t.Errorf("per key %t: another key got %d", perKey, got.status)
			}
			b.wantIdle()
		})
	}
}

// The smaller of the two bounds reaches the engine, and only where the client asks for
// more.
func TestMaxTokensIsCapped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1), func(_ *Options, s *Snapshot) {
			s.TenantLimits = map[string]Limits{"": {MaxTokens: 100}}
			s.Models[0].Limits.MaxTokens = 200
		})
		for asked, want := range map[string]string{
			`"max_tokens":5000`: `"max_tokens":100`,
			`"max_tokens":50`:   `"max_tokens":50`,
			`"x":1`:             `"max_completion_tokens":100`,
		} {
			b.post("/v1/chat/completions", fmt.Sprintf(`{"model":"m",%s,"messages":[]}`, asked))
			seen := b.engines[0].requests()
			if body := seen[len(seen)-1].body; !strings.Contains(body, want) || strings.Count(body, "_tokens") > 1 {
				t.Errorf("%s: the engine got %s", asked, body)
			}
		}
	})
}

// Requests that end in every way give back what they took.
func TestLimitsAreGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := limited(t, true, Limits{Concurrent: 1000}, once(breaks, status(500)))
		for _, body := range []string{chat("m", false), chat("m", true), "no json", chat("nope", false)} {
			b.post("/v1/chat/completions", body, "Authorization", "Bearer secret")
		}
		synctest.Wait()
		if n := b.proxy.table.Load().limiters["team"].open; n != 0 {
			t.Errorf("%d requests are still counted", n)
		}
	})
}
