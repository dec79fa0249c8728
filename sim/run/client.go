package run

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/sim/engine"
)

// bytesPerToken of the simulated text, as the proxy sees it.
const bytesPerToken = 4

// sharedPrompt names the system prompt that all conversations have in common.
const sharedPrompt = 0x5eed

// client is one slot of the closed loop, with the conversation that it is in.
type client struct {
	slot    int
	rng     *rand.Rand
	story   *engine.Hasher // history and the answer that is due
	key     route.Key
	hash    uint64
	turn    int // of the conversation, from 1
	started time.Duration

	// The turn in flight.
	sent    time.Duration
	prompt  int
	request engine.Request
	ticket  route.Ticket
	begun   bool // its first token has come
	counted bool // in the times to first token: a turn that broke off is not counted twice
}

// newClients returns the slots. Each has its own random numbers, so that what one does
// does not depend on when another does it.
func newClients(l Load, seed uint64) []*client {
	clients := make([]*client, l.Sessions)
	for i := range clients {
		clients[i] = &client{slot: i, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
	}
	return clients
}

// next prepares the client's next turn, sent at that time.
func (c *client) next(now time.Duration, l Load, shared *engine.Hasher) {
	fresh := l.TurnTokens
	if c.turn%l.Turns == 0 {
		c.turn, c.started = 0, now
		c.story = shared.Clone()
		c.hash = c.rng.Uint64()
		binary.LittleEndian.PutUint64(c.key[:], c.hash)
		binary.LittleEndian.PutUint64(c.key[8:], uint64(c.slot)+1)
		fresh = l.FirstMin + c.rng.IntN(l.FirstMax-l.FirstMin+1)
	}
	c.turn++
	c.story.AppendStream(c.rng.Uint64(), fresh)
	c.prompt = c.story.Len()
	// The answer is known beforehand: its blocks will be found when it comes back.
	c.story.AppendStream(c.rng.Uint64(), l.OutputTokens)
	c.request = engine.Request{Prompt: c.prompt, Output: l.OutputTokens, Hashes: c.story.Hashes()}
	c.sent, c.counted = now, false
}

// ask is the request as the router sees it.
func (c *client) ask() *route.Request {
	return &route.Request{
		Key: c.key, Kind: route.KindMain, Rank: -1,
		PromptBytes: c.prompt * bytesPerToken, SharedHash: sharedPrompt, HashKey: c.hash,
	}
}
