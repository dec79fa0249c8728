package proxy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// agentTurn is a turn of a coding agent with a system text, tools and so many messages
// of history.
func agentTurn(system, tools string, history ...string) string {
	var messages []string
	for i, text := range history {
		messages = append(messages, fmt.Sprintf(`{"role":%q,"content":%q}`, []string{"user", "assistant"}[i%2], text))
	}
	return fmt.Sprintf(`{"model":"m","max_tokens":1000,"system":%q,"tools":[%s],"messages":[%s]}`, system, tools, strings.Join(messages, ","))
}

func TestPrefixBreaksNameTheCulprit(t *testing.T) {
	long := strings.Repeat("You are an agent. ", 40)
	a, b := `{"name":"a"}`, `{"name":"b"}`
	ask := strings.Repeat("fix it ", 30)
	for name, c := range map[string]struct {
		turns   []string
		culprit Culprit
		broken  bool
	}{
		"a history that grows": {turns: []string{agentTurn(long, a, ask), agentTurn(long, a, ask, "done", "more")}},
		"attribution": {
			turns:   []string{agentTurn("x-anthropic-billing-header: v=1\n"+long, a, ask), agentTurn("x-anthropic-billing-header: v=2\n"+long, a, ask, "done", "more")},
			culprit: CulpritAttribution, broken: true,
		},
		"a clock": {
			turns:   []string{agentTurn(long+"Now: 2026-11-29 10:41", a, ask), agentTurn(long+"Now: 2026-11-29 10:42", a, ask, "done", "more")},
			culprit: CulpritClock, broken: true,
		},
		"shuffled tools":  {turns: []string{agentTurn(long, a+","+b, ask), agentTurn(long, b+","+a, ask)}, culprit: CulpritToolOrder, broken: true},
		"other tools":     {turns: []string{agentTurn(long, a, ask), agentTurn(long, a+","+b, ask)}, culprit: CulpritTools, broken: true},
		"a moved note":    {turns: []string{agentTurn(long, a, ask+"<system-reminder>x</system-reminder>"), agentTurn(long, a, ask, "done", "<system-reminder>x</system-reminder>")}, culprit: CulpritReminder, broken: true},
		"a cut history":   {turns: []string{agentTurn(long, a, ask, "done", ask), agentTurn(long, a, ask)}, culprit: CulpritHistory, broken: true},
		"another message": {turns: []string{agentTurn(long, a, ask, "done", ask), agentTurn(long, a, ask, "never", ask)}, culprit: CulpritHistory, broken: true},
		"another system":  {turns: []string{agentTurn(long+"Be brief.", a, ask), agentTurn(long+"Be long.", a, ask)}, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				box := newBox(t, 1, answers(1))
				for _, turn := range c.turns {
					if got := box.post("/v1/messages", turn, append(session("an-agents-conversation"), "User-Agent", "agent/1.0 (x)")...); got.status != 200 {
						t.Fatalf("got %d %s", got.status, got.body)
					}
					synctest.Wait()
				}
				seen := box.proxy.PrefixBreaks("m")
				if !c.broken {
					if len(seen) != 0 {
						t.Errorf("an alarm without a cause: %+v", seen)
					}
					return
				}
				if len(seen) != 1 || seen[0].Culprit != c.culprit || seen[0].Client != "agent/1.0" || seen[0].Broken != 1 || seen[0].Compared != 1 || seen[0].ByCulprit != 1 {
					t.Errorf("got %+v, want one break by culprit %d", seen, c.culprit)
				}
			})
		})
	}
}

// The watch is bounded in conversations and in what waits, and drops before it blocks.
func TestPrefixWatchIsBounded(t *testing.T) {
	w := newPrefixWatch()
	for range prefixQueue + 10 {
		w.offer(prompt{size: 1})
	}
	w.offer(prompt{size: prefixBytes})
	if n := w.dropped.Load(); n != 11 || w.bytes.Load() != prefixQueue {
		t.Errorf("%d dropped, %d bytes wait", n, w.bytes.Load())
	}
	var x prompt
	if err := x.scan.Scan([]byte(agentTurn("s", "", "hi"))); err != nil {
		t.Fatal(err)
	}
	for i := range prefixTrails + 50 {
		x.key[0], x.key[1] = byte(i), byte(i>>8)
		w.look(&x)
	}
	if len(w.trails) != prefixTrails || w.order.Len() != prefixTrails {
		t.Errorf("%d conversations are remembered, want %d", len(w.trails), prefixTrails)
	}
}

// Breaks are counted over the last turns of a client, so that a good past hides nothing and
// a bad one is over.
func TestPrefixBreaksAreOfTheLastTurns(t *testing.T) {
	w, now := newPrefixWatch(), time.Unix(1000, 0)
	turns := func(n int, at *wire.Break) {
		for range n {
			now = now.Add(time.Second)
			w.note(&prompt{model: "m", client: "agent/1.0", key: route.Key{byte(now.Unix())}, at: now}, at)
		}
	}
	order, tools := &wire.Break{Section: wire.SectionTools, SameTools: true, Index: 3}, &wire.Break{Section: wire.SectionTools, Index: 4}
	turns(10_000, nil)
	if got := w.breaks("m"); len(got) != 0 {
		t.Errorf("nothing broke: %+v", got)
	}
	turns(8, tools)
	turns(12, order)
	want := PrefixBreaks{
		Client: "agent/1.0", Culprit: CulpritToolOrder, Compared: 100, Broken: 20, ByCulprit: 12, AllCompared: 10_020, AllByCulprit: 12,
		Latest: now, Last: now, Conversation: route.Key{byte(now.Unix())}, At: *order,
	}
	if got := w.breaks("m"); len(got) != 1 || got[0] != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	turns(4, tools) // as many of both: the last one tells
	want.Culprit, want.Broken, want.AllCompared, want.Latest, want.Last, want.Conversation, want.At = CulpritTools, 24, 10_024, now, now, route.Key{byte(now.Unix())}, *tools
	if got := w.breaks("m"); len(got) != 1 || got[0] != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	turns(99, nil)
	want.Broken, want.ByCulprit, want.AllCompared = 1, 1, 10_123
	if got := w.breaks("m"); len(got) != 1 || got[0] != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	turns(1, nil)
	if got := w.breaks("m"); len(got) != 0 {
		t.Errorf("a hundred good turns later: %+v", got)
	}
}

// The client that was seen longest ago gives way to a new one.
func TestPrefixClientsAreBounded(t *testing.T) {
	w := newPrefixWatch()
	see := func(model string, n int) {
		w.note(&prompt{model: model, client: fmt.Sprintf("agent/%03d", n)}, &wire.Break{Section: wire.SectionTools})
	}
	for n := range prefixClients {
		see("m", n)
	}
	see("m", 0)
	see("n", prefixClients)
	var got []string
	for _, b := range w.breaks("m") {
		got = append(got, fmt.Sprint(b.Client, " ", b.Broken))
	}
	if len(got) != prefixClients-1 || got[0] != "agent/000 2" || got[1] != "agent/002 1" || len(w.breaks("n")) != 1 {
		t.Errorf("%d clients are known, the first ones %v; want all but agent/001", len(got), got[:2])
	}
	w.forget("m")
	if w.seen.Len() != 1 || len(w.clients) != 1 || len(w.breaks("n")) != 1 {
		t.Errorf("without the model %d and %d clients are known, want 1", w.seen.Len(), len(w.clients))
	}
}
