// Package gpu reads which cards a box has and how they are.
//
// [New] answers through NVIDIA's management library where the program is built with
// cgo on Linux, and with a sentence elsewhere; [NewSimulated] is a box that does not
// exist. Nothing here initialises CUDA, which would take memory of every card. A value
// that a card does not report is nil, never zero.
package gpu

import (
	"context"
	"errors"
	"time"
)

// ErrUnavailable is wrapped by the error of a box whose cards cannot be read at all:
// no driver, no library, a program built without cgo. The sentence around it says
// which, and a later read tries again.
var ErrUnavailable = errors.New("cards cannot be read")

// Reader reads the cards of the box.
type Reader interface {
	// Read returns the cards in PCI bus order. It may answer from a reading of less
	// than a second ago, and is safe for concurrent use. A card that does not answer
	// is listed with a Message; the error is for when there is no list at all.
	Read(ctx context.Context) (Inventory, error)
}

// Inventory is one reading of the box. It is a value of its own: safe to keep.
type Inventory struct {
	// DriverVersion is the version of the kernel driver; empty when not reported.
	DriverVersion string
	// Devices are the cards in PCI bus order.
	Devices []Device
}

// Device is one card.
type Device struct {
	// UUID is the full name of the card, "GPU-8f1c…", the only one that is stable.
	UUID string
	// Index is the place in PCI bus order, from 0.
	Index int
	// Name is the product name; empty when not reported.
	Name string
	// PCIBusID is the address on the bus: "00000000:65:00.0".
	PCIBusID string
	// ComputeCapability is "8.6", or empty when not reported.
	ComputeCapability string
	// At is when the figures were read.
	At time.Time
	// Message says in one or two sentences why the card cannot be used, or is empty.
	Message string
	// Lost is true when the driver has lost the card or asks for a reset of it.
	Lost bool
	// Simulated is true for a card of a box that does not exist.
	Simulated bool

	MemoryTotal     *uint64   // bytes
	MemoryUsed      *uint64   // bytes, without what the driver reserves
	MemoryReserved  *uint64   // bytes that the driver keeps
	Utilization     *float64  // 0 to 1, share of time with a kernel running
	Temperature     *uint32   // degrees Celsius
	PowerWatts      *float64  // average of the last second on most cards
	PowerLimitWatts *float64  // watts
	Throttle        []string  // why the card runs slower than it could; nil when it does not
	Processes       []Process // processes that hold memory of the card; nil when not reported
}

// Process holds memory of a card.
type Process struct {
	// PID is the number of the process on the host.
	PID int
	// Memory is in bytes; nil when not reported.
	Memory *uint64
}
