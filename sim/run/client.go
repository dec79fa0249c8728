package run

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/sim/engine"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

// bytesPerToken of the simulated text, as the proxy sees it.
const bytesPerToken = 4

// client holds one conversation after the other, or is a subagent, which holds one.
type client struct {
	id       int // running number, which orders what happens at the same time
	slot     int
	number   int // of the slot's conversation, from 0
	talk     *load.Talk
	turn     load.Turn
	parent   *client // whose subagent it is, or nil
	children int     // subagents that have not ended

	story   *engine.Hasher // history and the answer that is due
	key     route.Key
	home    int // replica of the turn before, or -1
	started time.Duration

	// The turn in flight.
	sent    time.Duration
	request engine.Request
	ticket  route.Ticket
	replica int
	begun   bool // its first token has come
	counted bool // in the times to first token: a turn that broke off is not counted twice
}

// begin gives the client a conversation.
func (c *client) begin(t *load.Talk) {
	c.talk, c.home = t, -1
	binary.LittleEndian.PutUint64(c.key[:], t.ID)
	binary.LittleEndian.PutUint64(c.key[8:], uint64(c.slot)+1)
}

// take prepares a turn that is sent at that time. The answer is known beforehand: its
// blocks will be found when it comes back.
func (c *client) take(turn load.Turn, at time.Duration, shared *engine.Hasher) {
	if turn.Number == 1 {
		c.started = at
	}
	if turn.Rewritten {
		c.story = shared.Clone()
	}
	text := rand.New(rand.NewPCG(c.talk.ID, uint64(turn.Number)))
	c.story.AppendStream(text.Uint64(), turn.Tokens)
	prompt := c.story.Len()
	c.story.AppendStream(text.Uint64(), turn.Output)
	c.request = engine.Request{Prompt: prompt, Output: turn.Output, Hashes: c.story.Hashes()}
	c.turn, c.sent, c.counted = turn, at, false
}

// kinds of route by those of a load.
var kinds = map[load.Kind]route.Kind{load.Main: route.KindMain, load.Agent: route.KindAgent, load.Side: route.KindSide}

// ask is the request as the router sees it.
func (c *client) ask() *route.Request {
	r := &route.Request{
		Key: c.key, Kind: kinds[c.talk.Kind], Rank: -1, HashKey: c.talk.ID,
		PromptBytes: c.request.Prompt * bytesPerToken,
	}
	if c.talk.SharedTokens > 0 {
		r.SharedHash = nameOf(c.talk.Shared)
	}
	if c.parent != nil {
		r.Group, r.Parent = c.parent.key, c.parent.key
	}
	return r
}

// nameOf turns the name of a shared prompt into a number that is not 0.
func nameOf(shared string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(shared))
	return h.Sum64() | 1
}

// shared returns the hashes of a shared prompt.
func (w *world) shared(t *load.Talk) *engine.Hasher {
	p := sharedPrompt{t.Shared, t.SharedTokens}
	h := w.prompts[p]
	if h == nil {
		h = engine.NewHasher(w.cfg.BlockSize, 0)
		h.AppendStream(nameOf(t.Shared), t.SharedTokens)
		w.prompts[p] = h
	}
	return h
}

// sharedPrompt tells shared prompts apart. Two of the same name and different lengths
// begin alike.
type sharedPrompt struct {
	name   string
	tokens int
}

// start has every slot begin, or every conversation of the trace.
func (w *world) start() {
	slots := w.slots()
	w.open = slots
	for slot := range slots {
		c := &client{id: w.clients, slot: slot}
		w.clients++
		if w.cfg.Trace != nil {
			c.begin(w.cfg.Trace.Begin(slot))
			w.proceed(c, 0)
			continue
		}
		c.number = -1
		// A slot does not think before its first turn; it comes when the load says.
		w.renew(c, w.cfg.Load.Start(w.cfg.Seed, slot), false)
	}
}

// slots returns how many clients there are, subagents not counted.
func (w *world) slots() int {
	if w.cfg.Trace != nil {
		return w.cfg.Trace.Conversations()
	}
	return w.cfg.Load.Sessions
}

// renew gives a slot its next conversation.
func (w *world) renew(c *client, now time.Duration, think bool) {
	c.number++
	c.begin(w.cfg.Load.Begin(w.cfg.Seed, c.slot, c.number))
	turn, _ := c.talk.Next()
	if think {
		now += turn.Think
	}
	if every := w.cfg.Load.StartEvery; every > 0 {
		now = (now + every - 1) / every * every
	}
	w.send(c, turn, now)
}

// proceed goes on after a turn and its subagents: with the next turn, or with what
// follows the conversation.
func (w *world) proceed(c *client, now time.Duration) {
	turn, more := c.talk.Next()
	switch {
	case more:
		w.send(c, turn, max(now+turn.Think, turn.At))
	case c.parent != nil:
		c.parent.children--
		if c.parent.children == 0 {
			w.proceed(c.parent, now)
		}
	case w.cfg.Trace != nil:
		w.open--
	default:
		w.renew(c, now, true)
	}
}

// finish is the end of a turn: its subagents begin, or the conversation goes on.
func (w *world) finish(c *client, now time.Duration) {
	c.home = c.replica
	w.meter.answer(now, c.request.Output)
	if c.turn.Last && c.parent == nil {
		w.meter.session(now, c)
	}
	if len(c.turn.Agents) == 0 {
		w.proceed(c, now)
		return
	}
	c.children = len(c.turn.Agents)
	for _, t := range c.turn.Agents {
		agent := &client{id: w.clients, slot: c.slot, parent: c}
		w.clients++
		agent.begin(t)
		turn, _ := t.Next()
		w.send(agent, turn, now)
	}
}
