package route

import "testing"

// chat is a client that sends no id: its history as hashes, one per message, each
// over all before it.
type chat struct{ hashes []uint64 }

// newChat begins with a system text that all chats share and a user message.
func newChat(user uint64) *chat { return &chat{hashes: []uint64{1, mix(1000 + user)}} }

func (c *chat) say(message uint64) {
	c.hashes = append(c.hashes, mix(c.hashes[len(c.hashes)-1]*31+message))
}

func (c *chat) request() *Request {
	return &Request{Rank: -1, PromptBytes: 1000 * len(c.hashes), Chain: c.hashes, ChainFirst: 1}
}

// turn sends the history, takes the answer into it and returns the decision.
// echoed says whether the client will send the answer back as it came.
func (c *chat) turn(b *box, answer uint64, echoed bool) Decision {
	b.t.Helper()
	tk, d := b.arrive(c.request())
	c.answer(b, tk, answer, echoed)
	return d
}

func (c *chat) answer(b *box, tk Ticket, answer uint64, echoed bool) {
	o := served()
	c.say(answer)
	if echoed {
		o.ChainNext = c.hashes[len(c.hashes)-1]
	}
	b.c.FirstByte(b.now, tk)
	b.c.Done(b.now, tk, o)
}

func TestChainTellsConversations(t *testing.T) {
	for name, echoed := range map[string]bool{"answer echoed": true, "answer rewritten": false} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, 4, DefaultSettings())
			chats := []*chat{newChat(1), newChat(2), newChat(3), newChat(4), newChat(5)}
			first := make([]Decision, len(chats))
			for turn := range 6 {
				for i, c := range chats {
					d := c.turn(b, uint64(100*i+turn), echoed)
					if turn == 0 {
						first[i] = d
						if d.Class != ClassPlaced {
							t.Fatalf("chat %d began as %v", i, d.Class)
						}
					} else if d.Class != ClassSticky || d.Conversation != first[i].Conversation || d.Turn != uint64(turn+1) {
						t.Fatalf("chat %d, turn %d: %+v", i, turn+1, d)
					}
					c.say(uint64(7*i + turn)) // the next user message
				}
			}
			if n := b.c.View(b.now).Conversations; n != len(chats) {
				t.Errorf("%d conversations, want %d", n, len(chats))
			}
			checkInside(t, b.c)
		})
	}
}

// TestSameFirstMessage runs two chats that begin alike, one after the other: they are
// two conversations, and the answers tell them apart.
func TestSameFirstMessage(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	x, y := newChat(1), newChat(1)
	dx := x.turn(b, 100, true)
	dy := y.turn(b, 200, true)
	if dx.Conversation == dy.Conversation || dx.Replica == dy.Replica {
		t.Fatalf("two chats became one: %+v and %+v", dx, dy)
	}
	if [8]byte(dx.Conversation[:8]) == [8]byte(dy.Conversation[:8]) {
		t.Errorf("two chats look the same by the half of their keys that is shown: %x", dx.Conversation[:8])
	}
	x.say(5)
	y.say(5)
	if d := x.turn(b, 101, true); d.Conversation != dx.Conversation {
		t.Errorf("the second turn of x joined %x, want %x", d.Conversation, dx.Conversation)
	}
	if d := y.turn(b, 201, true); d.Conversation != dy.Conversation {
		t.Errorf("the second turn of y joined %x, want %x", d.Conversation, dy.Conversation)
	}
}

// TestDuplicateFollowsItsTwin sends the same whole prompt while it is in flight.
func TestDuplicateFollowsItsTwin(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	x := newChat(1)
	_, d := b.arrive(x.request())
	_, twin := b.arrive(x.request())
	if twin.Replica != d.Replica {
		t.Errorf("the duplicate went to %d, its twin is read on %d", twin.Replica, d.Replica)
	}
	if twin.Conversation == d.Conversation {
		t.Error("equal first prompts of two clients became one conversation")
	}
}

func TestRewoundHistoryJoinsItsParent(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	x := newChat(1)
	first := x.turn(b, 100, true)
	fork := &chat{hashes: append([]uint64(nil), x.hashes...)}
	x.say(1)
	x.turn(b, 101, true)
	fork.say(2)
	if d := fork.turn(b, 102, true); d.Conversation != first.Conversation || d.Class != ClassSticky {
		t.Errorf("the fork is %v of %x, want sticky of %x", d.Class, d.Conversation, first.Conversation)
	}
}

func TestCompactionBeginsAConversation(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	x := newChat(1)
	first := x.turn(b, 100, true)
	compacted := newChat(2)
	if d := compacted.turn(b, 101, true); d.Conversation == first.Conversation || d.Class != ClassPlaced {
		t.Errorf("another first message continued the conversation: %+v", d)
	}
}

func TestChainWithoutUserMessageTellsNothing(t *testing.T) {
	b := newBox(t, 2, DefaultSettings())
	for _, r := range []*Request{
		{Rank: -1, Chain: []uint64{1}, ChainFirst: 1},
		{Rank: -1, Chain: []uint64{1}, ChainFirst: -1},
		{Rank: -1},
	} {
		if d := b.turn(r); d.Class != ClassUnkeyed {
			t.Errorf("%+v is %v, want unkeyed", r, d.Class)
		}
	}
}

// TestCandidatesAreBounded begins many chats alike at once: no hash keeps more
// candidates than the bound, the latest ones.
func TestCandidatesAreBounded(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	var last Decision
	for range 5 * chainCandidates {
		last = newChat(1).turn(b, 100, false)
	}
	n := 0
	for e, ok := b.c.table.chains[mix(1001)]; ok && e != none; e = *b.c.table.link(e) {
		n++
	}
	if n != chainCandidates {
		t.Errorf("%d candidates, want %d", n, chainCandidates)
	}
	next := newChat(1)
	next.say(100)
	next.say(2)
	if d := next.turn(b, 3, false); d.Conversation != last.Conversation {
		t.Errorf("joined %x, want the one used last, %x", d.Conversation, last.Conversation)
	}
	checkInside(t, b.c)
}

// TestIDWinsOverChain gives a request with an id the history of another conversation.
func TestIDWinsOverChain(t *testing.T) {
	b := newBox(t, 4, DefaultSettings())
	x := newChat(1)
	x.turn(b, 100, true)
	x.say(1)
	r := x.request()
	r.Key = keyOf(1)
	if d := b.turn(r); d.Class != ClassPlaced || d.Conversation != keyOf(1) {
		t.Errorf("%v of %x, want placed of its own id", d.Class, d.Conversation)
	}
}
