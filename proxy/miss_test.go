package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// counts is an engine that says how much of a prompt it had in its cache, from the header
// X-Cached, or nothing without it; a stream waits a moment before its end.
func counts(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	details := ""
	if cached := r.Header.Get("X-Cached"); cached != "" {
		details = `,"prompt_tokens_details":{"cached_tokens":` + cached + `}`
	}
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":5%s}`, len(body)/4, details)
	if !strings.Contains(string(body), `"stream":true`) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.Replace(chatWhole, chatWhole[strings.Index(chatWhole, `"usage":`)+8:len(chatWhole)-1], usage, 1))
		return
	}
	sendFrames(w, append(chatChunks(2), `data: {"id":"c1","model":"m","choices":[],"usage":`+usage+"}\n\n", doneFrame), 10*time.Millisecond)
}

// said is a turn of a conversation, with its system text, its first message and so many
// turns behind that.
func said(system, first string, turns int, stream bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":"m","stream":%t,"messages":[{"role":"system","content":%q},{"role":"user","content":%q}`, stream, system, first)
	for i := range turns {
		fmt.Fprintf(&b, `,{"role":"assistant","content":"hi"},{"role":"user","content":"more %d"}`, i)
	}
	return b.String() + "]}"
}

// Each cause of a miss comes into the record of the request, also where the client names
// its conversation.
func TestRecordsNameTheCauseOfAMiss(t *testing.T) {
	system, first := strings.Repeat("You help. ", 200), strings.Repeat("question ", 200)
	type step struct {
		do     func(b *box) // before the turn
		body   string
		cached int
		want   route.Miss
	}
	begin := step{nil, said(system, first, 0, true), 0, route.MissNew}
	for name, s := range map[string]step{
		"a hit":                        {nil, said(system, first, 1, true), 800, route.MissNone},
		"evicted":                      {nil, said(system, first, 1, true), 0, route.MissEvicted},
		"a clock in the system text":   {nil, said("It is 12:01. "+system, first, 1, false), 0, route.MissPrefixChanged},
		"a history that was rewritten": {nil, said(system, "another "+first, 1, true), 450, route.MissPrefixChanged},
		"a compacted history":          {nil, said(system, "summary", 0, false), 0, route.MissPrefixChanged},
		"home draining": {func(b *box) {
			b.change(func(m *Model) { m.Replicas[0].Route.Draining = true })
		}, said(system, first, 1, true), 0, route.MissRehomed},
		"home restarted": {func(b *box) {
			b.change(func(m *Model) { m.Replicas[0].Route.Incarnation++ })
		}, said(system, first, 1, true), 0, route.MissReplicaRestarted},
		"spilled": {func(b *box) {
			b.change(func(m *Model) { m.Routing.SpillThreshold = 1 })
			b.engines[0].does(tokensUntilGone(time.Second))
			ctx, cancel := context.WithCancel(context.Background())
			b.t.Cleanup(cancel)
			b.send(ctx, "/v1/chat/completions", said(system, first, 0, true), "X-Session-Id", "the-conversation-of-the-test", "X-Cached", "0")
			synctest.Wait()
			b.engines[0].does(counts)
		}, said(system, first, 1, true), 0, route.MissSpilled},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, 2, counts)
				for _, s := range []step{begin, s} {
					if s.do != nil {
						s.do(b)
					}
					got := b.post("/v1/chat/completions", s.body, "X-Session-Id", "the-conversation-of-the-test", "X-Cached", fmt.Sprint(s.cached))
					if got.status != 200 || got.err != nil {
						t.Fatalf("got %d %v %s", got.status, got.err, got.body)
					}
					if r := b.lastRecord(); r.Miss != s.want || r.Decision.Class == route.ClassNone {
						t.Errorf("the record says %v (%v), want %v; %d of %d tokens were cached", r.Miss, r.Decision.Class, s.want, r.Cached, r.Prompt)
					}
				}
			})
		})
	}
}

// Cached tokens that are left out are 0 once the replica has told some on the surface, and
// unknown before, in a new life, and in an answer that was cut.
func TestCachedTokensLeftOut(t *testing.T) {
	system, first := strings.Repeat("You help. ", 200), strings.Repeat("question ", 200)
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, counts)
		turn := 0
		check := func(cached string, wantCached int, wantMiss route.Miss) {
			t.Helper()
			got := b.post("/v1/chat/completions", said(system, first, turn, turn%2 == 0), "X-Session-Id", "the-conversation-of-the-test", "X-Cached", cached)
			turn++
			if r := b.lastRecord(); got.status != 200 || r.Cached != wantCached || r.Miss != wantMiss {
				t.Errorf("turn %d: status %d, %d tokens cached, %v; want %d, %v", turn, got.status, r.Cached, r.Miss, wantCached, wantMiss)
			}
		}
		check("", -1, route.MissNew)
		check("", -1, route.MissNone) // as it was expected
		check("1000", 1000, route.MissNone)
		check("", 0, route.MissEvicted)
		check("", 0, route.MissEvicted)
		b.engines[0].does(tokensUntilGone(time.Second))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		b.send(ctx, "/v1/chat/completions", said(system, first, turn, true))
		time.Sleep(3 * time.Second)
		cancel()
		synctest.Wait()
		if r := b.lastRecord(); r.Cached != -1 {
			t.Errorf("a stream that was cut has %d cached tokens, want none known", r.Cached)
		}
		b.engines[0].does(counts)
		b.change(func(m *Model) { m.Replicas[0].Route.Incarnation++ })
		check("", -1, route.MissReplicaRestarted)
	})
}

// How fast an engine reads is learned from streams only: the first byte of a whole answer
// comes when all is written.
func TestWholeAnswersTellNoPace(t *testing.T) {
	for stream, want := range map[bool]int{true: 1, false: 0} {
		bubble(t, func(t *testing.T) {
			b := newBox(t, 1, func(w http.ResponseWriter, r *http.Request) {
				<-time.After(2 * time.Second)
				counts(w, r)
			})
			got := b.post("/v1/chat/completions", said("You help.", strings.Repeat("question ", 1000), 0, stream), append(session("conversation-number-one"), "X-Cached", "0")...)
			if got.status != http.StatusOK {
				t.Fatalf("got %d: %s", got.status, got.body)
			}
			b.wantIdle()
			if v, _ := b.proxy.View("m"); v.Learned.PrefillRate.Samples != want {
				t.Errorf("streamed %t: learned %+v, want %d samples", stream, v.Learned.PrefillRate, want)
			}
		})
	}
}
