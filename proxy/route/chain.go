package route

import "encoding/binary"

// Bounds of what is kept of message chains: hashes per conversation, conversations
// per hash, and hashes of one prompt that are looked up.
const (
	chainKept       = 4
	chainCandidates = 8
	chainProbes     = 512
)

// An entry of the chain map is conversation*chainKept + position in its ring; entries
// of one hash form a list, latest used first, that ends in none.

// chainUsable tells whether the chain of a request can tell a conversation: it needs
// a user message.
func chainUsable(r *Request) bool {
	return r.ChainFirst >= 0 && r.ChainFirst < len(r.Chain)
}

// chainKey makes the key of a conversation that has no id of its own. The serial
// keeps conversations with equal first prompts apart, also in the first half, which is
// all that people are shown of a key.
func (tb *table) chainKey(hash uint64) Key {
	tb.serial++
	var k Key
	binary.LittleEndian.PutUint64(k[:8], mix(hash+mix(tb.serial)))
	binary.LittleEndian.PutUint64(k[8:], mix(hash)|1)
	return k
}

// matchChain returns the conversation that a prompt continues: the one used last
// among those that remember its longest known prefix with a user message. The whole
// prompt is no prefix of itself: a new conversation may begin like an old one.
func (tb *table) matchChain(r *Request) int32 {
	last := len(r.Chain) - 2
	for k := last; k >= r.ChainFirst && last-k < chainProbes; k-- {
		if e, ok := tb.chains[r.Chain[k]]; ok {
			return e / chainKept
		}
	}
	return none
}

// twin returns the home of another conversation that has the same whole prompt in
// flight, or none: a duplicate or a retry goes where its prompt is being read.
func (tb *table) twin(i int32, hash uint64) int32 {
	e, ok := tb.chains[hash]
	for ; ok && e != none; e = *tb.link(e) {
		if j := e / chainKept; j != i && tb.slots[j].open > 0 && tb.slots[j].home != none {
			return tb.slots[j].home
		}
	}
	return none
}

// keepChain remembers a hash of conversation i in place of its oldest one. The
// hashes of a conversation with an id are kept for comparison only; nothing is found
// by them.
func (tb *table) keepChain(i int32, hash uint64) {
	v := &tb.slots[i]
	if v.forgotten {
		return
	}
	pos := v.chainPos
	for p, h := range v.chain {
		if h == hash {
			pos = uint8(p)
		}
	}
	if pos == v.chainPos {
		v.chainPos = (v.chainPos + 1) % chainKept
	}
	e := i*chainKept + int32(pos)
	tb.unchain(e)
	v.chain[pos] = hash
	if !v.byChain {
		return
	}
	v.chainNext[pos] = none
	if head, ok := tb.chains[hash]; ok {
		v.chainNext[pos] = head
	}
	tb.chains[hash] = e
	tb.trimChain(e)
}

// trimChain drops the conversations of a hash beyond the bound, those used longest
// ago.
func (tb *table) trimChain(e int32) {
	for n := 1; e != none; n++ {
		next := *tb.link(e)
		if n > chainCandidates {
			tb.unchain(e)
		}
		e = next
	}
}

// unchain takes an entry out of the map and clears its hash.
func (tb *table) unchain(e int32) {
	v := &tb.slots[e/chainKept]
	hash := v.chain[e%chainKept]
	v.chain[e%chainKept] = 0
	if hash == 0 || !v.byChain {
		return
	}
	head, ok := tb.chains[hash]
	if !ok {
		return
	}
	next := v.chainNext[e%chainKept]
	if head == e {
		if next == none {
			delete(tb.chains, hash)
		} else {
			tb.chains[hash] = next
		}
		return
	}
	for head != none {
		l := tb.link(head)
		if *l == e {
			*l = next
			return
		}
		head = *l
	}
}

// forgetChain takes all hashes of conversation i out of the map.
func (tb *table) forgetChain(i int32) {
	for p := range int32(chainKept) {
		tb.unchain(i*chainKept + p)
	}
}

func (tb *table) link(e int32) *int32 {
	return &tb.slots[e/chainKept].chainNext[e%chainKept]
}

// beginsAnew tells whether the system text or the tools of a prompt are others than those
// of its conversation's last one: a clock in them, say. False when either has none.
func (v *conv) beginsAnew(shared uint64) bool {
	return shared != 0 && v.beginning != 0 && v.beginning != uint32(shared)
}

// chainBroken tells whether a prompt continues none of the prompts and answers that
// its conversation remembers. False when either side has no hashes.
func (v *conv) chainBroken(chain []uint64) bool {
	known := false
	for _, h := range v.chain {
		if h == 0 {
			continue
		}
		known = true
		for k := len(chain) - 1; k >= 0 && len(chain)-k <= chainProbes; k-- {
			if chain[k] == h {
				return false
			}
		}
	}
	return known && len(chain) > 0
}
