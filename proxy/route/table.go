package route

import "time"

// liveFor is how long a conversation counts as live after its last turn.
const liveFor = int64(5 * time.Minute)

// The lists that a conversation can be in. Each conversation is in exactly one.
const (
	listBusy   = 0 // has an open request; in no order
	listWarm   = 1 // by last turn, idle for no longer than clients need; 1 for main, 2 for agents
	listFresh  = 3 // idle for longer, may still come back; 3 for main, 4 for agents
	listRecent = 5 // live, but taken for ended; 5 for main, 6 for agents
	listIdle   = 7 // no longer live; 7 for main, 8 for agents
	numLists   = 9
)

// liveness is what a conversation counts for on its home.
type liveness uint8

const (
	notLive liveness = iota
	live             // it had a turn within liveFor: shown, and never evicted
	working          // it has a request, or is expected back: weighs in placement too
)

// conv is one conversation. Its size times Settings.MaxConversations bounds the
// memory of a model, so fields are packed and links are indexes.
type conv struct {
	// What a walk through the queue reads comes first, on one cache line.
	waited    int64 // time that its requests have spent at the door
	list      uint8
	agent     bool
	confirmed bool // the present home has served it
	homed     bool // it has had a home that served it
	seen      bool // some request of it was served
	restarted bool // its last home was lost with its incarnation
	forgotten bool // dropped from the maps; freed with its last request
	used      bool
	live      liveness
	ended     bool  // was taken for ended: it did not come back in time
	admitted  bool  // has a place on its home
	lost      loss  // why its place was taken against its will
	yield     bool  // gives its place up when its turn ends
	byChain   bool  // it has no id; its chain is in the map
	arm       uint8 // of the trial that it takes part in

	home     int32 // replica, or none
	oldHome  int32 // home before it was lost, or none
	inFlight int32
	through  int32 // requests of it past the door: gated or in flight
	open     int32 // requests of it from arrival to end
	shared   int32 // its shared prompt, or none
	nodes    int32 // first node of its shadow, or none
	prev     int32
	next     int32 // also the free list

	seatPrev int32 // neighbours among the admitted conversations of its home
	seatNext int32

	key, group Key
	trial      uint32 // that it takes part in, or 0
	beginning  uint32 // of the hash of what its last prompt had in common with others; 0 for none
	homeInc    uint64 // incarnation of home when it was chosen
	turns      uint64
	lastActive int64 // end of its last served turn
	lastBytes  int64 // prompt bytes of its last served turn
	context    int64 // tokens of its last prompt and answer
	prompt     int64 // tokens of its last prompt; 0 when never measured
	asked      int64 // tokens of its latest prompt and the answer to come, as expected
	liveOwn    int64 // tokens that it put into the ledgers of its home
	size       int64 // tokens that it takes of a budget while admitted, without the shared prompt
	admittedAt int64

	chainPos  uint8
	chainNext [chainKept]int32
	chain     [chainKept]uint64
}

type list struct {
	head, tail int32 // head is the latest active
	count      int
}

// table holds the conversations: a slab, one map by key, one by group, and
// intrusive lists.
type table struct {
	slots  []conv
	free   int32 // head of the free list, or none
	used   int
	bound  int
	byKey  map[Key]int32
	groups map[Key]int32 // group to its latest main conversation, where the keys differ
	chains map[uint64]int32
	lists  [numLists]list
	serial uint64 // makes keys of conversations without an id
}

func (tb *table) init() {
	tb.free = none
	tb.byKey = map[Key]int32{}
	tb.groups = map[Key]int32{}
	tb.chains = map[uint64]int32{}
	for i := range tb.lists {
		tb.lists[i] = list{head: none, tail: none}
	}
}

func (tb *table) at(i int32) *conv { return &tb.slots[i] }

func (tb *table) find(k Key) int32 {
	if i, ok := tb.byKey[k]; ok {
		return i
	}
	return none
}

// add makes a conversation, busy and without a home. The caller has made room.
func (tb *table) add(k, group Key, agent bool) int32 {
	i := tb.free
	if i == none {
		tb.slots = append(tb.slots, conv{})
		i = int32(len(tb.slots) - 1)
	} else {
		tb.free = tb.slots[i].next
	}
	tb.slots[i] = conv{
		key: k, group: group, agent: agent, used: true,
		home: none, oldHome: none, shared: none, nodes: none,
	}
	tb.byKey[k] = i
	if group != (Key{}) && group != k && !agent {
		tb.groups[group] = i
	}
	tb.used++
	tb.push(i, listBusy)
	return i
}

func (tb *table) push(i int32, l uint8) {
	v, ls := &tb.slots[i], &tb.lists[l]
	newer, older := int32(none), ls.head
	for l != listBusy && older != none && tb.slots[older].lastActive > v.lastActive {
		newer, older = older, tb.slots[older].next // rare: only its client has given up waiting
	}
	v.list, v.prev, v.next = l, newer, older
	if newer != none {
		tb.slots[newer].next = i
	} else {
		ls.head = i
	}
	if older != none {
		tb.slots[older].prev = i
	} else {
		ls.tail = i
	}
	ls.count++
}

func (tb *table) unlink(i int32) {
	v := &tb.slots[i]
	ls := &tb.lists[v.list]
	if v.prev != none {
		tb.slots[v.prev].next = v.next
	} else {
		ls.head = v.next
	}
	if v.next != none {
		tb.slots[v.next].prev = v.prev
	} else {
		ls.tail = v.prev
	}
	ls.count--
}

func (tb *table) move(i int32, l uint8) {
	if tb.slots[i].list == l && tb.lists[l].head == i {
		return
	}
	tb.unlink(i)
	tb.push(i, l)
}

