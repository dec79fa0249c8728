package vllmd

import (
	"github.com/lmwarden/lmwarden/sim/engine"
)

// sequence is one answer of a call: a prompt, and what the engine makes of it. Most
// calls have one; several choices and several prompts make more.
type sequence struct {
	index     int
	prompt    []uint32
	echoed    string // text of the prompt, when the client wants it back
	answer    answer
	request   engine.Request
	cacheable int          // prompt tokens in blocks that can be found again
	latest    engine.Event // of the engine
	told      int          // output tokens that a stream has told of
	sent      int          // bytes of the text that it has sent
	silent    bool         // only the prompt is wanted: the text of the one token is not shown
}

// delta is what a stream says next of a sequence.
type delta struct {
	from, n   int // the output tokens that it is about: from up to, not including, n
	last      bool
	text      string
	called    bool   // the name of the tool is complete
	arguments string // more of the tool's arguments
}

// advance returns what is new since the last time, up to the engine's latest event.
func (q *sequence) advance() delta {
	d := delta{from: q.told, n: q.latest.Output, last: q.latest.Done}
	to := q.answer.visible(d.n)
	if t := q.answer.tool; t != nil {
		d.called = q.sent < t.nameEnd && to >= t.nameEnd
		d.arguments = t.arguments[t.part(q.sent):t.part(to)]
	} else if !q.silent {
		d.text = q.answer.shown[q.sent:to]
	}
	if d.from == 0 {
		d.text = q.echoed + d.text
	}
	q.told, q.sent = d.n, to
	return d
}

// text is the whole answer as its client sees it.
func (q *sequence) text() string {
	n := q.latest.Output
	if q.silent || n == 0 {
		return q.echoed
	}
	return q.echoed + q.answer.shown[:q.answer.visible(n)]
}

// finish is how the OpenAI APIs name the end.
func (q *sequence) finish() string {
	switch {
	case q.latest.Output < len(q.answer.ids):
		return "abort"
	case !q.answer.ended:
		return "length"
	case q.answer.tool != nil && !q.answer.tool.named:
		return "tool_calls"
	default:
		return "stop"
	}
}

// stored is the number of prompt tokens that this sequence put into the cache.
func (q *sequence) stored() int { return max(0, q.cacheable-q.latest.Cached) }

// promptTokens is the number of tokens of all prompts; choices share theirs.
func (c *call) promptTokens() int {
	n := 0
	for i := 0; i < len(c.seqs); i += c.choices {
		n += len(c.seqs[i].prompt)
	}
	return n
}

// outputTokens is the number of tokens of all answers so far.
func (c *call) outputTokens() int {
	n := 0
	for _, q := range c.seqs {
		n += q.latest.Output
	}
	return n
}

// cached and stored are what the first choice of each prompt found in the cache and
// what it left there.
func (c *call) cached() int {
	n := 0
	for i := 0; i < len(c.seqs); i += c.choices {
		n += c.seqs[i].latest.Cached
	}
	return n
}

func (c *call) stored() int {
	n := 0
	for i := 0; i < len(c.seqs); i += c.choices {
		n += c.seqs[i].stored()
	}
	return n
}

// promptIDs and outputIDs are the tokens of a sequence when its client wants them, else
// nil, which encodes as null.
func (c *call) promptIDs(q *sequence) []uint32 {
	if !c.returnIDs {
		return nil
	}
	return q.prompt
}

func (c *call) outputIDs(q *sequence) []uint32 {
	if !c.returnIDs {
		return nil
	}
	return q.answer.ids
}
