package gpu_test

import (
	"context"
	"testing"

	"github.com/lmwarden/lmwarden/supervisor/gpu"
)

func TestSimulatedFiguresFollowTheLoad(t *testing.T) {
	const total = 16 << 30
	box := gpu.NewSimulated(3, "NVIDIA RTX A4000", total)
	load := map[string]float64{}
	box.InUse = func(uuid string) float64 {
		if l, ok := load[uuid]; ok {
			return l
		}
		return -1
	}
	before, err := box.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	idle, held, busy := before.Devices[0].UUID, before.Devices[1].UUID, before.Devices[2].UUID
	if idle == held || held == busy {
		t.Fatal("cards share a name")
	}
	load[held], load[busy] = 0, 7 // more than can be
	after, err := box.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := after.Devices[0], after.Devices[1], after.Devices[2]
	if *a.MemoryUsed >= *b.MemoryUsed || *b.MemoryUsed != *c.MemoryUsed || *c.MemoryUsed > total {
		t.Errorf("memory %d, %d, %d", *a.MemoryUsed, *b.MemoryUsed, *c.MemoryUsed)
	}
	if *b.Utilization != 0 || *c.Utilization != 1 {
		t.Errorf("utilization %v, %v", *b.Utilization, *c.Utilization)
	}
	if *c.Temperature < *b.Temperature+20 || *c.PowerWatts < *b.PowerWatts+50 || *c.PowerWatts > *c.PowerLimitWatts {
		t.Errorf("idle %d °C %v W, busy %d °C %v W of %v", *b.Temperature, *b.PowerWatts, *c.Temperature, *c.PowerWatts, *c.PowerLimitWatts)
	}
	for i, d := range after.Devices {
		if !d.Simulated || d.Index != i || d.Name != "NVIDIA RTX A4000" || d.At.IsZero() {
			t.Errorf("card %+v", d)
		}
	}
	*a.MemoryTotal = 0
	if again, _ := box.Read(t.Context()); *again.Devices[0].MemoryTotal != total {
		t.Error("a reading is shared with its reader")
	}
}

func TestSimulatedReadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := gpu.NewSimulated(1, "x", 1).Read(ctx); err == nil {
		t.Error("no error")
	}
}
