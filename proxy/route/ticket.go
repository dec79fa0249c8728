package route

import "slices"

// ticket is one open request.
type ticket struct {
	gen        uint32
	open       bool
	reserved   bool  // holds a place on replica
	firstByte  bool  // the replica has begun to answer
	bound      bool  // only its replica can answer it
	unkeyed    bool  // no conversation could be told
	queued     bool  // waits at the door
	stranded   bool  // waits for a replica, see strand.go
	gated      bool  // let in, waits for its turn to prefill on replica
	through    bool  // past the door: gated or in flight
	cold       bool  // its prefill takes more than one step and has no first byte yet
	first      bool  // first turn of its conversation
	class      Class //
	kind       Kind
	broken     bool // the prompt does not continue the last one of its conversation
	expected   Miss
	sharedHeld bool // its replica was believed to hold its shared prompt
	replica    int32
	twin       int32 // replica that has the same whole prompt in flight, or none
	conv       int32 // its conversation, or none
	awaits     int32 // home that it waits for though there is room elsewhere, or none
	shared     int32 // its shared prompt, or none
	nextFree   int32
	arrived    int64
	wait       int64 // time spent at the door
	credited   int64 // of the wait since its arrival, what its conversation has been credited with
	rank       int64 // place in the queue: arrival less credit
	gap        int64 // for which its conversation had been idle, until that is learned; or none
	patience   int64 // moment until which it waits for its home rather than go elsewhere
	dispatched int64
	ttfb       int64  // from dispatch, or the replica's first byte before, to its first byte
	inc        uint64 // incarnation of its replica
	before     int64  // tokens of the last prompt of its conversation
	turn       uint64
	hashKey    uint64
	chain      uint64 // hash over the whole prompt, 0 when not given
	bytes      int64  // size of the prompt part of the body
	tokens     int64  // its estimate in tokens
	needs      int64  // tokens that a replica must hold for it, see demand
	uncached   int64  // estimate of the tokens to compute, while it waits for a first byte
	key        Key
	group      Key
	parent     Key
	terms      []Term  // of its placement, while it waits and until it ends
	tried      []int32 // replicas that failed it
}

// tickets is the slab of open requests. A Ticket is the slot in the low and the
// generation in the high half, so that an ended one is never mistaken for its
// successor in the slot.
type tickets struct {
	slots []ticket
	free  int32 // head of the free list plus 1; 0 when empty
	count int
}

func (ts *tickets) at(i int32) *ticket { return &ts.slots[i] }

func (ts *tickets) open(at int64, r *Request) int32 {
	i := ts.free - 1
	if i == none {
		ts.slots = append(ts.slots, ticket{gen: 1})
		i = int32(len(ts.slots) - 1)
	} else {
		ts.free = ts.slots[i].nextFree
	}
	t := &ts.slots[i]
	*t = ticket{
		gen: t.gen, tried: t.tried[:0], terms: t.terms[:0], open: true, arrived: at,
		kind: r.Kind, bound: r.Bound && r.Rank >= 0, replica: none, conv: none, awaits: none, gap: none, shared: none, twin: none,
		hashKey: r.HashKey, bytes: int64(r.PromptBytes),
		key: r.Key, group: r.Group, parent: r.Parent,
	}
	if n := len(r.Chain); n > 0 {
		t.chain = r.Chain[n-1]
	}
	ts.count++
	return i
}

func (ts *tickets) close(i int32) {
	t := &ts.slots[i]
	t.open = false
	t.gen++
	t.nextFree = ts.free
	ts.free = i + 1
	ts.count--
}

func (ts *tickets) name(i int32) Ticket {
	return Ticket(uint64(ts.slots[i].gen)<<32 | uint64(uint32(i)+1))
}

// find returns the slot of an open ticket, or none.
func (ts *tickets) find(t Ticket) int32 {
	i := int64(uint32(t)) - 1
	if i < 0 || i >= int64(len(ts.slots)) {
		return none
	}
	s := &ts.slots[i]
	if !s.open || s.gen != uint32(t>>32) {
		return none
	}
	return int32(i)
}

// wasTried tells whether a replica has failed the request.
func (t *ticket) wasTried(replica int32) bool { return slices.Contains(t.tried, replica) }
