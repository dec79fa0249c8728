package contract

import "slices"

// cacheModel is the prefix cache of an engine that serves one request at a time, as
// its rules are written down and nothing else: no blocks, only the queue of the names
// of free ones. A name is the text of the whole prefix that a block ends.
type cacheModel struct {
	free []string // the next to be taken first; "" can never be found again
}

func newCacheModel() *cacheModel {
	return &cacheModel{make([]string, blocks-1)} // the null block is never given out
}

// prefix names the block that ends the first n tokens.
func prefix(tokens []int, n int) string {
	name := make([]byte, 0, 3*n)
	for _, id := range tokens[:n] {
		name = append(name, byte(id), byte(id>>8), byte(id>>16))
	}
	return string(name)
}

// serve computes a request and returns how many tokens of its prompt are found. The
// tokens are those of the prompt and, after them, of the output.
func (m *cacheModel) serve(tokens []int, prompt int) (cached int) {
	// A chain of full blocks is found, but never the prompt's last token.
	var held []string
	for end := blockSize; end < prompt; end += blockSize {
		at := slices.Index(m.free, prefix(tokens, end))
		if at < 0 {
			break
		}
		held = append(held, m.free[at])
		m.free = slices.Delete(m.free, at, at+1)
	}
	cached = len(held) * blockSize
	// The rest gets blocks from the head. The last output token is never computed.
	for done := cached; done < len(tokens)-1; done += blockSize {
		m.free = m.free[1:]
		name := ""
		if end := done + blockSize; end <= len(tokens)-1 {
			name = prefix(tokens, end)
		}
		if slices.Contains(m.free, name) {
			name = "" // another block has this name already
		}
		held = append(held, name)
	}
	// They are freed from the last to the first: named ones to the tail, others to the
	// head of the queue.
	slices.Reverse(held)
	isNameless := func(name string) bool { return name == "" }
	nameless := slices.DeleteFunc(slices.Clone(held), func(name string) bool { return !isNameless(name) })
	m.free = slices.Concat(nameless, m.free, slices.DeleteFunc(held, isNameless))
	return cached
}
