package route

import (
	"math"
	"slices"
)

// space is what the replicas could offer one more conversation, for a walk through the
// queue: most of those that wait find by it that there is no room for them without a look
// at each replica.
type space struct {
	tokens []int64 // by replica: the most that one more may take once all spent places are given up
	rooms  []int64 // the most of these that one may use that has nothing to do with any replica; by its shared prompt, from none
	calm   bool    // a replica is usable that is not to be avoided
	gone   []int32 // by shared prompt: places with it that have been given up so far, see gains
}

const roomUnknown = math.MinInt64

// survey looks at the replicas.
func (c *Core) survey() {
	s := &c.door.space
	s.tokens = slices.Grow(s.tokens[:0], c.present)[:c.present]
	s.calm = false
	for i := range s.tokens {
		r := &c.replicas[i]
		s.calm = s.calm || r.usable() && !r.Avoid
		c.look(i)
	}
}

// look finds what replica i could offer now.
func (c *Core) look(i int) {
	s, r := &c.door.space, &c.replicas[i]
	s.rooms = s.rooms[:0]
	if !r.usable() {
		s.tokens[i] = -1
		return
	}
	free, left := c.vacancy(i, none)
	s.tokens[i] = free - c.door.growth
	if left == 0 {
		s.tokens[i] = math.MaxInt64
	}
}

// vacancy returns the tokens that are left on replica i once all spent places are given
// up, with the room for growth of those that stay, and how many these are. A shared prompt
// that is needed stays.
func (c *Core) vacancy(i int, needed int32) (free int64, left int) {
	r := &c.replicas[i]
	free, left = r.Capacity-r.places.total(), r.places.count
	clear(c.door.space.gone)
	for k := r.idle.first; k != none && c.spent(c.table.at(k)); k = c.table.at(k).seatNext {
		free += c.gains(&r.places, c.table.at(k), needed) - c.door.growth
		left--
	}
	return free - c.door.growth*int64(left), left
}

// gains returns what a budget gains with the place of a conversation, its room for growth
// included. With the last place that has it a shared prompt is gone too, unless one who
// comes needs that. Clear space.gone before the first of those that go.
func (c *Core) gains(p *ledger, v *conv, needed int32) int64 {
	n := v.size + c.door.growth
	if v.shared == none || v.shared == needed {
		return n
	}
	s := &c.door.space
	for len(s.gone) <= int(v.shared) {
		s.gone = append(s.gone, 0)
	}
	if s.gone[v.shared]++; s.gone[v.shared] == p.refs[v.shared] {
		n += c.shadow.shared.size(v.shared)
	}
	return n
}

// offers tells whether replica i may have room for a ticket. No is certain.
func (c *Core) offers(t *ticket, i int, need int64) bool {
	if !c.replicas[i].places.holds(t.shared) {
		need += c.shadow.shared.size(t.shared)
	}
	return need <= c.door.space.tokens[i]
}

// mayFit tells whether any replica that a ticket may go to may have room for so many
// tokens of its own. No is certain.
func (c *Core) mayFit(t *ticket, need int64) bool {
	if c.limited(t) {
		for i := range c.door.space.tokens {
			if c.offers(t, i, need) && c.eligible(t, i) {
				return true
			}
		}
		return false
	}
	if need <= *c.roomFor(t.shared) {
		return true
	}
	home := int(c.table.at(t.conv).home)
	return c.avoidedHome(t) && c.offers(t, home, need)
}

// limited tells whether a ticket cannot go to each of the usable replicas.
func (c *Core) limited(t *ticket) bool { return len(t.tried) > 0 || !c.fitsAll(t) }

// avoidedHome tells whether the home of a ticket is one that others keep away from.
func (c *Core) avoidedHome(t *ticket) bool {
	v := c.table.at(t.conv)
	return c.homeAlive(v) && c.replicas[v.home].Avoid
}

// roomFor returns the most tokens of its own that one with a shared prompt may have that
// has no home, that no replica has failed and that each could hold.
func (c *Core) roomFor(shared int32) *int64 {
	s := &c.door.space
	for len(s.rooms) <= int(shared)+1 {
		s.rooms = append(s.rooms, roomUnknown)
	}
	room := &s.rooms[shared+1]
	if *room != roomUnknown {
		return room
	}
	*room = 0
	for i, free := range s.tokens {
		r := &c.replicas[i]
		if !r.usable() || r.Avoid && s.calm {
			continue
		}
		if !r.places.holds(shared) {
			free -= c.shadow.shared.size(shared)
		}
		*room = max(*room, free)
	}
	return room
}

// noRoom remembers that no replica has room for a ticket: nor has any, until somebody is
// let in, for one like it that needs as much.
func (c *Core) noRoom(t *ticket, need int64) {
	if !c.limited(t) && !c.avoidedHome(t) {
		room := c.roomFor(t.shared)
		*room = min(*room, need-1)
	}
}
