package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// turn is a turn of a conversation that begins with a text, with so many answers in it.
func turn(text string, answered int) string {
	messages := []string{`{"role":"system","content":"You help."}`, fmt.Sprintf(`{"role":"user","content":%q}`, text)}
	for i := range answered {
		messages = append(messages, `{"role":"assistant","content":"hi"}`, fmt.Sprintf(`{"role":"user","content":"more %d"}`, i))
	}
	return fmt.Sprintf(`{"model":"m","messages":[%s]}`, strings.Join(messages, ","))
}

// An id that everybody sends is found out, and the conversations under it are told apart by
// their messages: they spread, and each stays where it is.
func TestIDThatEverybodySends(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, answers(1))
		fixed := session("a-fixed-id-for-everybody")
		const most = 16
		for i := range most + crowdGoOn - 1 { // some go on
			got := b.post("/v1/chat/completions", turn(fmt.Sprintf("question %d", i%most), i/most), fixed...)
			if s := got.header.Get(headerKeySource); s != "x-session-id" {
				t.Fatalf("conversation %d is told by %s", i%most, s)
			}
		}
		if got := b.post("/v1/chat/completions", turn("question 5", 1), fixed...); got.header.Get(headerKeySource) != "chain" {
			t.Fatalf("of %d conversations %d have gone on, and they are told by %s", most, crowdGoOn, got.header.Get(headerKeySource))
		}
		homes, replicas := map[int]string{}, map[string]int{}
		for turns := range 3 {
			for i := range 16 {
				got := b.post("/v1/chat/completions", turn(fmt.Sprintf("other question %d", i), turns), fixed...)
				if s := got.header.Get(headerKeySource); s != "chain" {
					t.Fatalf("conversation %d is told by %s", i, s)
				}
				home := got.header.Get(headerReplica)
				if turns == 0 {
					homes[i] = home
					replicas[home]++
				} else if homes[i] != home {
					t.Errorf("turn %d of conversation %d went to %s, its home is %s", turns, i, home, homes[i])
				}
			}
		}
		for id, n := range replicas {
			if len(replicas) != 4 || n != 4 {
				t.Errorf("%d of 16 conversations are at home on %s of %d", n, id, len(replicas))
			}
		}
		if got := b.post("/v1/chat/completions", turn("question 0", 0), session("an-id-of-one-conversation")...); got.header.Get(headerKeySource) != "x-session-id" {
			t.Error("another id is not believed")
		}
		<-time.After(crowdLife + time.Minute)
		if got := b.post("/v1/chat/completions", turn("question 0", 0), fixed...); got.header.Get(headerKeySource) != "x-session-id" {
			t.Error("the id is not believed again after an hour without a crowd")
		}
	})
}

// Conversations of one turn each are a crowd when many are there at the same time.
func TestManyAtOnceUnderOneID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, tokensUntilGone(time.Second))
		fixed := session("a-fixed-id-for-everybody")
		ctx, leave := context.WithCancel(context.Background())
		var open sync.WaitGroup
		var mu sync.Mutex
		sources := map[string]int{}
		for i := range 2 * crowdSize {
			open.Go(func() {
				resp, err := b.client.Do(b.request(ctx, "/v1/chat/completions", streamed(turn(fmt.Sprintf("question %d", i), 0)), fixed...))
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				mu.Lock()
				sources[resp.Header.Get(headerKeySource)]++
				mu.Unlock()
				<-ctx.Done()
			})
			synctest.Wait()
		}
		leave()
		open.Wait()
		if sources["x-session-id"] != crowdSize-1 || sources["chain"] != crowdSize+1 {
			t.Errorf("told by %v, want the first %d by the id", sources, crowdSize-1)
		}
		b.wantIdle()
		for i := range b.proxy.crowds.slots {
			for _, begun := range b.proxy.crowds.slots[i].begun {
				if begun.flying != 0 {
					t.Errorf("%d turns are in flight after all have left", begun.flying)
				}
			}
		}
	})
}

// Prompts of one turn each under one id are a crowd when some are always beside others.
func TestPromptsOfAnApplicationUnderOneID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, answersIn(time.Second))
		sources := map[string]int{}
		for round := range 10 {
			for source, n := range b.together(3, func(i int) string {
				return fmt.Sprintf(`{"model":"m","prompt_cache_key":"the-key-of-the-application","messages":[{"role":"user","content":"text %d"}]}`, 3*round+i)
			}) {
				sources[source] += n
			}
		}
		// Of each three the first finds nobody: the eighth that does is the last of the fourth.
		if sources["prompt_cache_key"] != 11 || sources["chain"] != 19 {
			t.Errorf("told by %v, want the first 11 by the id", sources)
		}
	})
}

// The questions of a conversation's own client beside it are none, though they come together.
func TestQuestionsTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, answersIn(time.Second))
		for round := range 10 {
			if got := b.post("/v1/chat/completions", turn("the question", round), session("one-conversation")...); got.header.Get(headerKeySource) != "x-session-id" {
				t.Fatalf("turn %d is told by %s", round, got.header.Get(headerKeySource))
			}
			page := func(i int) string { return turn(fmt.Sprintf("web page %d", 5*round+i), 0) }
			if got := b.together(5, page, session("one-conversation")...); got["x-session-id"] != 5 {
				t.Fatalf("questions after turn %d are told by %v", round, got)
			}
		}
	})
}

// answersIn answers like answers after a time.
func answersIn(d time.Duration) http.HandlerFunc {
	answer := answers(1)
	return func(w http.ResponseWriter, r *http.Request) {
		<-time.After(d)
		answer(w, r)
	}
}

