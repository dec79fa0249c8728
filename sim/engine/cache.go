package engine

// none marks the absence of a block in the links of the free queue.
const none = int32(-1)

// block is one block of KV memory.
type block struct {
	hash       Hash  // of its content while it is full and findable, else 0
	refs       int32 // sequences that hold it
	prev, next int32 // neighbours in the free queue while refs is 0
}

// cache is the pool of KV blocks. A block that nobody holds is in the free queue, and
// if it has a hash it can still be found and taken out again. New blocks come from
// the head of the queue, so the queue's order decides what is forgotten first.
//
// Block 0 is the null block: it exists, is counted, and is never given out.
type cache struct {
	blocks     []block
	byHash     map[Hash]int32
	head, tail int32
	free       int
	enabled    bool // prefixes are found again
}

// newCache returns a cache of n blocks, the null block included.
func newCache(n int, enabled bool) *cache {
	c := &cache{blocks: make([]block, n), byHash: make(map[Hash]int32), head: none, tail: none, enabled: enabled}
	for i := int32(1); i < int32(n); i++ {
		c.pushBack(i)
	}
	return c
}

// usable is the number of blocks that sequences can hold.
func (c *cache) usable() int { return len(c.blocks) - 1 }

// used is the number of blocks that sequences do hold.
func (c *cache) used() int { return c.usable() - c.free }

// find returns how many of the first blocks of a sequence are cached, at most limit,
// and how many of those nobody holds: taking them shortens the free queue.
func (c *cache) find(hashes []Hash, limit int) (hits, idle int) {
	if !c.enabled {
		return 0, 0
	}
	limit = min(limit, len(hashes))
	for hits < limit {
		b, ok := c.byHash[hashes[hits]]
		if !ok {
			break
		}
		if c.blocks[b].refs == 0 {
			idle++
		}
		hits++
	}
	return hits, idle
}

// take appends the first n blocks of a sequence, which find has found, to dst.
func (c *cache) take(dst []int32, hashes []Hash, n int) []int32 {
	for _, h := range hashes[:n] {
		b := c.byHash[h]
		if c.blocks[b].refs == 0 {
			c.unlink(b)
		}
		c.blocks[b].refs++
		dst = append(dst, b)
	}
	return dst
}

// grow appends n fresh blocks from the head of the free queue to dst. They forget what
// they held. The caller has checked that n blocks are free.
func (c *cache) grow(dst []int32, n int) []int32 {
	for range n {
		i := c.head
		c.unlink(i)
		b := &c.blocks[i]
		if b.hash != 0 {
			delete(c.byHash, b.hash)
			b.hash = 0
		}
		b.refs = 1
		dst = append(dst, i)
	}
	return dst
}

// name makes a full block findable. A hash that another block already holds gives no
// second entry: this block stays without one.
func (c *cache) name(i int32, h Hash) {
	if !c.enabled || c.blocks[i].hash != 0 {
		return
	}
	if _, taken := c.byHash[h]; taken {
		return
	}
	c.blocks[i].hash = h
	c.byHash[h] = i
}

// release gives the blocks of a sequence back, from its tail, so that the end of a
// prefix is forgotten before its beginning. Blocks with a hash go to the end of the
// free queue; those without can never be found again and go to its front.
func (c *cache) release(held []int32) {
	front := none // last block put at the front in this call
	for k := len(held) - 1; k >= 0; k-- {
		i := held[k]
		b := &c.blocks[i]
		b.refs--
		if b.refs > 0 {
			continue
		}
		if b.hash != 0 {
			c.pushBack(i)
			continue
		}
		c.insertAfter(front, i)
		front = i
	}
}

// unlink takes a block out of the free queue.
func (c *cache) unlink(i int32) {
	b := &c.blocks[i]
	if b.prev == none {
		c.head = b.next
	} else {
		c.blocks[b.prev].next = b.next
	}
	if b.next == none {
		c.tail = b.prev
	} else {
		c.blocks[b.next].prev = b.prev
	}
	b.prev, b.next = none, none
	c.free--
}

// pushBack puts a block at the end of the free queue.
func (c *cache) pushBack(i int32) { c.insertAfter(c.tail, i) }

// insertAfter puts a block behind another one, or at the front after none.
func (c *cache) insertAfter(p, i int32) {
	b := &c.blocks[i]
	b.prev = p
	if p == none {
		b.next = c.head
		c.head = i
	} else {
		b.next = c.blocks[p].next
		c.blocks[p].next = i
	}
	if b.next == none {
		c.tail = i
	} else {
		c.blocks[b.next].prev = i
	}
	c.free++
}
