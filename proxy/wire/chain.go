package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"hash/maphash"
	"sync"
)

// maxChain bounds the hashes of one chain. Of a longer history the oldest are left
// out; the hashes that stay are over all messages all the same.
const maxChain = 4096

// Chain is the message-hash chain of one request: one hash per message, each over
// all before it, the tenant and the model. It tells the conversations of clients
// that send no id: a later request of the same conversation has this request's last
// hash, or the one after the answer, among its own. Requests with different cache
// salts have nothing in common.
//
// What clients change between turns is left out: Claude Code's attribution block,
// blocks that are only a <system-reminder>, cache_control, ids, and reasoning. White
// space around texts and the order of JSON members do not matter.
type Chain struct {
	Hashes []uint64
	// First is the smallest index whose prefix holds a user message; len(Hashes) when
	// none does.
	First int
}

// After returns the hash of the chain after the messages of an answer; 0 when there
// is no chain or no answer.
func (c Chain) After(answer []Digest) uint64 {
	if len(c.Hashes) == 0 || len(answer) == 0 {
		return 0
	}
	last := c.Hashes[len(c.Hashes)-1]
	for _, d := range answer {
		last = link(last, d)
	}
	return last
}

// Digest is the hash of one message in its canonical form.
type Digest [16]byte

// link is one step of the chain.
func link(prev uint64, d Digest) uint64 {
	var b [8 + len(d)]byte
	binary.LittleEndian.PutUint64(b[:], prev)
	copy(b[8:], d[:])
	sum := sha256.Sum256(b[:])
	return max(binary.LittleEndian.Uint64(sum[:]), 1) // 0 means none
}

// BuildChain hashes the messages of a request. The tenant is its stable name, the
// model the one that serves. The hashes are appended to dst[:0]. Surfaces without
// messages have an empty chain, as has a request that continues a stored answer.
func BuildChain(dst []uint64, api API, s *Scan, tenant, model string) Chain {
	c := newCanon()
	defer canonPool.Put(c)
	seed := Hash(tenant, model, "chain")
	c.links = dst[:0]
	c.last, c.first = binary.LittleEndian.Uint64(seed[:]), -1
	if salt := s.Raw(FieldCacheSalt); salt != nil {
		c.begin(nil)
		c.raw('s', salt) // an engine shares nothing across salts
		c.last = link(c.last, c.sum())
	}
	c.request(api, s)
	out := Chain{Hashes: c.links, First: c.first}
	if c.first < 0 {
		out.First = len(c.links)
	}
	c.links = nil
	return out
}

// Beginning hashes how the conversation of a request begins: its first message of a user
// that holds more than reminders. It is the same for all turns of a conversation, whatever
// its system text says, until its history is rewritten; 0 when there is none, or when the
// engine has it. Hashes are compared within one process only.
func Beginning(api API, s *Scan) uint64 {
	var raw []byte
	switch api {
	case APIChat, APIMessages:
		raw = s.Raw(FieldMessages)
	case APIResponses:
		if held := s.Raw(FieldConversation); s.Text(FieldPreviousResponseID) != "" || held != nil && string(held) != "null" {
			return 0
		}
		raw = s.Raw(FieldInput)
	default:
		return 0
	}
	c := quickCanons.Get().(*canon) //nolint:errcheck // the pool holds nothing else
	defer quickCanons.Put(c)
	if len(raw) > 0 && raw[0] == '"' {
		c.begin(roleUser)
		c.text(raw)
		return c.beginning()
	}
	for e := elementsOf(raw); e.next(); {
		m := messageOf(e.value())
		if !m.isUser() {
			continue
		}
		c.take(&m)
		if h := c.beginning(); h != 0 {
			return h
		}
	}
	return 0
}

// beginning returns the hash of the message that c has taken; 0 when nothing is left of it.
func (c *canon) beginning() uint64 {
	if !c.dirty {
		return 0
	}
	d := c.sum()
	return max(binary.LittleEndian.Uint64(d[:]), 1)
}

// SharedHash hashes what the conversations of an application share: tools and
// system text, without the attribution block. A cache salt is part of it, since an
// engine shares nothing across salts. It is 0 when there is neither tools nor
// system text.
func SharedHash(api API, s *Scan) uint64 {
	c := newCanon()
	defer canonPool.Put(c)
	c.h.Reset()
	c.dirty = false
	c.raw('t', s.Raw(FieldTools))
	switch api {
	case APIMessages, APICountTokens:
		c.text(s.Raw(FieldSystem))
	case APIResponses:
		c.text(s.Raw(FieldInstructions))
		c.leadingSystem(s.Raw(FieldInput))
	case APIChat:
		c.leadingSystem(s.Raw(FieldMessages))
	}
	if !c.dirty {
		return 0
	}
	c.raw('s', s.Raw(FieldCacheSalt))
	d := c.sum()
	return max(binary.LittleEndian.Uint64(d[:]), 1)
}