// together sends n requests one after the other that are in flight at the same time, and
// returns how many were told by what.
func (b *box) together(n int, body func(i int) string, headers ...string) map[string]int {
	var open sync.WaitGroup
	var mu sync.Mutex
	sources := map[string]int{}
	for i := range n {
		open.Go(func() {
			got := b.post("/v1/chat/completions", body(i), headers...)
			mu.Lock()
			defer mu.Unlock()
			sources[got.header.Get(headerKeySource)]++
		})
		synctest.Wait()
	}
	open.Wait()
	synctest.Wait() // their ends are noted behind their answers
	return sources
}

func streamed(body string) string {
	return strings.Replace(body, `"model":"m"`, `"model":"m","stream":true`, 1)
}

// A conversation whose beginning changes is still one: its client drops the oldest messages
// with each turn, asks its own questions beside it, or sends only what is new.
func TestBeginningThatChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, answers(1))
		for name, body := range map[string]func(i int) (path, body string){
			"oldest messages dropped": func(i int) (string, string) { return "/v1/chat/completions", turn(fmt.Sprintf("question %d", i), 2) },
			"questions beside it": func(i int) (string, string) {
				if i%3 == 0 {
					return "/v1/chat/completions", turn("the question", i)
				}
				return "/v1/chat/completions", turn(fmt.Sprintf("web page %d", i), 0)
			},
			"the engine has the rest": func(i int) (string, string) {
				return "/v1/responses", fmt.Sprintf(`{"model":"m","previous_response_id":"resp_%d","input":"more %d"}`, i/2, i)
			},
		} {
			for i := range 40 {
				path, body := body(i)
				got := b.post(path, body, session("one-conversation: "+name)...)
				if s := got.header.Get(headerKeySource); s != "x-session-id" && s != "previous-response" {
					t.Fatalf("%s: turn %d is told by %s", name, i, s)
				}
			}
		}
	})
}

// Our own header always counts.
func TestOwnHeaderOfEverybody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, answers(1))
		for i := range 100 {
			got := b.post("/v1/chat/completions", turn(fmt.Sprintf("question %d", i%20), i/20), "x-lmwarden-session-id", "one-id")
			if s := got.header.Get(headerKeySource); s != "own" {
				t.Fatalf("turn %d is told by %s", i, s)
			}
		}
	})
}

// One conversation is none, however long it is and whatever its system text and its side
// calls say; nor are many that come one after the other within hours.
func TestNoCrowd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(1))
		for i := range 50 {
			body := strings.Replace(turn("one question", i), "You help.", fmt.Sprintf("You help. It is %d o'clock.", i), 1)
			if got := b.post("/v1/chat/completions", body, session("one-long-conversation")...); got.header.Get(headerKeySource) != "x-session-id" {
				t.Fatalf("turn %d is told by %s", i, got.header.Get(headerKeySource))
			}
			b.post("/v1/chat/completions", turn(fmt.Sprintf("Generate a title %d", i), 0), session("one-long-conversation")...)
			<-time.After(time.Second)
		}
		for i := range 50 {
			if got := b.post("/v1/chat/completions", turn(fmt.Sprintf("question %d", i), 0), session("one-question-now-and-then")...); got.header.Get(headerKeySource) != "x-session-id" {
				t.Fatalf("question %d is told by %s", i, got.header.Get(headerKeySource))
			}
			<-time.After(2 * time.Minute)
		}
	})
}

// An id that is watched gives way, unless more than one conversation was seen under it.
func TestCrowdsGiveWay(t *testing.T) {
	var w crowds
	now := time.Unix(1_700_000_000, 0)
	a, b := route.Key{0: 1, 15: 1}, route.Key{0: 1, 15: 2} // of one slot
	note := func(at time.Time, key route.Key, begins uint64) (crowded, found bool) {
		turn, crowded, found := w.note(at, key, begins)
		turn.over()
		return crowded, found
	}
	note(now, a, 1)
	note(now, b, 1)
	note(now, b, 2)
	for round := range 3 {
		for i := range uint64(crowdSize) {
			if crowded, _ := note(now, a, 10+i); crowded {
				t.Fatalf("an id without a place is found to be that of a crowd in round %d", round)
			}
		}
	}
	for i := range uint64(crowdSize) {
		if crowded, _ := note(now, b, 1+i); crowded {
			t.Fatalf("after %d beginnings, of which two went on, it is a crowd", 1+i)
		}
	}
	if crowded, _ := note(now, b, 3); crowded {
		t.Fatal("three went on, and it is a crowd")
	}
	if crowded, found := note(now, b, 4); !crowded || !found {
		t.Fatalf("four went on: crowded %t, found %t", crowded, found)
	}
	if crowded, found := note(now, b, 1); !crowded || found {
		t.Error("it is found twice, or forgotten")
	}
	later := now.Add(crowdLife + time.Second)
	if crowded, _ := note(later, a, 1); crowded {
		t.Error("another id takes the place and is a crowd at once")
	}
	if n := testing.AllocsPerRun(100, func() { note(later, a, 1) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// Of many conversations under one id enough are seen again, however many take turns.
func TestLargeCrowd(t *testing.T) {
	for _, size := range []uint64{crowdSize, 30, 100, 200} {
		var w crowds
		rng := rand.New(rand.NewPCG(size, 1))
		hashes := make([]uint64, size)
		for i := range hashes {
			hashes[i] = rng.Uint64()
		}
		var crowded bool
		for range 3 {
			for _, h := range hashes {
				var turn watch
				turn, crowded, _ = w.note(time.Unix(1_700_000_000, 0), route.Key{1}, h)
				turn.over()
			}
		}
		if !crowded {
			t.Errorf("%d conversations with three turns each under one id are no crowd", size)
		}
	}
}
