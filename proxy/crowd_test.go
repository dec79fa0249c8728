package proxy

import (
	"fmt"
	"strings"
	"testing"
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
		for i := range crowdSize - 1 {
			got := b.post("/v1/chat/completions", turn(fmt.Sprintf("question %d", i), 0), fixed...)
			if s := got.header.Get(headerKeySource); s != "x-session-id" {
				t.Fatalf("conversation %d is told by %s", i, s)
			}
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
	w.note(now, a, 1)
	w.note(now, b, 1)
	w.note(now, b, 2)
	for i := range uint64(crowdSize) {
		if crowded, _ := w.note(now, a, 10+i); crowded {
			t.Fatal("an id without a place is found to be that of a crowd")
		}
	}
	for i := range uint64(crowdSize - 2) {
		crowded, found := w.note(now, b, 3+i)
		if last := i == crowdSize-3; crowded != last || found != last {
			t.Errorf("after %d beginnings: crowded %t, found %t", 3+i, crowded, found)
		}
	}
	if crowded, found := w.note(now, b, 1); !crowded || found {
		t.Error("it is found twice, or forgotten")
	}
	later := now.Add(crowdLife + time.Second)
	if crowded, _ := w.note(later, a, 1); crowded {
		t.Error("another id takes the place and is a crowd at once")
	}
	if n := testing.AllocsPerRun(100, func() { w.note(later, a, 1) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
