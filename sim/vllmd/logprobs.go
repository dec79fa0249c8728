package vllmd

import (
	"encoding/json"
	"strconv"
	"strings"
)

// mostLogprobs is how many alternatives vLLM gives at most for a token.
const mostLogprobs = 20

// candidate is a token that could have stood in a place, with its logarithmic
// probability. The simulation does not sample, so these are made up: the token itself is
// always the likeliest.
type candidate struct {
	text string
	prob pyFloat
}

// candidatesFor returns the token and its n-1 best alternatives; at least the token.
func candidatesFor(id uint32, text string, n int) []candidate {
	list := []candidate{{text, -0.25 - pyFloat(id%64)/256}}
	for i := 1; len(list) < n; i++ {
		other := " " + words[(int(id)+i)%len(words)]
		if other != text {
			list = append(list, candidate{other, list[len(list)-1].prob - 0.5})
		}
	}
	return list
}

// tokenAt returns the id and the text of an output token as log probabilities name it.
func (q *sequence) tokenAt(i int) (uint32, string) {
	id := q.answer.ids[i]
	if text := q.answer.pieces[i]; text != "" {
		return id, text
	}
	return id, spell(id)
}

// chatLogprob is one token of the chat API's log probabilities.
type chatLogprob struct {
	Token   string         `json:"token"`
	Logprob pyFloat        `json:"logprob"`
	Bytes   []int          `json:"bytes"`
	Top     *[]chatLogprob `json:"top_logprobs,omitempty"`
}

func (c candidate) chat() chatLogprob {
	bytes := make([]int, len(c.text))
	for i := range len(c.text) {
		bytes[i] = int(c.text[i])
	}
	return chatLogprob{Token: c.text, Logprob: c.prob, Bytes: bytes}
}

// chatLogprobs encodes those of the output tokens from up to, not including, to; null
// when the client did not ask.
func (c *call) chatLogprobs(q *sequence, from, to int) json.RawMessage {
	if c.logprobs < 0 {
		return jsonNull
	}
	content := make([]chatLogprob, 0, to-from)
	for i := from; i < to; i++ {
		id, text := q.tokenAt(i)
		list := candidatesFor(id, text, c.logprobs)
		entry, top := list[0].chat(), []chatLogprob{}
		for _, other := range list[:min(len(list), c.logprobs)] {
			top = append(top, other.chat())
		}
		entry.Top = &top
		content = append(content, entry)
	}
	return mustJSON(struct {
		Content []chatLogprob `json:"content"`
	}{content})
}

// textLogprobs are those of the completions API.
type textLogprobs struct {
	Offsets []int                `json:"text_offset"`
	Probs   []*pyFloat           `json:"token_logprobs"`
	Tokens  []string             `json:"tokens"`
	Top     []map[string]pyFloat `json:"top_logprobs"`
}

// completionLogprobs encodes those of the output tokens from up to, not including, to,
// and before them those of an echoed prompt.
func (c *call) completionLogprobs(q *sequence, from, to int) json.RawMessage {
	if c.logprobs < 0 {
		return jsonNull
	}
	var l textLogprobs
	at := 0
	add := func(id uint32, text string, known bool) {
		l.Offsets, l.Tokens = append(l.Offsets, at), append(l.Tokens, text)
		at += len(text)
		if !known { // nothing stands before the first token of a prompt
			l.Probs, l.Top = append(l.Probs, nil), append(l.Top, nil)
			return
		}
		list := candidatesFor(id, text, c.logprobs)
		top := make(map[string]pyFloat, len(list))
		for _, other := range list {
			top[other.text] = other.prob
		}
		l.Probs, l.Top = append(l.Probs, &list[0].prob), append(l.Top, top)
	}
	if q.echoed != "" && from == 0 {
		for i, id := range q.prompt {
			add(id, spell(id), i > 0)
		}
	} else {
		at = len(q.echoed) + len(strings.Join(q.answer.pieces[:from], ""))
	}
	for i := from; i < to && !q.silent; i++ {
		id, text := q.tokenAt(i)
		add(id, text, true)
	}
	return mustJSON(l)
}

// promptLogprob is one candidate for a place in a prompt.
type promptLogprob struct {
	Logprob pyFloat `json:"logprob"`
	Rank    int     `json:"rank"`
	Decoded string  `json:"decoded_token"`
}

// promptLogprobsOf encodes those of a prompt's tokens by token id; null when the client
// did not ask.
func (c *call) promptLogprobsOf(q *sequence) json.RawMessage {
	if c.promptLogprobs < 0 {
		return jsonNull
	}
	list := make([]map[string]promptLogprob, len(q.prompt))
	for i, id := range q.prompt {
		if i == 0 {
			continue // null: nothing stands before it
		}
		list[i] = make(map[string]promptLogprob)
		for rank, other := range candidatesFor(id, spell(id), c.promptLogprobs) {
			key := id
			if rank > 0 {
				key = tokenID(other.text)
			}
			list[i][strconv.FormatUint(uint64(key), 10)] = promptLogprob{other.prob, rank + 1, other.text}
		}
	}
	return mustJSON(list)
}
