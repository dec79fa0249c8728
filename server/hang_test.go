package server

import (
	"context"
	"testing"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/supervisor/gpu"
)

// hungDriver is a driver that answers nobody, and holds up who asks it until it is let go,
// for however long.
type hungDriver struct{ asked, letGo chan struct{} }

func (h hungDriver) Read(ctx context.Context) (gpu.Inventory, error) {
	select {
	case h.asked <- struct{}{}:
	default:
	}
	<-h.letGo
	<-ctx.Done()
	return gpu.Inventory{}, gpu.ErrUnavailable
}

// A driver that hangs holds up neither what asks for the state of things nor, for long,
// the loop.
func TestHungDriverLeavesControlFree(t *testing.T) {
	r := newRig(t, nil)
	driver := hungDriver{make(chan struct{}, 1), make(chan struct{})}
	r.cards.reader = driver
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		_, _ = r.models.CreateModel(t.Context(), &lmwardenv1.CreateModelRequest{Name: "m", Spec: &lmwardenv1.ModelSpec{Source: "x", Replicas: 1}})
	}()
	<-driver.asked
	free := make(chan struct{})
	go func() {
		r.loop.problem("m")
		r.loop.holders()
		close(free)
	}()
	select {
	case <-free:
	case <-time.After(30 * time.Second):
		t.Error("who asks for the state waits for the driver")
	}
	close(driver.letGo)
	ctx, cancel := context.WithTimeout(t.Context(), 30*cardsTimeout)
	defer cancel()
	if err := r.loop.sync(ctx); err != nil {
		t.Errorf("the loop waits for the driver: %v", err)
	}
	<-refused
}
