package proxy

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// An id that a client sends is meant to name one conversation. Where it was set once for
// everybody, in custom headers or in a template of a prompt, all of them would be sent to
// one replica. Such an id is told by the many conversations that go on beside each other
// under it; they are then told apart by the chain of their messages, as if there was no id.
//
// Many beginnings alone say nothing. The history of one conversation begins anew when it is
// compacted, or with each turn where its client drops the oldest messages, and its client may
// send a question of its own beside it; but what was left is not come back to.

// When an id counts as that of a crowd: so many conversations began, or went on, under it
// within a time, and so many of them went on after another had its turn; or none did, and so
// many came while another was in flight, as prompts of one turn each do; or all of them are
// in flight. And for how long it does after that was last so.
const (
	crowdSize   = 8
	crowdGoOn   = 4
	crowdWindow = 10 * time.Minute
	crowdLife   = time.Hour
)

// Bounds of what is watched at once: of ids, and of conversations under one. An id gives way
// to another one unless more than one conversation was seen under it.
const (
	crowdSlots = 1024
	crowdCells = 64
)

// crowds watches the ids of conversations. It takes a fixed amount of memory and is safe
// for concurrent use.
type crowds struct{ slots [crowdSlots]crowd }

// crowd is what was seen of one id.
type crowd struct {
	mu    sync.Mutex // guards what follows
	key   route.Key
	last  uint32 // beginning of the latest turn
	until int64  // unix time until which it is that of a crowd; 0 when it is not
	begun [crowdCells]beginning
}

// beginning is how a conversation begins, and what was seen of it.
type beginning struct {
	hash   uint32
	flying uint16 // turns in flight
	wentOn bool   // it had a turn after one of another
	beside bool   // it had one while one of another was in flight
	at     int64  // unix time when it was last seen; 0 for none
}

// watch is a turn that was noted.
type watch struct {
	c    *crowd // nil when it was not
	key  route.Key
	hash uint32
}

// note tells of a turn under an id that begins like begins, 0 when that is not known. It
// says whether the id is that of a crowd, and whether that was found out just now. The turn
// is in flight until the watch is over.
func (w *crowds) note(now time.Time, key route.Key, begins uint64) (turn watch, crowded, found bool) {
	c := &w.slots[binary.LittleEndian.Uint64(key[:8])%crowdSlots]
	at, since := now.Unix(), now.Add(-crowdWindow).Unix()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key != key {
		if c.until > at || c.count(since).begun > 1 {
			return watch{}, false, false // the one that is watched is worth more
		}
		c.key, c.last, c.until = key, 0, 0
		clear(c.begun[:])
	}
	if begins == 0 {
		return watch{}, c.until > at, false
	}
	hash := max(uint32(begins), 1) // a free place has none
	news := c.see(at, since, hash)
	was := c.until > at
	if news || was {
		n := c.count(since)
		if n.begun >= crowdSize && n.wentOn >= crowdGoOn || n.beside >= crowdSize && n.wentOn == 0 ||
			n.flying >= crowdSize || was && n.begun > 1 {
			c.until = now.Add(crowdLife).Unix()
		}
	}
	return watch{c, key, hash}, c.until > at, c.until > at && !was
}

// see notes a turn, and says whether it is one after a turn of another conversation.
func (c *crowd) see(at, since int64, hash uint32) (news bool) {
	b, beside := c.find(since, hash)
	switch {
	case b.hash != hash:
		*b = beginning{hash: hash}
	case b.at <= since:
		b.wentOn, b.beside = false, false
	case c.last != hash:
		b.wentOn = true
	}
	b.at, b.beside = at, b.beside || beside
	b.flying++
	news = c.last != hash
	c.last = hash
	return news
}

// find returns the place of a conversation, or one for it, and says whether another is in
// flight. Where all are taken it is that of any other: were it the one seen longest ago, none
// of many that take turns would be there when its turn comes again.
func (c *crowd) find(since int64, hash uint32) (place *beginning, beside bool) {
	free := &c.begun[hash%crowdCells]
	taken := true
	for i := range c.begun {
		b := &c.begun[i]
		switch {
		case b.hash == hash:
			place = b
		case b.flying > 0:
			beside = true
		case taken && b.at <= since:
			free, taken = b, false
		}
	}
	if place == nil {
		place = free
	}
	return place, beside
}

// over tells that a turn has ended.
func (t watch) over() {
	if t.c == nil {
		return
	}
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	for i := range t.c.begun {
		if b := &t.c.begun[i]; b.hash == t.hash && b.flying > 0 && t.c.key == t.key {
			b.flying--
			return
		}
	}
}

// tally is how many conversations were seen since a moment, and how many of them went on
// after another or came beside one; and how many are in flight.
type tally struct{ begun, wentOn, beside, flying int }

func (c *crowd) count(since int64) (n tally) {
	for i := range c.begun {
		b := &c.begun[i]
		if b.flying > 0 {
			n.flying++
		}
		if b.at <= since {
			continue
		}
		n.begun++
		if b.wentOn {
			n.wentOn++
		}
		if b.beside {
			n.beside++
		}
	}
	return n
}

// uncrowd drops the id of the request when many conversations share it, but for one in our
// own header, which always counts. Side calls say nothing: they have prompts of their own by
// nature.
func (x *exchange) uncrowd() {
	if x.identity.Kind == wire.KindSide || x.identity.Source == wire.SourceOwn {
		return
	}
	turn, crowded, found := x.p.crowds.note(x.arrived, x.key, wire.Beginning(x.api, &x.scan))
	x.watch = turn
	if !crowded {
		return
	}
	if found {
		x.p.options.Logger.Warn().Str("model", x.model.name).Str("source", x.identity.Source.String()).
			Str("client", clientProduct(x.r.UserAgent())).
			Msg("many conversations send the same id, which was perhaps set by hand; they are told apart by their messages now")
	}
	x.key, x.identity.Key, x.identity.Group, x.identity.Parent = route.Key{}, "", "", ""
}
