package engine

import "slices"

// oracle is the prefix cache of one request at a time, written as plainly as its rules
// are stated: the free blocks are a list of names, "" for a block that cannot be found.
type oracle struct {
	size int
	free []string
}

func newOracle(blocks, size int) *oracle {
	return &oracle{size: size, free: make([]string, blocks-1)} // one is the null block
}

// name of the block that ends a prefix.
func (o *oracle) name(tokens []uint32) string {
	b := make([]byte, 0, 4*len(tokens))
	for _, t := range tokens {
		b = append(b, byte(t), byte(t>>8), byte(t>>16), byte(t>>24))
	}
	return string(b)
}

// serve runs a request to its end and returns its cached tokens.
func (o *oracle) serve(tokens []uint32, prompt int) int {
	size := o.size
	var held []string
	for n := size; n <= prompt-1; n += size {
		i := slices.Index(o.free, o.name(tokens[:n]))
		if i < 0 {
			break
		}
		held = append(held, o.free[i])
		o.free = slices.Delete(o.free, i, i+1)
	}
	hits := len(held)
	computed := len(tokens) - 1 // the last output token is never computed
	for n := hits * size; n < computed; n += size {
		o.free = o.free[1:]
		name := ""
		if n+size <= computed {
			name = o.name(tokens[:n+size])
			if slices.Contains(o.free, name) || slices.Contains(held, name) {
				name = "" // no second entry for a hash
			}
		}
		held = append(held, name)
	}
	var front []string
	for _, name := range slices.Backward(held) {
		if name == "" {
			front = append(front, name)
		} else {
			o.free = append(o.free, name)
		}
	}
	o.free = append(front, o.free...)
	return hits * size
}
