package vllmd

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

// tokenize appends the tokens of text. It looks only backwards, so a longer text
// begins with the tokens of a shorter one, but for the shorter one's last token. A
// token is at most one space followed by a run of one class.
func tokenize(dst []uint32, text string) []uint32 {
	for start := 0; start < len(text); {
		end := start + 1
		if text[start] == ' ' && end < len(text) && text[end] != ' ' {
			end++
		}
		for end < len(text) && end-start < longestToken && class(text[end]) == class(text[end-1]) && text[end] != ' ' {
			end++
		}
		dst = append(dst, tokenID(text[start:end]))
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
	return firstWord + h%(vocabulary-firstWord)
}
