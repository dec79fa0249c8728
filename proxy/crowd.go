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
// one replica. Such an id is told by the many conversations that begin under it; they are
// then told apart by the chain of their messages, as if there was no id.

// When an id counts as that of a crowd: so many conversations began, or went on, under it
// within a time; and for how long it does after that was last so. A conversation begins
// anew when its history is compacted, but not so often.
const (
	crowdSize   = 8
	crowdWindow = 10 * time.Minute
	crowdLife   = time.Hour
)

// crowdSlots is how many ids are watched at once. An id that is watched gives way to
// another one unless more than one conversation was seen under it.
const crowdSlots = 4096

// crowds watches the ids of conversations. It takes a fixed amount of memory and is safe
// for concurrent use.
type crowds struct{ slots [crowdSlots]crowd }

// crowd is what was seen of one id.
type crowd struct {
	mu    sync.Mutex // guards what follows
	key   route.Key
	begun [crowdSize]beginning // in no order
	until int64                // unix time until which it is that of a crowd; 0 when it is not
}

// beginning is how a conversation begins.
type beginning struct {
	hash uint32
	at   int64 // unix time when it was last seen; 0 for none
}

// note tells of a turn under an id that begins like begins, 0 when that is not known. It
// says whether the id is that of a crowd, and whether that was found out just now.
func (w *crowds) note(now time.Time, key route.Key, begins uint64) (crowded, found bool) {
	c := &w.slots[binary.LittleEndian.Uint64(key[:8])%crowdSlots]
	at, since := now.Unix(), now.Add(-crowdWindow).Unix()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key != key {
		if c.until > at || c.count(since) > 1 {
			return false, false // the one that is watched is worth more
		}
		c.key, c.begun, c.until = key, [crowdSize]beginning{}, 0
	}
	if begins != 0 {
		c.see(at, uint32(begins))
	}
	was := c.until > at
	if n := c.count(since); n >= crowdSize || was && n > 1 {
		c.until = now.Add(crowdLife).Unix()
	}
	return c.until > at, c.until > at && !was
}

// see notes a beginning in the place of the one that was seen longest ago.
func (c *crowd) see(at int64, hash uint32) {
	oldest := 0
	for i := range c.begun {
		if b := &c.begun[i]; b.hash == hash && b.at != 0 {
			b.at = at
			return
		}
		if c.begun[i].at < c.begun[oldest].at {
			oldest = i
		}
	}
	c.begun[oldest] = beginning{hash, at}
}

// count returns how many beginnings were seen since a moment.
func (c *crowd) count(since int64) (n int) {
	for i := range c.begun {
		if c.begun[i].at > since {
			n++
		}
	}
	return n
}

// uncrowd drops the id of the request when many conversations share it. Side calls say
// nothing: they have prompts of their own by nature.
func (x *exchange) uncrowd() {
	if x.identity.Kind == wire.KindSide {
		return
	}
	crowded, found := x.p.crowds.note(x.arrived, x.key, wire.Beginning(x.api, &x.scan))
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
