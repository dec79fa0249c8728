package route

import "slices"

// maxShared bounds the shared prompts told apart; prompts beyond count as not shared.
const maxShared = 512

// sharedSamples is how many first turns the size of a shared prompt is the median of.
const sharedSamples = 8

// sharedPrompt is the text that conversations have in common: system text and tools.
type sharedPrompt struct {
	hash    uint64
	refs    int32
	samples uint8
	next    uint8
	tokens  int64 // learned size; 0 until learned
	sizes   [sharedSamples]int64
}

// sharedPrompts tells shared prompts by their hash. An entry stays while anything
// refers to it, and after that until its slot is needed.
type sharedPrompts struct {
	slots  []sharedPrompt
	byHash map[uint64]int32
	hand   int
}

func (sp *sharedPrompts) init() { sp.byHash = map[uint64]int32{} }

// acquire returns the shared prompt with the hash, with a reference for the caller.
// None for hash 0 and when all slots are in use.
func (sp *sharedPrompts) acquire(hash uint64) int32 {
	if hash == 0 {
		return none
	}
	if i, ok := sp.byHash[hash]; ok {
		sp.slots[i].refs++
		return i
	}
	i := sp.slot()
	if i == none {
		return none
	}
	sp.slots[i] = sharedPrompt{hash: hash, refs: 1}
	sp.byHash[hash] = i
	return i
}

// slot returns a slot that nothing refers to, or none.
func (sp *sharedPrompts) slot() int32 {
	if len(sp.slots) < maxShared {
		sp.slots = append(sp.slots, sharedPrompt{})
		return int32(len(sp.slots) - 1)
	}
	for range maxShared {
		sp.hand = (sp.hand + 1) % maxShared
		if s := &sp.slots[sp.hand]; s.refs == 0 {
			delete(sp.byHash, s.hash)
			return int32(sp.hand)
		}
	}
	return none
}

func (sp *sharedPrompts) ref(i int32) {
	if i != none {
		sp.slots[i].refs++
	}
}

func (sp *sharedPrompts) unref(i int32) {
	if i != none {
		sp.slots[i].refs--
	}
}

// size returns the tokens of a shared prompt, 0 when not known.
func (sp *sharedPrompts) size(i int32) int64 {
	if i == none {
		return 0
	}
	return sp.slots[i].tokens
}

// own returns what is left of so many tokens without their shared prompt.
func (sp *sharedPrompts) own(tokens int64, i int32) int64 {
	return max(0, tokens-sp.size(i))
}

// learnShared takes the cached tokens of a first turn as a sample of the size of its
// shared prompt and sets the size to the median of the last ones: a fork that shares
// its parent's whole history is an outlier.
func (c *Core) learnShared(i int32, cached int64) {
	sp := &c.shadow.shared.slots[i]
	sp.sizes[sp.next] = cached
	sp.next = (sp.next + 1) % sharedSamples
	sp.samples = min(sp.samples+1, sharedSamples)
	sorted := sp.sizes
	s := sorted[:sp.samples]
	slices.Sort(s)
	delta := s[(len(s)-1)/2] - sp.tokens
	if delta == 0 {
		return
	}
	sp.tokens += delta
	for k := range c.replicas {
		c.replicas[k].cache.resize(i, delta)
		c.replicas[k].live.resize(i, delta)
		c.replicas[k].working.resize(i, delta)
		c.replicas[k].places.resize(i, delta)
		c.shift(k, i, delta)
	}
	for l := range listIdle { // the live ones
		for k := c.table.lists[l].head; k != none; k = c.table.at(k).next {
			if v := c.table.at(k); v.shared == i && v.home != none && v.live >= live {
				c.setLive(k, v.live)
			}
		}
	}
}

// shift takes what is now known to be shared out of the own parts of all that stand on
// replica r with the shared prompt: each counted it as its own until now.
func (c *Core) shift(r int, shared int32, delta int64) {
	rep := &c.replicas[r]
	for _, s := range [...]*seats{&rep.idle, &rep.busy} {
		for k := s.first; k != none; k = c.table.at(k).seatNext {
			if v := c.table.at(k); v.shared == shared {
				was := v.size
				v.size = max(0, v.size-delta)
				rep.places.own += v.size - was
			}
		}
	}
	for n := rep.newest; n != none; n = c.shadow.nodes[n].older {
		if d := &c.shadow.nodes[n]; d.shared == shared {
			was := d.own
			d.own = max(minNodeTokens, d.own-delta)
			rep.cache.own += d.own - was
		}
	}
	c.shadow.trim(c, r)
}

// ledger sums tokens of conversations and counts each shared prompt once.
type ledger struct {
	count  int
	own    int64
	shared int64
	refs   []int32 // by shared prompt
}

func (l *ledger) total() int64 { return l.own + l.shared }

func (l *ledger) add(sp *sharedPrompts, own int64, shared int32) {
	l.count++
	l.own += own
	if shared == none {
		return
	}
	for len(l.refs) <= int(shared) {
		l.refs = append(l.refs, 0)
	}
	if l.refs[shared] == 0 {
		l.shared += sp.size(shared)
	}
	l.refs[shared]++
}

func (l *ledger) remove(sp *sharedPrompts, own int64, shared int32) {
	l.count--
	l.own -= own
	if shared == none {
		return
	}
	l.refs[shared]--
	if l.refs[shared] == 0 {
		l.shared -= sp.size(shared)
	}
}

// holds tells whether anything in the ledger has the shared prompt.
func (l *ledger) holds(shared int32) bool {
	return shared != none && int(shared) < len(l.refs) && l.refs[shared] > 0
}

// resize follows a change of the size of a shared prompt.
func (l *ledger) resize(shared int32, delta int64) {
	if l.holds(shared) {
		l.shared += delta
	}
}
