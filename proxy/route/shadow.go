package route

// Bounds of the shadow: the smallest node, one block of an engine; and replicas
// remembered per conversation.
const (
	minNodeTokens = 16
	nodesPerConv  = 4
)

// node is what one replica is believed to hold of one conversation, besides the
// shared prompt. A node without a conversation stands for a prompt that nobody will
// continue: it still fills the cache.
type node struct {
	conv, replica int32
	shared        int32
	newer, older  int32 // neighbours in the replica's order of use
	next          int32 // next node of the conversation, or of the free list
	own           int64
}

// shadow estimates what the prefix caches hold: per replica the conversations in
// order of use, bounded by its capacity.
type shadow struct {
	nodes  []node
	free   int32
	shared sharedPrompts
}

func (s *shadow) init() {
	s.free = none
	s.shared.init()
}

// find returns the node of a conversation on a replica, or none.
func (s *shadow) find(v *conv, replica int) int32 {
	n := v.nodes
	for n != none && s.nodes[n].replica != int32(replica) {
		n = s.nodes[n].next
	}
	return n
}

// cached returns the tokens of a prompt that a replica is believed to hold.
func (s *shadow) cached(c *Core, conv, shared int32, replica int) int64 {
	r := &c.replicas[replica]
	tokens := int64(0)
	if r.cache.holds(shared) {
		tokens = s.shared.size(shared)
	}
	if conv != none {
		if n := s.find(c.table.at(conv), replica); n != none {
			tokens += s.nodes[n].own
		}
	}
	return tokens
}

// touch says that a replica now holds so many tokens of a conversation, and has used
// them last. Conversation none adds a prompt that nobody will continue.
func (s *shadow) touch(c *Core, conv, shared int32, replica int, tokens int64) {
	r := &c.replicas[replica]
	if conv == none && r.Capacity <= 0 {
		return // nothing would ever push it out
	}
	own := max(minNodeTokens, s.shared.own(tokens, shared))
	n := int32(none)
	if conv != none {
		n = s.find(c.table.at(conv), replica)
	}
	if n == none {
		n = s.add(c, conv, replica)
	} else {
		s.unlink(c, n)
	}
	s.link(c, n, own, shared)
	s.trim(c, replica)
}

// add makes an unlinked node and hangs it on its conversation.
func (s *shadow) add(c *Core, conv int32, replica int) int32 {
	if conv != none {
		s.makeRoom(c, conv)
	}
	n := s.free
	if n == none {
		s.nodes = append(s.nodes, node{})
		n = int32(len(s.nodes) - 1)
	} else {
		s.free = s.nodes[n].next
	}
	s.nodes[n] = node{conv: conv, replica: int32(replica), next: none}
	if conv != none {
		v := c.table.at(conv)
		s.nodes[n].next, v.nodes = v.nodes, n
	}
	return n
}

// makeRoom drops the oldest node of a conversation that is on too many replicas.
func (s *shadow) makeRoom(c *Core, conv int32) {
	count, last := 0, int32(none)
	for n := c.table.at(conv).nodes; n != none; n = s.nodes[n].next {
		count, last = count+1, n
	}
	if count >= nodesPerConv {
		s.drop(c, last)
	}
}

// link puts a node at the newest end of its replica and into its ledger.
func (s *shadow) link(c *Core, n int32, own int64, shared int32) {
	d := &s.nodes[n]
	r := &c.replicas[d.replica]
	d.own, d.shared = own, shared
	s.shared.ref(shared)
	r.cache.add(&s.shared, own, shared)
	d.newer, d.older = none, r.newest
	if r.newest != none {
		s.nodes[r.newest].newer = n
	} else {
		r.oldest = n
	}
	r.newest = n
}

// unlink takes a node out of its replica's order and ledger.
func (s *shadow) unlink(c *Core, n int32) {
	d := &s.nodes[n]
	r := &c.replicas[d.replica]
	r.cache.remove(&s.shared, d.own, d.shared)
	s.shared.unref(d.shared)
	if d.newer != none {
		s.nodes[d.newer].older = d.older
	} else {
		r.newest = d.older
	}
	if d.older != none {
		s.nodes[d.older].newer = d.newer
	} else {
		r.oldest = d.newer
	}
}

// drop frees a node.
func (s *shadow) drop(c *Core, n int32) {
	s.unlink(c, n)
	d := &s.nodes[n]
	if d.conv != none {
		l := &c.table.at(d.conv).nodes
		for *l != n {
			l = &s.nodes[*l].next
		}
		*l = d.next
	}
	d.next, s.free = s.free, n
}

// trim forgets what no longer fits, longest unused first. An engine gives up the end
// of a prompt before its beginning, so the last one to go is only shortened.
func (s *shadow) trim(c *Core, replica int) {
	r := &c.replicas[replica]
	for r.Capacity > 0 && r.oldest != none {
		over := r.cache.total() - r.Capacity
		if over <= 0 {
			return
		}
		n := r.oldest
		if d := &s.nodes[n]; d.own > over {
			d.own -= over
			r.cache.own -= over
			return
		}
		s.drop(c, n)
	}
}

// clear forgets all that a replica held.
func (s *shadow) clear(c *Core, replica int) {
	for c.replicas[replica].oldest != none {
		s.drop(c, c.replicas[replica].oldest)
	}
}

// orphan lets go of a conversation that is forgotten. Its tokens stay in the caches
// until others push them out.
func (s *shadow) orphan(c *Core, conv int32) {
	for {
		n := c.table.at(conv).nodes
		if n == none {
			return
		}
		if c.replicas[s.nodes[n].replica].Capacity <= 0 {
			s.drop(c, n)
			continue
		}
		c.table.at(conv).nodes = s.nodes[n].next
		s.nodes[n].conv, s.nodes[n].next = none, none
	}
}
