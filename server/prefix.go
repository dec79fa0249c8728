package server

import (
	"fmt"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/wire"
	"github.com/lmwarden/lmwarden/server/stats"
	"github.com/lmwarden/lmwarden/supervisor"
)

// When a client's breaks are worth an alarm: often enough to be no accident, and a share
// of its turns that costs more than a compaction now and then.
const (
	breaksEnough = 3
	breaksOneIn  = 5 // of its last turns
	// breaksOver is the share, one in so many, below which an alarm is over: one that
	// began again whenever the share crosses one line would be told again and again.
	breaksOver = 10
	// breaksFresh is how long after the last one they are on the card.
	breaksFresh = time.Hour
	cardBreaks  = 16
)

// alarming says whether breaks are worth telling.
func alarming(b *proxy.PrefixBreaks, now time.Time) bool {
	return b.Broken >= breaksEnough && b.Broken*breaksOneIn >= b.Compared && now.Sub(b.Latest) <= breaksFresh
}

// lasting says whether an alarm that was told goes on.
func lasting(b *proxy.PrefixBreaks, now time.Time) bool {
	return b.Broken*breaksOver >= b.Compared && now.Sub(b.Latest) <= breaksFresh
}

// prefixBreaks returns the alarms of a model as shown.
func (c *control) prefixBreaks(model string, now time.Time) []*lmwardenv1.PrefixBreak {
	var out []*lmwardenv1.PrefixBreak
	for _, b := range c.plane.PrefixBreaks(model) {
		if len(out) == cardBreaks || !alarming(&b, now) {
			continue
		}
		out = append(out, &lmwardenv1.PrefixBreak{
			Client: b.Client, Culprit: prefixCulprits[b.Culprit], BrokenTurns: b.AllByCulprit, ComparedTurns: b.AllCompared,
			Last: stamp(b.Last), Conversation: keyID(b.Conversation),
			Byte: known[uint64](b.At.Byte), Block: known[uint64](b.At.Block), Message: prefixMessage(&b),
		})
	}
	return out
}

var prefixCulprits = map[proxy.Culprit]lmwardenv1.PrefixCulprit{
	proxy.CulpritUnknown:     lmwardenv1.PrefixCulprit_PREFIX_CULPRIT_UNSPECIFIED,
	proxy.CulpritAttribution: lmwardenv1.PrefixCulprit_PREFIX_CULPRIT_ATTRIBUTION,
	proxy.CulpritClock:       lmwardenv1.PrefixCulprit_PREFIX_CULPRIT_CLOCK,
	proxy.CulpritToolOrder:   lmwardenv1.PrefixCulprit_PREFIX_CULPRIT_TOOL_ORDER,
	proxy.CulpritTools:       lmwardenv1.PrefixCulprit_PREFIX_CULPRIT_TOOLS,
	proxy.CulpritReminder:    lmwardenv1.PrefixCulprit_PREFIX_CULPRIT_REMINDER,
	proxy.CulpritHistory:     lmwardenv1.PrefixCulprit_PREFIX_CULPRIT_HISTORY,
}

// prefixAdvice is what each culprit is and what to do about it.
var prefixAdvice = map[proxy.Culprit]string{
	proxy.CulpritUnknown:     "its system text changes between turns; keep what changes out of the beginning of the prompt",
	proxy.CulpritAttribution: "its attribution block changes with every turn; set strip_attribution for engines older than vLLM 0.18, or CLAUDE_CODE_ATTRIBUTION_HEADER=0 in the client",
	proxy.CulpritClock:       "it writes a date or a time into the prompt; move that to the last message",
	proxy.CulpritToolOrder:   "it lists the same tools in another order each time; sort them",
	proxy.CulpritTools:       "its tools change between turns; declare them all from the first turn on",
	proxy.CulpritReminder:    "it moves or removes a reminder in an older message; leave old messages as they were",
	proxy.CulpritHistory:     "it changes or cuts older messages; leave them as they were, or compact rarely",
}

// prefixMessage says in one sentence what breaks, where and what to do.
func prefixMessage(b *proxy.PrefixBreaks) string {
	client, share := or(b.Client, "A client without a user agent"), ""
	if b.ByCulprit < b.Broken {
		share = fmt.Sprintf(", %d of them for one reason", b.ByCulprit)
	}
	return fmt.Sprintf("%s sends prompts that do not continue the ones before: %d of its last %d turns broke%s, the last one %s. No cache and no router can help: %s.", client, b.Broken, b.Compared, share, breakPlace(&b.At), prefixAdvice[b.Culprit])
}

// breakPlace says where a prompt broke.
func breakPlace(at *wire.Break) string {
	switch at.Section {
	case wire.SectionTools:
		return fmt.Sprintf("at tool %d", at.Index+1)
	case wire.SectionSystem:
		return fmt.Sprintf("in the system text at byte %d (block %d)", at.Byte, at.Block)
	}
	return fmt.Sprintf("in message %d at byte %d (block %d)", at.Index+1, at.Byte, at.Block)
}

// toldBreak names an alarm that was told.
type toldBreak struct {
	model, client string
	culprit       proxy.Culprit
}

// watchPrefixes tells when a client begins to break its own prefix, once for each cause
// until it hardly does so any more.
func (r *reconciler) watchPrefixes(entries []*entry) {
	now := r.now()
	still := make(map[toldBreak]bool)
	for _, e := range entries {
		for _, b := range r.plane.PrefixBreaks(e.name()) {
			for culprit := range prefixCulprits {
				// Which cause is the most frequent one may change to and fro.
				if k := (toldBreak{e.name(), b.Client, culprit}); r.toldBreaks[k] && lasting(&b, now) {
					still[k] = true
				}
			}
			k := toldBreak{e.name(), b.Client, b.Culprit}
			if !alarming(&b, now) || still[k] {
				continue
			}
			still[k] = true
			r.events.Add(stats.Event{Severity: stats.Warning, Kind: "prefix_break", Model: e.name(), Replica: -1, Message: prefixMessage(&b)})
		}
	}
	r.toldBreaks = still
}

// ignoreAttribution says whether every engine leaves attribution blocks out of its prompt
// by itself, as vLLM does from 0.18 on. One whose version is not known does not.
func ignoreAttribution(statuses []supervisor.Status) bool {
	for _, st := range statuses {
		var major, minor int
		if n, err := fmt.Sscanf(st.Engine.Version, "%d.%d", &major, &minor); n < 2 || err != nil {
			return false
		}
		if major == 0 && minor < 18 {
			return false
		}
	}
	return len(statuses) > 0
}
