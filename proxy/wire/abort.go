package wire

import "bytes"

// An engine that is being stopped answers new requests as if they had been aborted:
// status 200, finish_reason "abort", and not a token.

var abortReason = []byte(`"abort"`)

// Aborted looks at the beginning of a stream of chat or completions, as far as it has
// come, for an answer that was aborted before its first token. Until more is false that
// cannot be told; there is nothing in it yet that a client would miss.
func Aborted(api API, said []byte) (aborted, more bool) {
	if api != APIChat && api != APICompletions {
		return false, false
	}
	var c cutter
	var ev event
	for {
		n := c.cut(said)
		if n < 0 {
			return false, true
		}
		ev.parse(said[:n])
		said = said[n:]
		if !ev.has {
			continue
		}
		produced, abort := chunkOf(ev.data)
		if produced || abort {
			return abort && !produced, false
		}
	}
}

// AbortedWhole says whether a whole answer of chat or completions was aborted before its
// first token.
func AbortedWhole(api API, body []byte) bool {
	if api != APIChat && api != APICompletions || !bytes.Contains(body, abortReason) {
		return false
	}
	produced, abort := chunkOf(body)
	return abort && !produced
}

// chunkOf says whether a chunk or a whole answer holds anything that an engine made, and
// whether it says that a choice was aborted. What is not understood counts as made.
func chunkOf(data []byte) (produced, abort bool) {
	choices, ok := member(data, "choices")
	if !ok || len(choices) == 0 || choices[0] != '[' {
		return true, false // an error, or an end marker
	}
	for in := elementsOf(choices); in.next(); {
		p, a := choiceOf(in.value())
		produced, abort = produced || p, abort || a
	}
	return produced, abort
}

// choiceOf is chunkOf for one choice.
func choiceOf(choice []byte) (produced, abort bool) {
	for m := membersOf(choice, 0); m.next(); {
		v := choice[m.val.Start:m.val.End]
		switch string(m.key) {
		case "finish_reason":
			abort = bytes.Equal(v, abortReason)
			produced = produced || v[0] == '"' && !abort
		case "text":
			produced = produced || !blank(v)
		case "delta", "message":
			for in := membersOf(v, 0); in.next(); {
				if string(in.key) != "role" && !blank(v[in.val.Start:in.val.End]) {
					produced = true
				}
			}
		}
	}
	return produced, abort
}

// blank says whether a value holds nothing.
func blank(v []byte) bool {
	switch string(v) {
	case `""`, "null", "[]", "{}":
		return true
	}
	return false
}
