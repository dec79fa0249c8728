package proxy

import (
	"math/bits"
	"sync"
)

// The memory of request bodies is used again: a body is large beside all else that a
// request takes, lives for the time until its answer begins, and memory that comes fresh
// has to be cleared and collected. What makes that safe is that a block has one owner at
// a time, and only he gives it back: the exchange, from the first byte of the body until
// it is not sent again; then the watch on prompts, when it takes it over. A body that an
// engine may still be reading belongs to nobody any more and is never given back.

// Sizes of blocks, in bytes: between two powers of two there are four, so that at most a
// fifth of one is unused. A longer block is not kept.
const (
	leastBlock   = 4 << 10
	longestBlock = 4 << 20
)

// blocks are those that nobody owns, by class.
var blocks [1 + 4*10]sync.Pool

// block is memory for one body.
type block struct {
	b     []byte // empty, with all the room that there is
	class int    // index into blocks; -1 when it is not kept
}

// blockClass returns the class of the smallest block with room for n bytes, and its size.
func blockClass(n int64) (class int, size int64) {
	if n <= leastBlock {
		return 0, leastBlock
	}
	shift := bits.Len64(uint64(n-1)) - 3
	steps := (n-1)>>shift + 1 // 5 to 8
	if size = steps << shift; size > longestBlock {
		return -1, n
	}
	const first = 10 // shift of the classes next to the least one
	return 1 + 4*(shift-first) + int(steps) - 5, size
}

// takeBlock returns a block with room for n bytes, which are not zero.
func takeBlock(n int64) *block {
	class, size := blockClass(n)
	if class >= 0 {
		if k, ok := blocks[class].Get().(*block); ok {
			return k
		}
	}
	return &block{make([]byte, 0, size), class}
}

// spoil is called with each block that is given back; nil but in tests, which make it
// unreadable to whoever still refers to it.
var spoil func([]byte)

// give gives the block back. Only its owner may, and nobody may refer to it any more. nil
// is nobody's.
func (k *block) give() {
	if k == nil {
		return
	}
	if spoil != nil {
		spoil(k.b[:cap(k.b)])
	}
	if k.class >= 0 {
		blocks[k.class].Put(k)
	}
}
