package vllmd

import (
	"strings"
	"sync/atomic"
)

// Token ids below firstWord are special.
const (
	tokStart   uint32 = 1 // begins a message
	tokEnd     uint32 = 2 // ends a message, and an answer that ends by itself
	tokImage   uint32 = 3 // stands for an image or another part that is no text
	firstWord  uint32 = 16
	vocabulary        = 151_936
)

// longestToken is the most bytes that one token covers. Words of ordinary text then
// cost about one token for each four bytes.
const longestToken = 6

// class tells letters and digits, spaces, and everything else apart.
func class(b byte) int {
	switch {
	case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b >= 0x80:
		return 0
	case b == ' ' || b == '\n' || b == '\t' || b == '\r':
		return 1
	default:
		return 2
	}
}

// tokenEnd returns where the token ends that begins at start. It looks only backwards,
// so a longer text begins with the tokens of a shorter one, but for the shorter one's
// last token. A token is at most one space followed by a run of one class.
func tokenEnd(text string, start int) int {
	end := start + 1
	if text[start] == ' ' && end < len(text) && text[end] != ' ' {
		end++
	}
	for end < len(text) && end-start < longestToken && class(text[end]) == class(text[end-1]) && text[end] != ' ' {
		end++
	}
	return end
}

// tokenize appends the tokens of text.
func tokenize(dst []uint32, text string) []uint32 {
	for start := 0; start < len(text); {
		end := tokenEnd(text, start)
		dst = append(dst, tokenID(text[start:end]))
		start = end
	}
	return dst
}

// split appends the texts of the tokens of text.
func split(dst []string, text string) []string {
	for start := 0; start < len(text); {
		end := tokenEnd(text, start)
		dst = append(dst, text[start:end])
		start = end
	}
	return dst
}

// tokenID returns the id of one token's text (FNV-1a, folded into the vocabulary). Two
// texts may share an id; that a whole block of them does by chance is beyond hope.
func tokenID(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	id := firstWord + h%(vocabulary-firstWord)
	if spellings[id].Load() == nil {
		spellings[id].CompareAndSwap(nil, new(strings.Clone(s)))
	}
	return id
}

// spellings holds the text of each token that was met, so that ids can be turned back:
// a hash has no way back of its own. Of two texts with one id the first stays.
var spellings [vocabulary]atomic.Pointer[string]

// spell returns the text of a token. One that never was in a text has a word of ours.
func spell(id uint32) string {
	switch id {
	case tokStart:
		return "<|im_start|>"
	case tokEnd:
		return "<|im_end|>"
	case tokImage:
		return "<|image_pad|>"
	}
	if id < vocabulary {
		if s := spellings[id].Load(); s != nil {
			return *s
		}
	}
	return " " + words[int(id)%len(words)]
}

// detokenize returns the text of tokens.
func detokenize(ids []uint32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(spell(id))
	}
	return b.String()
}