// unmap takes a conversation out of the maps; nothing finds it any more.
func (tb *table) unmap(i int32) {
	v := &tb.slots[i]
	if j, ok := tb.byKey[v.key]; ok && j == i {
		delete(tb.byKey, v.key)
	}
	if j, ok := tb.groups[v.group]; ok && j == i {
		delete(tb.groups, v.group)
	}
	tb.forgetChain(i)
}

// recycle frees the slot of an unmapped conversation.
func (tb *table) recycle(i int32) {
	tb.unlink(i)
	tb.slots[i] = conv{next: tb.free}
	tb.free = i
	tb.used--
}

// ageClass is 0 for a main conversation and 1 for a subagent's.
func (v *conv) ageClass() uint8 {
	if v.agent {
		return 1
	}
	return 0
}

// life returns how long a conversation is remembered after its last turn.
func (c *Core) life(agent uint8) int64 {
	if agent == 1 {
		return int64(c.set.IdleAgent)
	}
	return int64(c.set.IdleMain)
}

// sweep ends what time ends: the weight in placement when clients would have come back,
// liveness after 5 minutes, memory after the idle life.
// It also makes up for a bound that was lowered while conversations were live.
func (c *Core) sweep() {
	for k := range uint8(2) {
		for {
			i := c.table.lists[listWarm+k].tail
			if i == none || c.at-c.table.at(i).lastActive < min(c.expected(), c.endsAfter(), liveFor, c.life(k)) {
				break
			}
			c.setLive(i, live)
			c.table.move(i, listFresh+k)
		}
		for {
			i := c.table.lists[listFresh+k].tail
			if i == none || c.at-c.table.at(i).lastActive < min(c.endsAfter(), liveFor, c.life(k)) {
				break
			}
			c.table.move(i, listRecent+k)
			if v := c.table.at(i); !v.ended { // once, though its client may have given up waiting since
				v.ended = true
				c.learned.rhythm.end()
			}
		}
		for {
			i := c.table.lists[listRecent+k].tail
			if i == none || c.at-c.table.at(i).lastActive < min(liveFor, c.life(k)) {
				break
			}
			c.setLive(i, notLive)
			c.table.move(i, listIdle+k)
		}
		for {
			i := c.table.lists[listIdle+k].tail
			if i == none || c.at-c.table.at(i).lastActive < c.life(k) {
				break
			}
			c.drop(i)
		}
	}
	for c.table.used > c.table.bound && c.evictOne() {
	}
}

// evictOne drops the longest idle conversation that is not live. False means that
// all are live.
func (c *Core) evictOne() bool {
	a, b := c.table.lists[listIdle].tail, c.table.lists[listIdle+1].tail
	if a == none || b != none && c.table.at(b).lastActive < c.table.at(a).lastActive {
		a = b
	}
	if a == none {
		return false
	}
	c.drop(a)
	return true
}

// remember returns a new conversation, or none when the table is full of live ones:
// the request is then placed, but its home is not kept.
func (c *Core) remember(k, group Key, agent bool) int32 {
	if c.table.used >= c.table.bound && !c.evictOne() {
		return none
	}
	return c.table.add(k, group, agent)
}

// drop forgets a conversation that has no open request.
func (c *Core) drop(i int32) {
	c.setHome(i, none)
	c.shadow.orphan(c, i)
	c.shadow.shared.unref(c.table.at(i).shared)
	c.table.unmap(i)
	c.table.recycle(i)
}

// setHome moves a conversation to another home, or to none, and its live tokens
// with it.
func (c *Core) setHome(i int32, r int) {
	v := c.table.at(i)
	c.expel(i, lossReplica)
	was := v.live
	c.setLive(i, notLive)
	v.home, v.confirmed = int32(r), false
	if r != none {
		v.homeInc = c.replicas[r].Incarnation
	}
	c.setLive(i, was)
}

// setLive counts a conversation in or out of the ledgers of its home. Liveness of a
// conversation without a home is kept for the home to come.
func (c *Core) setLive(i int32, to liveness) {
	v, sp := c.table.at(i), &c.shadow.shared
	if v.home == none {
		v.live = to
		return
	}
	r := &c.replicas[v.home]
	if v.live >= live {
		r.live.remove(sp, v.liveOwn, v.shared)
	}
	if v.live >= working {
		r.working.remove(sp, v.liveOwn, v.shared)
	}
	v.live = to
	v.liveOwn = sp.own(v.context, v.shared)
	if to >= live {
		r.live.add(sp, v.liveOwn, v.shared)
	}
	if to >= working {
		r.working.add(sp, v.liveOwn, v.shared)
	}
}

// cacheLost drops all that was believed to be cached on replica i, and the homes
// there.
func (c *Core) cacheLost(i int) {
	c.shadow.clear(c, i)
	for k := range c.table.slots {
		v := &c.table.slots[k]
		if v.used && v.home == int32(i) {
			v.oldHome, v.restarted = v.home, true
			v.homed = v.homed || v.confirmed
			c.setHome(int32(k), none)
		}
	}
}

// homeAlive tells whether the home of a conversation can still serve it.
func (c *Core) homeAlive(v *conv) bool {
	if v.home == none || int(v.home) >= c.present {
		return false
	}
	r := &c.replicas[v.home]
	return r.usable() && r.Incarnation == v.homeInc
}

// isHome tells whether replica r, in its present life, is the home of conversation i.
// None is nobody's home.
func (c *Core) isHome(i int32, r int) bool {
	v := c.table.at(i)
	return r != none && v.home == int32(r) && v.homeInc == c.replicas[r].Incarnation
}
