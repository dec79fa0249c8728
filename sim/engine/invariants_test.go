package engine

import "fmt"

// check returns an error when the cache's books do not add up: a block lost, given out
// twice, findable under a wrong hash, or held by nobody who knows of it.
func (e *Engine) check() error {
	c := e.cache
	held := make(map[int32]int32)
	for _, s := range e.running {
		for _, b := range s.blocks {
			held[b]++
		}
	}
	for _, s := range e.waiting {
		if len(s.blocks) > 0 {
			return fmt.Errorf("request %d waits and holds %d blocks", s.id, len(s.blocks))
		}
	}
	queued, prev := make(map[int32]bool), none
	for i := c.head; i != none; i = c.blocks[i].next {
		if queued[i] {
			return fmt.Errorf("block %d is twice in the free queue", i)
		}
		if c.blocks[i].prev != prev {
			return fmt.Errorf("block %d does not know the block before it", i)
		}
		queued[i], prev = true, i
	}
	if c.tail != prev || len(queued) != c.free {
		return fmt.Errorf("the free queue has %d blocks and ends at %d; the books say %d and %d", len(queued), prev, c.free, c.tail)
	}
	for i := range int32(len(c.blocks)) {
		b := c.blocks[i]
		switch {
		case b.refs != held[i]:
			return fmt.Errorf("block %d is held %d times and counted %d times", i, held[i], b.refs)
		case i == 0 && (queued[i] || b.refs > 0):
			return fmt.Errorf("the null block is in use")
		case i > 0 && (b.refs == 0) != queued[i]:
			return fmt.Errorf("block %d is lost: held %d times, in the free queue %t", i, b.refs, queued[i])
		case b.hash != 0 && c.byHash[b.hash] != i:
			return fmt.Errorf("block %d has a hash that leads elsewhere", i)
		}
	}
	for h, i := range c.byHash {
		if c.blocks[i].hash != h {
			return fmt.Errorf("a hash leads to block %d, which holds something else", i)
		}
	}
	return nil
}
