package proxy

import (
	"bytes"
	"cmp"
	"container/list"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// Bounds of the watch on prompts.
const (
	prefixQueue    = 256      // prompts that wait to be looked at
	prefixBytes    = 32 << 20 // bytes of their bodies
	prefixTrails   = 4096     // conversations whose last prompt is remembered
	prefixBlocks   = 4 << 20  // blocks of them, 4 bytes each
	prefixClients  = 256      // kinds of client of all models, those that were seen last
	prefixWindow   = 100      // turns of a client that its breaks are counted over
	prefixEvidence = 2 * wire.TraceBlock
)

// Culprit is the likely cause of a prompt that does not continue the one before.
type Culprit uint8

// The culprits.
const (
	CulpritUnknown     Culprit = iota
	CulpritAttribution         // the block that Claude Code puts before its system text
	CulpritClock               // a date or a time of day
	CulpritToolOrder           // the same tools in another order
	CulpritTools               // other tools
	CulpritReminder            // a reminder that was moved or removed
	CulpritHistory             // an older message was changed or cut out

	numCulprits = iota
)

// PrefixBreaks is what was seen of one kind of client whose prompts do not continue each
// other. No router can help there: the caches hold what the client no longer sends.
type PrefixBreaks struct {
	Client  string
	Culprit Culprit // the most frequent one of the turns counted here

	// Of the client's last turns, at most a hundred: what it did long ago is no alarm, and
	// hides none.
	Compared  int       // turns that were compared
	Broken    int       // of these, the ones that broke, for whatever reason
	ByCulprit int       // of these, because of Culprit
	Latest    time.Time // when the last one broke, for whatever reason

	// Since the client was first seen.
	AllCompared  uint64
	AllByCulprit uint64

	// The last break because of Culprit.
	Last         time.Time
	Conversation route.Key
	At           wire.Break
}

// prompt is a request whose prompt is to be looked at.
type prompt struct {
	model, client string
	key           route.Key
	api           wire.API
	scan          wire.Scan // of a body that nobody changes
	block         *block    // the memory of the body, to be given back; nil for none
	bare          bool      // its engine does not see attribution blocks
	size          int64
	at            time.Time
	broken        *atomic.Bool // set when it does not continue the one before
}

// prefixWatch compares each prompt with the one before of its conversation, in a
// goroutine of its own, after the answer has begun. It keeps hashes, never text.
type prefixWatch struct {
	queue   chan prompt
	bytes   atomic.Int64 // of the bodies in queue
	dropped atomic.Uint64

	// Owned by run.
	trails map[trailKey]*list.Element
	order  *list.List // of *trail, latest used first
	blocks int

	mu      sync.Mutex // guards what follows
	clients map[clientKey]*list.Element
	seen    *list.List // of *clientTurns, last seen first
}

type trailKey struct {
	model string
	key   route.Key
}

type trail struct {
	key   trailKey
	trace *wire.Trace
}

type clientKey struct{ model, client string }

// clientTurns is what became of the turns of one kind of client.
type clientTurns struct {
	key      clientKey
	compared uint64
	latest   time.Time // of the breaks
	// last is a ring: the next turn goes to place compared % prefixWindow. A turn that
	// continues the one before is 0, one that does not its culprit and one more.
	last   [prefixWindow]uint8
	broken [numCulprits]breakCount
}

// breakCount is of the turns of a client that broke because of one culprit.
type breakCount struct {
	turns        uint64
	last         time.Time
	conversation route.Key
	at           wire.Break
}

func newPrefixWatch() *prefixWatch {
	return &prefixWatch{
		queue:   make(chan prompt, prefixQueue),
		trails:  make(map[trailKey]*list.Element),
		order:   list.New(),
		clients: make(map[clientKey]*list.Element),
		seen:    list.New(),
	}
}

// offer hands a prompt in, with the memory of its body. It never blocks: when too much
// waits the prompt is dropped, and its successor is compared with an older one.
func (w *prefixWatch) offer(p prompt) {
	if w.bytes.Add(p.size) <= prefixBytes {
		select {
		case w.queue <- p:
			return
		default:
		}
	}
	w.bytes.Add(-p.size)
	w.dropped.Add(1)
	p.block.give()
}

// run looks at prompts until closing is closed.
func (w *prefixWatch) run(closing <-chan struct{}) {
	for {
		select {
		case <-closing:
			return
		case p := <-w.queue:
			w.take(p)
		}
	}
}

// take looks at a prompt and lets go of its body.
func (w *prefixWatch) take(p prompt) {
	w.look(&p)
	w.bytes.Add(-p.size)
	p.block.give()
}

// look compares a prompt with the one before of its conversation, and remembers it.
func (w *prefixWatch) look(p *prompt) {
	trace := wire.BuildTrace(p.api, &p.scan, p.bare)
	key := trailKey{p.model, p.key}
	var before *wire.Trace
	if e := w.trails[key]; e != nil {
		t := e.Value.(*trail) //nolint:errcheck // the list holds trails only
		before = t.trace
		w.blocks += len(trace.Blocks) - len(before.Blocks)
		t.trace = trace
		w.order.MoveToFront(e)
	} else {
		w.trails[key] = w.order.PushFront(&trail{key, trace})
		w.blocks += len(trace.Blocks)
	}
	for w.order.Len() > prefixTrails || w.blocks > prefixBlocks && w.order.Len() > 1 {
		old := w.order.Remove(w.order.Back()).(*trail) //nolint:errcheck // the list holds trails only
		delete(w.trails, old.key)
		w.blocks -= len(old.trace.Blocks)
	}
	if before == nil {
		return
	}
	at := trace.Continues(before)
	p.broken.Store(at != nil)
	w.note(p, at)
}

// note counts a comparison; at is nil when the prompt continues the one before.
func (w *prefixWatch) note(p *prompt, at *wire.Break) {
	culprit := CulpritUnknown
	if at != nil {
		culprit = culpritOf(p, at)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.client(clientKey{p.model, p.client})
	place := &c.last[c.compared%prefixWindow]
	c.compared++
	if at == nil {
		*place = 0
		return
	}
	*place, c.latest = uint8(culprit)+1, p.at
	b := &c.broken[culprit]
	b.turns++
	b.last, b.conversation, b.at = p.at, p.key, *at
}

// client returns what is known of a client, which is the one seen last from now on. One
// that is new takes the room of the one not seen for longest. The caller holds mu.
func (w *prefixWatch) client(key clientKey) *clientTurns {
	if e := w.clients[key]; e != nil {
		w.seen.MoveToFront(e)
		return e.Value.(*clientTurns) //nolint:errcheck // the list holds these only
	}
	if w.seen.Len() >= prefixClients {
		old := w.seen.Remove(w.seen.Back()).(*clientTurns) //nolint:errcheck // the list holds these only
		delete(w.clients, old.key)
	}
	c := &clientTurns{key: key}
	w.clients[key] = w.seen.PushFront(c)
	return c
}

// report counts the last turns; false when none of them broke.
func (c *clientTurns) report() (PrefixBreaks, bool) {
	var of [numCulprits]int
	out := PrefixBreaks{Client: c.key.client, Compared: int(min(c.compared, prefixWindow)), AllCompared: c.compared, Latest: c.latest}
	for _, turn := range c.last[:out.Compared] {
		if turn > 0 {
			out.Broken++
			of[turn-1]++
		}
	}
	for culprit, n := range of {
		latest := c.broken[culprit].last.After(c.broken[out.Culprit].last)
		if n > out.ByCulprit || n > 0 && n == out.ByCulprit && latest {
			out.Culprit, out.ByCulprit = Culprit(culprit), n
		}
	}
	b := &c.broken[out.Culprit]
	out.AllByCulprit, out.Last, out.Conversation, out.At = b.turns, b.last, b.conversation, b.at
	return out, out.Broken > 0
}

// clockText matches a date or a time of day to the minute.
var clockText = regexp.MustCompile(`\d{4}-\d\d-\d\d|\b\d\d?:\d\d\b|\d{1,2}/\d{1,2}/\d{2,4}`)

// culpritOf tells the likely cause of a break from the text where it is. The text is
// looked at and not kept.
func culpritOf(p *prompt, at *wire.Break) Culprit {
	if at.Section == wire.SectionTools {
		if at.SameTools {
			return CulpritToolOrder
		}
		return CulpritTools
	}
	text := wire.TraceText(p.api, &p.scan, p.bare, at.Byte, prefixEvidence)
	switch {
	case bytes.Contains(text, []byte("x-anthropic-billing-header:")):
		return CulpritAttribution
	case at.Reminder || bytes.Contains(text, []byte("<system-reminder>")):
		return CulpritReminder
	case at.Shorter:
		return CulpritHistory
	case clockText.Match(text[:min(len(text), wire.TraceBlock+16)]):
		return CulpritClock
	case at.Section == wire.SectionMessage:
		return CulpritHistory
	}
	return CulpritUnknown
}

// breaks returns what was seen of a model, most broken turns first.
func (w *prefixWatch) breaks(model string) []PrefixBreaks {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []PrefixBreaks
	for key, e := range w.clients {
		if key.model != model {
			continue
		}
		//nolint:errcheck // the list holds these only
		if one, broke := e.Value.(*clientTurns).report(); broke {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b PrefixBreaks) int {
		return cmp.Or(cmp.Compare(b.Broken, a.Broken), cmp.Compare(a.Client, b.Client))
	})
	return out
}

// forget drops what was seen of a model that is gone.
func (w *prefixWatch) forget(model string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, e := range w.clients {
		if key.model == model {
			w.seen.Remove(e)
			delete(w.clients, key)
		}
	}
}

// PrefixBreaks returns, for each kind of client of a model, how many of its last turns did
// not continue the one before of their conversation, and the most frequent cause; most
// broken turns first. Clients without such a turn are left out.
func (p *Proxy) PrefixBreaks(model string) []PrefixBreaks { return p.prefixes.breaks(model) }

// watchPrefix hands the prompt of a turn that is being answered to the watch, which owns its
// body from then on. A compaction rewrites the prompt on purpose, and side calls have prompts
// of their own.
func (x *exchange) watchPrefix(a *answer) {
	key := x.place.decision.Conversation
	if a.resp.StatusCode >= http.StatusMultipleChoices || !x.api.Generates() || key == (route.Key{}) || x.scan.Body() == nil {
		return
	}
	if x.place.decision.Class == route.ClassSide || x.identity.Compaction || x.identity.Compacted {
		return
	}
	x.broken = new(atomic.Bool)
	x.p.prefixes.offer(prompt{
		model: x.model.name, client: clientProduct(x.r.UserAgent()), key: key,
		api: x.api, scan: x.scan, block: x.ownBlock(), bare: x.model.hidesAttribution(),
		size: int64(len(x.body)), at: x.arrived, broken: x.broken,
	})
}
