package supervisor

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
)

const (
	portCount      = 1000 // ports from the base that are tried
	internalStride = 100  // internal ports of one engine
	// PyTorch's own default rendezvous ports, which other programs use as well.
	torchFirst, torchLast = 29500, 29510
)

// lease is what a replica holds while its engine lives.
type lease struct {
	port     int // of the HTTP server
	internal int // first of internalStride ports that the engine uses itself
}

// ports hands out ports so that no two replicas ever share one.
type ports struct {
	base int

	mu    sync.Mutex
	taken map[ReplicaID]lease
	last  map[ReplicaID]int // so that a replica gets its port again
}

func newPorts(base int) *ports {
	return &ports{base: base, taken: map[ReplicaID]lease{}, last: map[ReplicaID]int{}}
}

// take finds a port on which nobody listens and internal ports that no other replica
// has. avoid is a port that turned out to be taken although it could be bound; 0 means
// none. The search begins behind it: whoever took it takes those below as well, as another
// daemon with the same first port does.
func (p *ports) take(id ReplicaID, avoid int) (lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := map[int]bool{avoid: true}
	for _, l := range p.taken {
		used[l.port], used[l.internal] = true, true
	}
	port := 0
	if last := p.last[id]; last != 0 && !used[last] && free(last) {
		port = last
	}
	behind := max(0, avoid+1-p.base)
	for i := 0; port == 0 && i < portCount; i++ {
		if n := p.base + (behind+i)%portCount; !used[n] && free(n) {
			port = n
		}
	}
	if port == 0 {
		return lease{}, fmt.Errorf("none of the ports %d to %d of the loopback address is free; end what holds them or choose another first engine port", p.base, p.base+portCount-1)
	}
	internal := p.base + portCount
	for used[internal] || (internal <= torchLast && torchFirst < internal+internalStride) {
		internal += internalStride
	}
	if internal+internalStride > 65536 {
		return lease{}, fmt.Errorf("there are no internal ports left above %d for another engine; choose a lower first engine port", p.base+portCount)
	}
	l := lease{port: port, internal: internal}
	p.taken[id], p.last[id] = l, port
	return l, nil
}

// give takes the ports back, when the last process of the replica is gone.
func (p *ports) give(id ReplicaID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, id)
}

// free says whether the port can be bound at this moment.
func free(port int) bool {
	var c net.ListenConfig
	l, err := c.Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// cards lends cards to replicas: an engine that starts while another still holds the
// memory of its card mis-sizes its cache or dies.
type cards struct {
	mu     sync.Mutex
	holder map[string]ReplicaID
	freed  chan struct{} // closed, and replaced, when cards came back
}

func newCards() *cards {
	return &cards{holder: map[string]ReplicaID{}, freed: make(chan struct{})}
}

// take gives all of the cards to the replica, or none: then it names one that is held,
// and freed is closed when it is worth asking again.
func (c *cards) take(id ReplicaID, uuids []string) (held string, by ReplicaID, freed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, uuid := range uuids {
		if h, ok := c.holder[uuid]; ok && h != id {
			return uuid, h, c.freed
		}
	}
	for _, uuid := range uuids {
		c.holder[uuid] = id
	}
	return "", ReplicaID{}, nil
}

// give takes back whatever the replica holds.
func (c *cards) give(id ReplicaID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uuid, h := range c.holder {
		if h == id {
			delete(c.holder, uuid)
		}
	}
	close(c.freed)
	c.freed = make(chan struct{})
}
