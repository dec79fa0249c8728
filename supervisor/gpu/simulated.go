package gpu

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Figures of an idle and of a busy card, in the range of a 16 GiB workstation card.
const (
	idleCelsius, busyCelsius = 38, 74
	idleWatts, busyWatts     = 16, 132
	limitWatts               = 140
	// An engine holds the card's memory whether it computes or not.
	engineShare = 0.9
	idleBytes   = 320 << 20
)

// Simulated is a box of cards that do not exist. Its fields may be set before the
// first Read, not after.
type Simulated struct {
	// InUse says how busy a card is, 0 to 1, or a negative number when no engine runs
	// on it. Nil means that no card has an engine. It is called by every Read.
	InUse func(uuid string) float64

	devices []Device
}

var _ Reader = (*Simulated)(nil)

// NewSimulated returns n cards of the given product name and memory in bytes. Their
// UUIDs are the same each time.
func NewSimulated(n int, name string, totalBytes uint64) *Simulated {
	s := &Simulated{}
	for i := range n {
		s.devices = append(s.devices, Device{
			UUID:              fmt.Sprintf("GPU-00000000-5eed-4000-8000-%012x", i),
			Index:             i,
			Name:              name,
			PCIBusID:          fmt.Sprintf("00000000:%02X:00.0", i+1),
			ComputeCapability: "8.6",
			Simulated:         true,
			MemoryTotal:       &totalBytes,
		})
	}
	return s
}

// Read never fails, except when ctx has ended.
func (s *Simulated) Read(ctx context.Context) (Inventory, error) {
	if err := ctx.Err(); err != nil {
		return Inventory{}, fmt.Errorf("reading the simulated cards was given up: %w", err)
	}
	now := time.Now()
	inv := Inventory{DriverVersion: "simulated", Devices: make([]Device, len(s.devices))}
	for i, d := range s.devices {
		load := -1.0
		if s.InUse != nil {
			load = s.InUse(d.UUID)
		}
		inv.Devices[i] = loaded(d, load, now)
	}
	return inv, nil
}

// loaded fills in the figures of a card that is so busy. Cards differ a little, as
// neighbours in a case do.
func loaded(d Device, load float64, now time.Time) Device {
	used := uint64(idleBytes)
	if load >= 0 {
		used = uint64(engineShare * float64(*d.MemoryTotal))
	}
	busy := math.Min(math.Max(load, 0), 1)
	// A slow swing of a degree or two, different for each card.
	swing := math.Sin(float64(now.Unix())/23 + float64(d.Index)*1.7)
	celsius := uint32(math.Round(idleCelsius + busy*(busyCelsius-idleCelsius) + swing + float64(d.Index%3)))
	watts := math.Round((idleWatts+busy*(busyWatts-idleWatts)+2*swing)*10) / 10
	limit := float64(limitWatts)
	total, reserved := *d.MemoryTotal, uint64(0)
	used = min(used, total)
	d.At = now
	d.MemoryTotal, d.MemoryUsed, d.MemoryReserved = &total, &used, &reserved
	d.Utilization, d.Temperature, d.PowerWatts, d.PowerLimitWatts = &busy, &celsius, &watts, &limit
	return d
}
