package wire

import "bytes"

// An engine that is being stopped answers new requests as if they had been aborted:
// status 200, and not a token. Chat and completions say finish_reason "abort" then. The
// other surfaces have no word for it: a message ends without content and a response
// without output, and both have counted 0 tokens. An answer that ended by itself has
// counted one at least, its end.

var abortReason = []byte(`"abort"`)

// abortedWhole says whether a whole answer was aborted before its first token.
func abortedWhole(api API, body []byte) bool {
	var produced, abort bool
	switch api {
	case APIChat, APICompletions:
		if !bytes.Contains(body, abortReason) {
			return false
		}
		produced, abort = chunkOf(body)
	case APIMessages:
		content, _ := member(body, "content")
		produced, abort = holdsContent(content), countedNothing(api, body)
	case APIResponses:
		produced, abort = holdsOutput(body), countedNothing(api, body)
	}
	return abort && !produced
}

// toldBy says whether an event holds anything that an engine made, and whether it says
// that the answer was aborted. What is not understood counts as made.
func toldBy(api API, e *event) (produced, abort bool) {
	switch api {
	case APIMessages:
		return messageEventOf(e)
	case APIResponses:
		return responseEventOf(e)
	}
	return chunkOf(e.data)
}

// messageEventOf is toldBy for the messages surface.
func messageEventOf(e *event) (produced, abort bool) {
	switch typeOf(e) {
	case "message_start", "ping":
		return false, false
	case "message_delta":
		abort = countedNothing(APIMessages, e.data)
		return !abort, abort
	}
	return true, false
}

// responseEventOf is toldBy for the responses surface. Items and parts of a text are
// announced before there is any, so they say nothing; those of a call do.
func responseEventOf(e *event) (produced, abort bool) {
	switch typeOf(e) {
	case "response.created", "response.in_progress", "response.queued":
		return false, false
	case "response.completed", "response.incomplete":
		response, _ := member(e.data, "response")
		abort = !holdsOutput(response) && countedNothing(APIResponses, response)
		return !abort, abort
	}
	kind := e.name
	if len(kind) == 0 {
		kind = []byte(memberText(e.data, "type"))
	}
	switch {
	case bytes.HasSuffix(kind, []byte(".delta")):
		delta, _ := member(e.data, "delta")
		return !blank(delta), false
	case bytes.HasPrefix(kind, []byte("response.output_item.")):
		item, _ := member(e.data, "item")
		return holdsItem(item), false
	case bytes.HasPrefix(kind, []byte("response.content_part.")), bytes.HasSuffix(kind, []byte("_text.done")):
		return false, false
	}
	return true, false
}

// countedNothing says whether an engine states that it made no token.
func countedNothing(api API, obj []byte) bool {
	usage, _ := member(obj, "usage")
	u := NoUsage()
	u.read(api, usage)
	return u.Completion == 0
}

// holdsOutput says whether a response has output.
func holdsOutput(response []byte) bool {
	output, _ := member(response, "output")
	for in := elementsOf(output); in.next(); {
		if holdsItem(in.value()) {
			return true
		}
	}
	return false
}

// holdsItem says whether an item of a response is more than an empty message.
func holdsItem(item []byte) bool {
	switch memberText(item, "type") {
	case "message", "reasoning":
		content, _ := member(item, "content")
		return holdsContent(content)
	}
	return true
}

// holdsContent says whether parts of a message hold anything. Other parts than texts
// do by being there.
func holdsContent(parts []byte) bool {
	for in := elementsOf(parts); in.next(); {
		part := in.value()
		text, isText := member(part, "text")
		if !isText {
			text, isText = member(part, "thinking")
		}
		if !isText || !blank(text) {
			return true
		}
	}
	return false
}

// chunkOf is toldBy for a chunk or a whole answer of chat and completions.
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
	case `""`, "null", "[]", "{}", "":
		return true
	}
	return false
}