// canon brings messages into their canonical form and hashes them.
type canon struct {
	h     hash.Hash // SHA-256 of the current message
	dirty bool      // the current message has content
	buf   []byte    // decoded text
	args  []byte    // decoded arguments of a tool call
	tmp   []byte    // what hash64 hashes
	head  [9]byte   // what put writes before a part
	out   [sha256.Size]byte

	links []uint64
	last  uint64
	first int

	tap *tap // takes everything instead of h; nil for a chain
}

// canonPool keeps the room that canons decode into.
var canonPool sync.Pool

// newCanon takes a canon out of the pool; give it back with canonPool.Put.
func newCanon() *canon {
	if c, ok := canonPool.Get().(*canon); ok {
		return c
	}
	return &canon{h: sha256.New()}
}

// quickCanons hash several times faster, into what means nothing to another process.
var quickCanons = sync.Pool{New: func() any {
	h := new(maphash.Hash)
	h.SetSeed(traceSeed)
	return &canon{h: h}
}}

// sum returns the digest of what was written since the last Reset.
func (c *canon) sum() (d Digest) {
	copy(d[:], c.h.Sum(c.out[:0]))
	return d
}

// begin starts a message.
func (c *canon) begin(role []byte) {
	if c.tap != nil {
		c.tap.start()
		c.put('r', role)
		return
	}
	c.h.Reset()
	c.dirty = false
	c.put('r', role)
}

// push ends a message and makes it a link of the chain. A message of which nothing
// is left is none.
func (c *canon) push(user bool) {
	if !c.dirty || c.tap != nil {
		return
	}
	c.last = link(c.last, c.sum())
	if len(c.links) >= maxChain {
		n := copy(c.links, c.links[maxChain/2:])
		c.links = c.links[:n]
		if c.first >= 0 {
			c.first = max(c.first-maxChain/2, 0)
		}
	}
	if user && c.first < 0 {
		c.first = len(c.links)
	}
	c.links = append(c.links, c.last)
}

// put hashes one part with its kind and length, so that parts cannot run together.
func (c *canon) put(kind byte, b []byte) {
	if c.tap != nil {
		c.tap.write(kind, b)
		return
	}
	c.head[0] = kind
	binary.LittleEndian.PutUint64(c.head[1:], uint64(len(b)))
	c.h.Write(c.head[:])
	c.h.Write(b)
}

// raw hashes a part as it is written; an absent one leaves no trace.
func (c *canon) raw(kind byte, b []byte) {
	if len(b) > 0 {
		c.put(kind, b)
		c.dirty = true
	}
}

// attribution is how the block begins that Claude Code puts before its system text.
var attribution = []byte("x-anthropic-billing-header:")

// plain hashes one decoded text without what clients change between turns.
func (c *canon) plain(text []byte) {
	text = bytes.TrimSpace(text)
	if c.tap != nil {
		if c.tap.bare && bytes.HasPrefix(text, attribution) {
			_, text, _ = bytes.Cut(text, []byte("\n"))
		}
		c.put('t', text)
		return
	}
	if bytes.HasPrefix(text, attribution) {
		_, text, _ = bytes.Cut(text, []byte("\n"))
		text = bytes.TrimSpace(text)
	}
	if len(text) == 0 || reminderOnly(text) {
		return
	}
	c.put('t', text)
	c.dirty = true
}

var (
	reminderOpen  = []byte("<system-reminder>")
	reminderClose = []byte("</system-reminder>")
)

// containsReminder says whether a text has a reminder in it.
func containsReminder(text []byte) bool { return bytes.Contains(text, reminderOpen) }

// reminderOnly says whether a text consists of reminders and nothing else.
func reminderOnly(text []byte) bool {
	for len(text) > 0 {
		if !bytes.HasPrefix(text, reminderOpen) {
			return false
		}
		end := bytes.Index(text, reminderClose)
		if end < 0 {
			return false
		}
		text = bytes.TrimSpace(text[end+len(reminderClose):])
	}
	return true
}
