package route

// learned holds what a model's engines have taught: means that follow change slowly.
type learned struct {
	ratio   ewma // prompt tokens per byte of the prompt part of a body
	prefill pace // prompt tokens computed per second
	service ewma // seconds from dispatch to the end of an answer
	growth  ewma // tokens that a prompt grows from turn to turn
	output  ewma // tokens of an answer
	places  pace // places given per second, while requests waited for one
	rhythm  rhythm
}

// Guess and speed of learning.
const (
	guessRatio   = 0.25 // four bytes a token, until the first usage
	learnSpeed   = 0.1
	defaultChunk = 2048 // tokens of one step, where an engine does not say
	telling      = 1024 // computed tokens that tell the speed of prefill
)

func (l *learned) init() { l.ratio.value = guessRatio }

// ewma is an exponentially weighted mean. Its first samples weigh alike.
type ewma struct {
	value   float64
	samples int
	at      int64 // moment of the last sample
}

func (e *ewma) known() bool { return e.samples > 0 }

func (e *ewma) add(at int64, x float64) {
	e.samples++
	e.at = at
	e.value += (x - e.value) * max(learnSpeed, 1/float64(e.samples))
}

// tokens estimates a prompt that begins a conversation.
func (l *learned) tokens(bytes int64) int64 {
	return int64(float64(bytes) * l.ratio.value)
}

// next estimates the next prompt of a conversation: the last one as measured and
// what was added since.
func (l *learned) next(v *conv, bytes int64) int64 {
	if v.prompt == 0 || bytes < v.lastBytes {
		return l.tokens(bytes)
	}
	return v.prompt + l.tokens(bytes-v.lastBytes)
}

// learn takes the usage of a served request into the model's means and the shadow.
func (c *Core) learn(t *ticket, o *Outcome) {
	l := &c.learned
	tokens := t.tokens
	if o.Prompt > 0 {
		tokens = int64(o.Prompt + max(o.Completion, 0))
		if t.bytes > 0 {
			l.ratio.add(c.at, float64(o.Prompt)/float64(t.bytes))
		}
		c.learnPrefill(t, o)
		l.output.add(c.at, float64(max(o.Completion, 0)))
		if grown := int64(o.Prompt) - t.before; t.before > 0 && grown >= 0 {
			l.growth.add(c.at, float64(grown))
		}
	}
	if t.first && t.class != ClassClientPinned && o.Cached > 0 && t.sharedHeld {
		c.learnShared(t.shared, int64(o.Cached))
	}
	l.service.add(c.at, seconds(c.at-t.dispatched))
	if t.inc == c.replicas[t.replica].Incarnation && (t.conv != none || o.Prompt > 0) {
		c.shadow.touch(c, t.conv, t.shared, int(t.replica), tokens)
	}
}

// paceSamples is how many of the last samples make a pace.
const paceSamples = 64

// pace is amounts over times of the last samples. It is no mean of quotients: prompts
// that an engine reads in the same steps get their first bytes at the same moment, the
// first of them after the time of all and the others after none.
type pace struct {
	ewma    // value is the amount per second; samples and at are those of all samples
	amounts [paceSamples]float64
	times   [paceSamples]float64 // seconds
	next    int
}

func (p *pace) known() bool { return p.value > 0 }

// add takes an amount and the seconds that it took.
func (p *pace) add(at int64, amount, took float64) {
	p.samples++
	p.at = at
	p.amounts[p.next], p.times[p.next] = amount, took
	p.next = (p.next + 1) % paceSamples
	sum, time := 0.0, 0.0
	for i, a := range p.amounts {
		sum += a
		time += p.times[i]
	}
	if time > 0 {
		p.value = sum / time
	}
}

// learnPrefill samples the speed of a prefill that was long enough to tell it: shorter
// ones measure the step and not the speed.
func (c *Core) learnPrefill(t *ticket, o *Outcome) {
	computed := o.Prompt - max(o.Cached, 0)
	if o.Whole || !t.firstByte || t.ttfb < 0 || o.Cached < 0 || computed <= c.tells(int(t.replica)) {
		return
	}
	c.learned.prefill.add(c.at, float64(computed), seconds(t.ttfb))
}

// tells returns the computed tokens above which a first byte on replica i tells the speed
// of prefill. A step takes at least the time in which the weights are read, and computes
// one to two hundred tokens in it; of ten times as many it is a small part. An engine with
// small steps, or a small cache, sees no prompts as long as that: one of several steps, or
// of a tenth of the cache, must do there.
func (c *Core) tells(i int) int {
	n := min(c.chunk(i), telling)
	if capacity := int(c.replicas[i].Capacity); capacity > 0 {
		n = min(n, capacity/10)
	}
	return n
}

// chunk returns the tokens that replica i computes in one step.
func (c *Core) chunk(i int) int {
	if n := c.replicas[i].MaxBatchedTokens; n > 0 {
		return n
	}
	return defaultChunk
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// expect says why the cache of replica to is not expected to hold the prompt of a
// ticket, before its home is moved there.
func (c *Core) expect(t *ticket, class Class, to int) Miss {
	if t.conv == none || t.first {
		return MissNew
	}
	v := c.table.at(t.conv)
	held := c.shadow.cached(c, t.conv, t.shared, to)
	switch {
	case t.broken:
		return MissPrefixChanged
	case !v.seen:
		return MissNew
	case held*5 >= v.context*4:
		return MissNone
	case class == ClassSpilled, class == ClassOff, class == ClassClientPinned:
		return MissSpilled
	case class == ClassRehomed && v.restarted:
		return MissReplicaRestarted
	case class == ClassRehomed, v.home != int32(to):
		return MissRehomed
	default:
		return MissEvicted
	}
}

// missOf says why the prompt of a served request was not in the cache, from the
// engine's own count where it gave one.
func (c *Core) missOf(t *ticket, o *Outcome) Miss {
	if o.Prompt <= 0 || o.Cached < 0 {
		return t.expected
	}
	if t.conv == none || t.first {
		if o.Cached*5 >= o.Prompt*4 {
			return MissNone
		}
		return MissNew
	}
	reusable := min(t.before, int64(o.Prompt))
	if int64(o.Cached)*5 >= reusable*4 && !(t.broken && reusable == 0) {
		return MissNone
	}
	switch {
	case t.expected != MissNone && t.expected != MissEvicted:
		return t.expected
	case o.Broken, int64(o.Prompt) < t.before: // a history never shrinks but by a rewrite
		return MissPrefixChanged
	default:
		return MissEvicted
	}
}
