package server

import (
	"sync"

	"github.com/lmwarden/lmwarden/supervisor"
)

// drained is the set of replicas that a person took out of rotation. It holds for one
// life of a replica: a restart gives an empty cache and begins anew.
type drained struct {
	mu    sync.Mutex
	lives map[supervisor.ReplicaID]uint64 // incarnation at the time
}

func newDrained() *drained { return &drained{lives: make(map[supervisor.ReplicaID]uint64)} }

// set takes a replica out or puts it back.
func (d *drained) set(st supervisor.Status, out bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if out {
		d.lives[st.ID] = st.Incarnation
	} else {
		delete(d.lives, st.ID)
	}
}

// has says whether a replica is out of rotation.
func (d *drained) has(st supervisor.Status) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	life, out := d.lives[st.ID]
	return out && life == st.Incarnation
}
