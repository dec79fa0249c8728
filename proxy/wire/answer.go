package wire

import "slices"

// maxAnswer bounds the bytes of an answer that is collected, 4 MiB. The chain goes
// on without a longer one.
const maxAnswer = 4 << 20

// Answer collects an answer as it passes, to know the chain hash after it. Hand it
// to a [Stream], or a whole body to [Answer.Read]. The zero Answer is ready. Only
// the first of several choices counts.
type Answer struct {
	blocks []block  // texts and calls of a streamed message, in order
	items  []Digest // finished messages
	size   int      // bytes collected
}

// block is one text or one call of a tool.
type block struct {
	index int // place in the answer, as the surface counts
	call  bool
	name  []byte
	text  []byte // the text, or the arguments
}

// Digests returns the messages of the answer as a client will echo them; nil when
// there are none or the answer is too long. Ask when the answer is complete.
func (a *Answer) Digests() []Digest {
	if a.size > maxAnswer {
		return nil
	}
	if len(a.blocks) == 0 {
		return a.items
	}
	c := newCanon()
	defer canonPool.Put(c)
	c.begin(roleAssistant)
	for _, b := range a.blocks {
		if b.call {
			c.put('n', b.name)
			c.arguments(b.text)
			c.dirty = true
		} else {
			c.plain(b.text)
		}
	}
	if !c.dirty {
		return a.items
	}
	return append(slices.Clip(a.items), c.sum())
}

// Read takes a whole answer.
func (a *Answer) Read(api API, body []byte) {
	c := newCanon()
	defer canonPool.Put(c)
	switch api {
	case APIChat:
		choices, _ := member(body, "choices")
		if e := elementsOf(choices); e.next() {
			message, _ := member(e.value(), "message")
			c.message(message)
			a.take(c)
		}
	case APIMessages:
		c.message(body)
		a.take(c)
	case APIResponses:
		a.output(c, body)
	}
}

// take ends the message that c has hashed.
func (a *Answer) take(c *canon) {
	if c.dirty {
		a.items = append(a.items, c.sum())
	}
}

// output takes the items of a response.
func (a *Answer) output(c *canon, response []byte) {
	out, _ := member(response, "output")
	for e := elementsOf(out); e.next(); {
		c.item(e.value())
		a.take(c)
	}
}

// event takes one event of a stream.
func (a *Answer) event(api API, e *event) {
	if a.size > maxAnswer {
		return
	}
	switch api {
	case APIChat:
		a.chunk(e.data)
	case APIMessages:
		a.messageEvent(e)
	case APIResponses:
		if t := typeOf(e); t == "response.completed" || t == "response.incomplete" {
			c := newCanon()
			defer canonPool.Put(c)
			response, _ := member(e.data, "response")
			a.output(c, response)
		}
	}
}

// chunk takes a chunk of a chat: text, and pieces of calls by their index.
func (a *Answer) chunk(data []byte) {
	choices, _ := member(data, "choices")
	for e := elementsOf(choices); e.next(); {
		if index, ok := member(e.value(), "index"); ok && string(index) != "0" {
			continue
		}
		delta, _ := member(e.value(), "delta")
		if content, _ := member(delta, "content"); len(content) > 2 {
			a.add(a.block(-1, false), content)
		}
		calls, _ := member(delta, "tool_calls")
		for k := elementsOf(calls); k.next(); {
			index, _ := member(k.value(), "index")
			f, _ := member(k.value(), "function")
			a.call(max(intOf(index), 0), f, "arguments")
		}
	}
}

// call takes a piece of a call of a tool.
func (a *Answer) call(index int, obj []byte, arguments string) {
	b := a.block(index, true)
	if name := memberText(obj, "name"); name != "" {
		b.name = []byte(name)
	}
	args, _ := member(obj, arguments)
	a.add(b, args)
}

// messageEvent takes an event of the messages surface.
func (a *Answer) messageEvent(e *event) {
	t := typeOf(e)
	if t != "content_block_start" && t != "content_block_delta" {
		return
	}
	raw, _ := member(e.data, "index")
	index := max(intOf(raw), 0)
	if t == "content_block_start" {
		start, _ := member(e.data, "content_block")
		switch memberText(start, "type") {
		case "text":
			text, _ := member(start, "text")
			a.add(a.block(index, false), text)
		case "tool_use":
			a.call(index, start, "")
		}
		return
	}
	delta, _ := member(e.data, "delta")
	switch memberText(delta, "type") {
	case "text_delta":
		text, _ := member(delta, "text")
		a.add(a.block(index, false), text)
	case "input_json_delta":
		text, _ := member(delta, "partial_json")
		a.add(a.block(index, true), text)
	}
}

// block returns the block with an index; a new one goes to its place in order.
func (a *Answer) block(index int, call bool) *block {
	i, found := slices.BinarySearchFunc(a.blocks, index, func(b block, n int) int { return b.index - n })
	if !found {
		a.blocks = slices.Insert(a.blocks, i, block{index: index, call: call})
	}
	return &a.blocks[i]
}

// add appends a JSON string to a block; other values are left out.
func (a *Answer) add(b *block, raw []byte) {
	if len(raw) < 2 || raw[0] != '"' {
		return
	}
	a.size += len(raw)
	b.text = appendUnescaped(b.text, raw[1:len(raw)-1])
}
