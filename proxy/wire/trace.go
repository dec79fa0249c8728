package wire

import (
	"hash/maphash"
	"slices"
)

// TraceBlock is the size of the blocks of a [Trace], in bytes.
const TraceBlock = 128

// Bounds of a trace: what lies beyond is not looked at.
const (
	maxTraceBlocks = 8192 // 1 MiB of text
	maxTraceParts  = 4096
)

// Trace is a prompt cut into hashed blocks, to find where the prompt of a turn stops
// being a continuation of the one before. Unlike a [Chain] it leaves nothing out that an
// engine sees: attribution blocks and reminders are part of it. What engines do not see
// is not: cache_control, ids, reasoning, white space between JSON tokens. It holds no
// text.
type Trace struct {
	Tools     []uint64 // hash of each tool, without the order of its members
	Blocks    []uint32 // hash of each whole block of system text and messages
	Starts    []int32  // where the system text, which may be empty, and each message begins
	Parts     []uint32 // hash of each of these
	Reminders []int32  // where parts begin that contain a reminder
}

// traceSeed makes block hashes; they are compared within one process only.
var traceSeed = maphash.MakeSeed()

// BuildTrace cuts the prompt of a request. With bare the attribution block is left out,
// as engines from vLLM 0.18 on do. The result shares nothing with the body.
func BuildTrace(api API, s *Scan, bare bool) *Trace {
	t := &tap{bare: bare}
	t.part.SetSeed(traceSeed)
	t.Blocks = make([]uint32, 0, min(s.PromptBytes()/TraceBlock+1, maxTraceBlocks))
	t.run(api, s)
	trace := t.Trace // alone: it is kept for long
	return &trace
}

// TraceText returns the text of a prompt from byte on, at most n bytes of it, as a trace
// with the same bare counts bytes.
func TraceText(api API, s *Scan, bare bool, from, n int) []byte {
	t := &tap{bare: bare, from: from, until: from + n}
	t.run(api, s)
	return t.text
}

// tap takes what a canon would hash.
type tap struct {
	Trace
	bare  bool // without the attribution block
	at    int  // bytes so far
	block []byte
	part  maphash.Hash // of the present part

	from, until int // what is copied to text
	text        []byte
}

func (t *tap) run(api API, s *Scan) {
	c := newCanon()
	defer func() {
		c.tap, c.links = nil, nil
		canonPool.Put(c)
	}()
	c.tap, c.links, c.last, c.first = t, nil, 0, -1
	for e := elementsOf(s.Raw(FieldTools)); e.next() && len(t.Tools) < maxTraceParts; {
		t.Tools = append(t.Tools, c.tool(e.value()))
	}
	if api == APIChat {
		t.start() // the other surfaces begin with a system text of their own
	}
	c.request(api, s)
	t.end()
}

// tool hashes one tool without what engines do not see.
func (c *canon) tool(raw []byte) uint64 {
	if len(raw) == 0 || raw[0] != '{' {
		return c.hash64('v', raw)
	}
	var sum uint64
	for m := membersOf(raw, 0); m.next(); {
		if !volatile(m.key) {
			sum += c.pair(m.key, raw[m.val.Start:m.val.End], 0)
		}
	}
	return sum
}

// start notes that a part begins: the system text or a message.
func (t *tap) start() {
	t.end()
	if len(t.Starts) < maxTraceParts {
		t.Starts = append(t.Starts, int32(t.at))
	}
}

// end notes the hash of the part that ends.
func (t *tap) end() {
	if len(t.Parts) < len(t.Starts) {
		t.Parts = append(t.Parts, uint32(t.part.Sum64()))
	}
	t.part.Reset()
}

// write takes a part. Its kind keeps parts from running together.
func (t *tap) write(kind byte, b []byte) {
	if kind == 't' && containsReminder(b) && len(t.Reminders) < maxTraceParts {
		t.Reminders = append(t.Reminders, int32(t.at))
	}
	t.bytes([]byte{kind})
	t.bytes(b)
}

func (t *tap) bytes(b []byte) {
	if t.until > 0 {
		low, high := max(t.from-t.at, 0), min(t.until-t.at, len(b))
		if low < high {
			t.text = append(t.text, b[low:high]...)
		}
		t.at += len(b)
		return
	}
	t.at += len(b)
	_, _ = t.part.Write(b) // never fails
	if len(t.Blocks) >= maxTraceBlocks {
		return
	}
	for len(b) > 0 {
		if len(t.block) == 0 && len(b) >= TraceBlock {
			t.Blocks = append(t.Blocks, uint32(maphash.Bytes(traceSeed, b[:TraceBlock])))
			b = b[TraceBlock:]
			continue
		}
		n := min(TraceBlock-len(t.block), len(b))
		t.block, b = append(t.block, b[:n]...), b[n:]
		if len(t.block) == TraceBlock {
			t.Blocks = append(t.Blocks, uint32(maphash.Bytes(traceSeed, t.block)))
			t.block = t.block[:0]
		}
	}
}

// Section names a part of a prompt.
type Section uint8

// The sections, in the order in which engines read them.
const (
	SectionTools Section = iota
	SectionSystem
	SectionMessage
)

// Break is where a prompt stops being the continuation of another one.
type Break struct {
	Section Section
	Index   int // of the tool or of the message, from 0
	Byte    int // where the first block that differs begins, or the message if later, in bytes of system text and messages; -1 in tools
	Block   int // the number of that block, in blocks of TraceBlock bytes; -1 in tools
	// SameTools is true when the tools are the same ones in another order.
	SameTools bool
	// Reminder is true when a reminder began in that block of the former prompt.
	Reminder bool
	// Shorter is true when the new prompt ends before the former one did.
	Shorter bool
}

// Continues compares a prompt with the one of the turn before; nil when it is a
// continuation of it.
func (t *Trace) Continues(before *Trace) *Break {
	if !slices.Equal(before.Tools, t.Tools) {
		b := &Break{Section: SectionTools, Byte: -1, Block: -1, SameTools: sameSet(before.Tools, t.Tools)}
		for b.Index < min(len(before.Tools), len(t.Tools)) && before.Tools[b.Index] == t.Tools[b.Index] {
			b.Index++
		}
		return b
	}
	part := 0
	for part < min(len(before.Parts), len(t.Parts)) && before.Parts[part] == t.Parts[part] {
		part++
	}
	if part == len(before.Parts) {
		return nil
	}
	at := 0
	for at < min(len(before.Blocks), len(t.Blocks)) && before.Blocks[at] == t.Blocks[at] {
		at++
	}
	b := &Break{Section: SectionSystem, Block: at, Byte: max(at*TraceBlock, int(before.Starts[part])), Shorter: part == len(t.Parts)}
	if part > 0 {
		b.Section, b.Index = SectionMessage, part-1
	}
	end := b.Byte + TraceBlock
	for _, r := range before.Reminders {
		b.Reminder = b.Reminder || r >= before.Starts[part] && int(r) < end
	}
	return b
}

// sameSet tells whether two lists hold the same hashes in any order.
func sameSet(a, b []uint64) bool {
	if len(a) != len(b) {
		return false
	}
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}
