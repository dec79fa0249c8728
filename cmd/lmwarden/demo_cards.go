package main

import (
	"context"
	"sync"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// demoCards knows how busy each simulated card is, from what its engine reports. It
// is safe for concurrent use.
type demoCards struct {
	mu   sync.Mutex
	busy map[string]float64 // by UUID; absent when no engine runs on the card
}

func newDemoCards() *demoCards { return &demoCards{busy: make(map[string]float64)} }

// load returns how busy a card is, 0 to 1, or -1 without an engine.
func (d *demoCards) load(uuid string) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if busy, ok := d.busy[uuid]; ok {
		return busy
	}
	return -1
}

// update takes over what the replicas do. A card works fully while anything runs on
// it; halving the way to the new value smooths that as the driver's own average does.
func (d *demoCards) update(replicas []*lmwardenv1.Replica, running map[uint32]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := make(map[string]float64)
	for _, r := range replicas {
		if r.GetPid() == 0 {
			continue
		}
		now := 0.0
		if running[r.GetIndex()] {
			now = 0.98
		}
		for _, uuid := range r.GetGpus() {
			held[uuid] = (d.busy[uuid] + now) / 2
		}
	}
	d.busy = held
}

// followLoad keeps the cards' figures in step with the engines until ctx ends.
func (b *demoBox) followLoad(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		replicas, err := b.cs.replicas.ListReplicas(ctx, &lmwardenv1.ListReplicasRequest{Model: demoModel})
		if err != nil {
			continue // the daemon is stopping, or the model was removed
		}
		card, err := b.cs.routing.GetRouting(ctx, &lmwardenv1.GetRoutingRequest{Model: demoModel})
		if err != nil {
			continue
		}
		running := make(map[uint32]bool)
		for _, r := range card.GetCard().GetReplicas() {
			running[r.GetIndex()] = r.GetRunning() > 0
		}
		b.cards.update(replicas.GetReplicas(), running)
	}
}
