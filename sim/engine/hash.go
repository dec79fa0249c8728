package engine

// Hash names a full block of tokens together with everything before it: equal hashes
// mean equal prefixes. 64 bits are enough for a simulation, where nobody searches for
// collisions. Zero never names a block.
type Hash uint64

// mix spreads the bits of x over the whole word (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return x
}

// Hasher computes the chained block hashes of a sequence that grows at its end. The
// zero value is not usable; see [NewHasher].
type Hasher struct {
	blockSize int
	tokens    int
	sum       uint64
	hashes    []Hash
}

// NewHasher returns a hasher of an empty sequence for blocks of blockSize tokens.
// Salt separates sequences that must never share blocks, such as those of different
// cache salts; 0 is an ordinary salt.
func NewHasher(blockSize int, salt uint64) *Hasher {
	return &Hasher{blockSize: blockSize, sum: mix(salt + 0x9e3779b97f4a7c15)}
}

// Append adds tokens at the end of the sequence.
func (h *Hasher) Append(tokens ...uint32) {
	for _, t := range tokens {
		h.sum = mix(h.sum + uint64(t) + 0x9e3779b97f4a7c15)
		h.tokens++
		if h.tokens%h.blockSize == 0 {
			h.hashes = append(h.hashes, Hash(h.sum|1))
		}
	}
}

// AppendStream adds the first n tokens of the pseudo-random stream named seed, for
// loads whose text does not matter.
func (h *Hasher) AppendStream(seed uint64, n int) {
	for i := range n {
		h.Append(uint32(mix(seed+uint64(i)*0x9e3779b97f4a7c15) >> 32))
	}
}

// Clone returns an independent copy, for sequences that share what came so far.
func (h *Hasher) Clone() *Hasher {
	c := *h
	// A full slice expression would do for the clone, but the original could then
	// overwrite what the clone appended first.
	c.hashes = append(make([]Hash, 0, len(h.hashes)+8), h.hashes...)
	return &c
}

// Len returns the number of tokens in the sequence.
func (h *Hasher) Len() int { return h.tokens }

// Sum returns a number that depends on every token of the sequence.
func (h *Hasher) Sum() uint64 { return h.sum }

// Hashes returns the hashes of the full blocks. The slice is only ever appended to:
// what was returned stays valid when the sequence grows.
func (h *Hasher) Hashes() []Hash { return h.hashes }
