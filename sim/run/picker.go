package run

import (
	"slices"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
)

// picker finds the replicas of turns in the router's place. The client then names the
// replica, which the router never overrides.
type picker interface {
	// pick chooses a replica for the turn that c is about to send, or none (-1) when no
	// replica is ready.
	pick(now time.Duration, c *client, ready func(replica int) bool) int
	// sent says that the turn went to that replica, which another pick may have chosen.
	sent(now time.Duration, c *client, replica int)
	// ended says that it no longer runs there.
	ended(now time.Duration, c *client, replica int)
}

// pickerBox is what a picker knows of the replicas.
type pickerBox struct {
	replicas, capacity, blockSize, spill int
}

// fewest returns the ready replica with the least value, the first of several, or -1.
func fewest(values []int, ready func(int) bool) int {
	best := -1
	for i, v := range values {
		if ready(i) && (best < 0 || v < values[best]) {
			best = i
		}
	}
	return best
}

// recentWindow is how long a conversation is weighed after its last turn.
const recentWindow = 5 * time.Minute

// recent is the rule of seed with the count of conversations as it was first written: on a
// home weigh all with a turn in the last five minutes, also those that have ended. The
// router itself weighs those at work.
type recent struct {
	box      pickerBox
	inFlight []int
	chosen   []int // running number of the last choice, per replica
	choices  int
	talks    map[uint64]*recentTalk
	held     [][]recentHeld // what each replica is believed to hold, longest unused first
}

// recentTalk is one conversation.
type recentTalk struct {
	home, inFlight int
	last           time.Duration
}

// recentHeld is the tokens of one conversation on a replica.
type recentHeld struct {
	id     uint64
	tokens int
}

func newRecent(b pickerBox) picker {
	return &recent{
		box: b, inFlight: make([]int, b.replicas), chosen: make([]int, b.replicas),
		talks: make(map[uint64]*recentTalk), held: make([][]recentHeld, b.replicas),
	}
}

func (p *recent) pick(now time.Duration, c *client, ready func(int) bool) int {
	t := p.talks[c.talk.ID]
	if t == nil || !ready(t.home) {
		home := p.place(now, ready)
		if home < 0 {
			return home
		}
		p.choices++
		p.chosen[home] = p.choices
		t = &recentTalk{home: home, last: now}
		p.talks[c.talk.ID] = t
	}
	if p.inFlight[t.home] >= p.box.spill {
		if to := fewest(p.inFlight, ready); p.inFlight[to] < p.inFlight[t.home] {
			return to
		}
	}
	return t.home
}

// place returns the replica with the least score, or -1.
func (p *recent) place(now time.Duration, ready func(int) bool) int {
	live := make([]int, p.box.replicas)
	for id, t := range p.talks {
		if t.inFlight == 0 && now-t.last > recentWindow {
			delete(p.talks, id)
			continue
		}
		live[t.home]++
	}
	best, least := -1, 0.0
	for i := range live {
		if !ready(i) {
			continue
		}
		score := float64(p.inFlight[i]+live[i]) + 8*float64(p.holds(i))/float64(p.box.capacity)
		if best < 0 || score < least || score == least && (live[i] < live[best] || live[i] == live[best] && p.chosen[i] < p.chosen[best]) {
			best, least = i, score
		}
	}
	return best
}

// holds returns the tokens that a replica is believed to hold.
func (p *recent) holds(replica int) int {
	sum := 0
	for _, h := range p.held[replica] {
		sum += h.tokens
	}
	return sum
}

func (p *recent) sent(now time.Duration, c *client, replica int) {
	p.inFlight[replica]++
	if t := p.talks[c.talk.ID]; t != nil {
		t.inFlight++
		t.last = now
	}
}

func (p *recent) ended(now time.Duration, c *client, replica int) {
	p.inFlight[replica]--
	if t := p.talks[c.talk.ID]; t != nil {
		t.inFlight--
		t.last = now
	}
	held := slices.DeleteFunc(p.held[replica], func(h recentHeld) bool { return h.id == c.talk.ID })
	p.held[replica] = append(held, recentHeld{c.talk.ID, c.request.Prompt + c.request.Output})
	for p.holds(replica) > p.box.capacity {
		p.held[replica] = p.held[replica][1:]
	}
}

// treeShare is the part of a prompt that a replica must have been sent before for a tree
// to send it there: above what the conversations of most loads share.
const treeShare = 0.5

// tree is the cache-aware tree of other routers: it remembers which beginnings of prompts
// each replica was sent, for ever, and sends a prompt where the longest part of it is known,
// if that is enough of it, else where the fewest tokens were sent. Their second rule, for
// load that is out of balance by 64 requests in flight, is left out: no load here reaches it.
type tree struct {
	box   pickerBox
	known []map[engine.Hash]struct{} // per replica
}

func newTree(b pickerBox) picker {
	p := &tree{box: b, known: make([]map[engine.Hash]struct{}, b.replicas)}
	for i := range p.known {
		p.known[i] = make(map[engine.Hash]struct{})
	}
	return p
}

// prompt returns the hashes of the full blocks of the turn's prompt.
func (p *tree) prompt(c *client) []engine.Hash {
	return c.request.Hashes[:min(len(c.request.Hashes), c.request.Prompt/p.box.blockSize)]
}

func (p *tree) pick(_ time.Duration, c *client, ready func(int) bool) int {
	best, longest := -1, 0
	sizes := make([]int, len(p.known))
	for i, known := range p.known {
		sizes[i] = len(known)
		if !ready(i) {
			continue
		}
		match := 0
		for _, h := range p.prompt(c) {
			if _, ok := known[h]; !ok {
				break
			}
			match++
		}
		if match > longest {
			best, longest = i, match
		}
	}
	if float64(longest*p.box.blockSize) > treeShare*float64(c.request.Prompt) {
		return best
	}
	return fewest(sizes, ready)
}

func (p *tree) sent(_ time.Duration, c *client, replica int) {
	for _, h := range p.prompt(c) {
		p.known[replica][h] = struct{}{}
	}
}

func (p *tree) ended(time.Duration, *client, int) {}
