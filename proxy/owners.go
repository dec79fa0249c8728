package proxy

import (
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// ownersBound is how many stored responses are remembered; the oldest go first.
const ownersBound = 16384

// owner says who holds a stored response: only the engine that made it can continue,
// show or cancel it.
type owner struct {
	model        string
	replica      ReplicaID
	incarnation  uint64 // of the replica: the next life knows nothing of the response
	requested    string // name of the model, as the client wrote it
	conversation route.Key
}

// ownerKey names a response within its tenant: nobody reaches another's.
type ownerKey struct{ tenant, id string }

// owners remembers which replica made a stored response.
type owners struct {
	mu   sync.Mutex // guards what follows
	of   map[ownerKey]owner
	ring []ownerKey // in order of coming, from next on
	next int
}

// newOwners returns an empty memory.
func newOwners() *owners {
	return &owners{of: make(map[ownerKey]owner), ring: make([]ownerKey, ownersBound)}
}

// put remembers a response.
func (o *owners) put(tenant, id string, who owner) {
	if id == "" || len(id) > longestName {
		return
	}
	key := ownerKey{tenant, id}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.of[key]; !known {
		delete(o.of, o.ring[o.next])
		o.ring[o.next] = key
		o.next = (o.next + 1) % len(o.ring)
	}
	o.of[key] = who
}

// get returns who holds a response; false when that is not known.
func (o *owners) get(tenant, id string) (owner, bool) {
	if id == "" {
		return owner{}, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	who, ok := o.of[ownerKey{tenant, id}]
	return who, ok
}

// remember notes that the replica of the exchange made a response.
func (x *exchange) remember(id string) {
	x.p.owners.put(x.tenant, id, owner{
		model:        x.model.name,
		replica:      x.place.target.ID,
		incarnation:  x.place.target.Route.Incarnation,
		requested:    x.requested,
		conversation: x.place.decision.Conversation,
	})
}

// carryToOwner takes the request for a stored response to the replica that holds it. A look
// at one counts for its key as any request does: it may be a stream that stays open. What
// ends work is always let in.
func (x *exchange) carryToOwner() error {
	if err := x.authorize(); err != nil {
		return err
	}
	if x.api == wire.APIResponseGet {
		if err := x.limit(x.table.limiters[x.tenant]); err != nil {
			return err
		}
	}
	if err := x.readBody(); err != nil {
		return err
	}
	id := responseID(x.r)
	who, ok := x.p.owners.get(x.tenant, id)
	if !ok {
		return &unknownResponseError{id}
	}
	x.requested = who.requested
	x.model = x.table.named[who.model]
	if x.model == nil {
		return &unknownResponseError{id}
	}
	index, holds := x.model.holder(who.replica, who.incarnation)
	if !holds {
		return &unknownResponseError{id}
	}
	if !x.model.visit(time.Now(), index, &x.place) {
		return &holderRestsError{index, id, x.model.restsFor(time.Now())}
	}
	return x.forward()
}
