package proxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// spoiled is what a block is filled with when it is given back.
const spoiled = 0xdb

// rubbish spoils a block. In all tests of this package whoever reads a body that was given
// back reads it, and races with it, which the race detector sees.
func rubbish(b []byte) {
	for i := range b {
		b[i] = spoiled
	}
}

// A block has the room that is asked for and little more, and its class tells its size.
func TestBlocksFit(t *testing.T) {
	sizes := make(map[int]int64)
	for n := int64(1); n <= longestBlock+2; n += 1 + n/97 {
		class, size := blockClass(n)
		if class >= len(blocks) || size < n || n > leastBlock && size-n > size/5 {
			t.Fatalf("%d bytes are in class %d of %d bytes", n, class, size)
		}
		if class < 0 {
			if n <= longestBlock || size != n {
				t.Fatalf("%d bytes: not kept, with %d bytes", n, size)
			}
			continue
		}
		if have, seen := sizes[class]; seen && have != size {
			t.Fatalf("class %d has %d and %d bytes", class, have, size)
		}
		sizes[class] = size
	}
	if class, size := blockClass(longestBlock); class != len(blocks)-1 || size != longestBlock || len(sizes) != len(blocks) {
		t.Errorf("the longest block has class %d and %d bytes; %d of %d classes are used", class, size, len(sizes), len(blocks))
	}
	for range 3 {
		k := takeBlock(70_000)
		if len(k.b) != 0 || cap(k.b) != 80<<10 {
			t.Errorf("got %d of %d bytes", len(k.b), cap(k.b))
		}
		k.give()
	}
	(*block)(nil).give()
}

// The watch on prompts owns what it is handed until it has looked, and gives back what it
// has no room for.
func TestWatchOwnsItsBodies(t *testing.T) {
	w := newPrefixWatch()
	turn := func() prompt {
		text := agentTurn("s", "", "hi")
		k := takeBlock(int64(len(text)))
		p := prompt{block: k, size: int64(len(text))}
		if err := p.scan.Scan(append(k.b, text...)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	kept, refused := turn(), turn()
	w.offer(kept)
	refused.size = prefixBytes
	w.offer(refused)
	if b := kept.scan.Body(); b[0] != '{' {
		t.Errorf("a body that waits was given back: it begins with %q", b[0])
	}
	if b := refused.scan.Body(); b[0] != spoiled {
		t.Errorf("a body that finds no room was not given back: it begins with %q", b[0])
	}
	w.take(<-w.queue)
	if b := kept.scan.Body(); b[0] != spoiled {
		t.Errorf("a body that was looked at was not given back: it begins with %q", b[0])
	}
}

// An engine may answer before it has read the request. Its body is not given back then,
// though the exchange needs it no more when the answer is passed on.
func TestEarlyAnswerReadsItsOwnBody(t *testing.T) {
	const size = 16 << 20 // more than the buffers between two sockets hold
	passed := make(chan struct{})
	front, client, _ := overTCP(t, over(1), func(w http.ResponseWriter, r *http.Request) {
		ctl := http.NewResponseController(w)
		if err := ctl.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "early, ")
		_ = ctl.Flush()
		<-passed
		body, err := io.ReadAll(r.Body)
		if err != nil || bytes.Count(body, []byte("e")) < size || bytes.IndexByte(body, spoiled) >= 0 {
			t.Errorf("of %d bytes %d are the client's (%v)", len(body), bytes.Count(body, []byte("e")), err)
		}
		_, _ = io.WriteString(w, "late")
	})
	body := `{"model":"m","input":"` + strings.Repeat("e", size) + `"}`
	resp, err := client.Post(front+"/v1/embeddings", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, len("early, "))); err != nil {
		t.Fatal(err)
	}
	close(passed)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "late" {
		t.Errorf("the answer ends with %q (%v)", rest, err)
	}
}
