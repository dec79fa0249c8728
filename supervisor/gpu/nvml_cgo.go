//go:build linux && cgo

package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// nixLibrary is where NixOS keeps the driver's library, off the loader's path.
const nixLibrary = "/run/opengl-driver/lib/libnvidia-ml.so.1"

// nvmlReader reads cards through NVIDIA's management library.
//
// The binding resolves a function when it is first called and ends the program when
// the driver lacks it, or when the library has not been opened: so nothing is called
// before a successful Init, and every other function is looked up first. For the same
// reason a program with it must be linked lazily (-extldflags=-Wl,-z,lazy where the
// toolchain's default is -z now).
type nvmlReader struct {
	opts Options
	libs []nvml.Interface // tried in order until one can be opened

	turn chan struct{} // holds the right to refresh; one place

	mu     sync.Mutex // guards what follows
	last   Inventory
	lastAt time.Time
	cards  map[int]*card

	// Owned by whoever has the turn.
	lib    nvml.Interface
	driver string
}

// card is one place in the driver's list.
type card struct {
	busy  bool // a reading is on its way, perhaps for long
	since time.Time
	last  Device
	known bool
}

// New returns a reader over NVIDIA's management library. It does not fail: a box
// without a driver is told by Read, which tries again each time.
func New(opts Options) Reader {
	paths := []string{opts.LibraryPath}
	if opts.LibraryPath == "" {
		paths = []string{"libnvidia-ml.so.1", nixLibrary}
	}
	libs := make([]nvml.Interface, len(paths))
	for i, p := range paths {
		libs[i] = nvml.New(nvml.WithLibraryPath(p))
	}
	return newReader(opts, libs...)
}

func newReader(opts Options, libs ...nvml.Interface) *nvmlReader {
	return &nvmlReader{opts: opts.withDefaults(), libs: libs, turn: make(chan struct{}, 1), cards: map[int]*card{}}
}

// Read implements [Reader]. At most one reading is on its way at a time; one that
// hangs is waited for until ctx ends.
func (r *nvmlReader) Read(ctx context.Context) (Inventory, error) {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return r.lastOr(fmt.Errorf("%w: the driver has not answered in time", ErrUnavailable))
	}
	r.mu.Lock()
	fresh := time.Since(r.lastAt) < r.opts.MaxAge
	r.mu.Unlock()
	if fresh {
		<-r.turn
		return r.lastOr(nil)
	}
	result := make(chan error, 1)
	go func() {
		defer func() { <-r.turn }()
		result <- r.refresh()
	}()
	select {
	case err := <-result:
		if err != nil {
			return Inventory{}, err
		}
		return r.lastOr(nil)
	case <-ctx.Done():
		return r.lastOr(fmt.Errorf("%w: the driver has not answered in time", ErrUnavailable))
	}
}

// lastOr returns the last reading, or err when there is none.
func (r *nvmlReader) lastOr(err error) (Inventory, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastAt.IsZero() {
		return Inventory{}, err
	}
	inv := r.last
	inv.Devices = slices.Clone(inv.Devices)
	return inv, nil
}

// refresh reads all cards, each in a goroutine with a deadline.
func (r *nvmlReader) refresh() error {
	if err := r.open(); err != nil {
		return err
	}
	count, ret := r.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return r.failed(ret)
	}
	deadline := time.After(r.opts.Timeout)
	answered := make([]chan struct{}, count)
	for i := range count {
		answered[i] = r.ask(i)
	}
	late := false
	for _, done := range answered {
		if late {
			break
		}
		select {
		case <-done:
		case <-deadline:
			late = true
		}
	}
	r.collect(count)
	return nil
}

// failed describes why there is no list, and closes the library, so that the next
// reading begins anew: a driver that was updated or reloaded needs it. While a call
// hangs in the library it must stay.
func (r *nvmlReader) failed(ret nvml.Return) error {
	if r.lib != nil && !r.anyBusy() {
		_ = r.lib.Shutdown() // whatever it answers, the library is not used again
		r.lib = nil
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, sentence(int(ret), nvml.ErrorString(ret)))
}

func (r *nvmlReader) anyBusy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.cards {
		if c.busy {
			return true
		}
	}
	return false
}

func (r *nvmlReader) open() error {
	if r.lib != nil {
		return nil
	}
	ret := nvml.ERROR_LIBRARY_NOT_FOUND
	for _, lib := range r.libs {
		if ret = lib.Init(); ret == nvml.SUCCESS {
			r.lib = lib
			break
		}
		if ret != nvml.ERROR_LIBRARY_NOT_FOUND {
			break
		}
	}
	if ret != nvml.SUCCESS {
		return r.failed(ret)
	}
	if r.lib.Extensions().LookupSymbol("nvmlDeviceGetCount_v2") != nil {
		_ = r.lib.Shutdown() // whatever it answers, the library is not used again
		r.lib = nil
		return fmt.Errorf("%w: %s", ErrUnavailable, sentence(codeFunctionMissing, ""))
	}
	r.driver, _ = optional(r.lib, "nvmlSystemGetDriverVersion", r.lib.SystemGetDriverVersion)
	return nil
}

// ask begins the reading of one card, unless an earlier one is still on its way.
func (r *nvmlReader) ask(index int) chan struct{} {
	done := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cards[index]
	if c == nil {
		c = &card{}
		r.cards[index] = c
	}
	if c.busy {
		close(done)
		return done
	}
	c.busy, c.since = true, time.Now()
	lib := r.lib
	go func() {
		defer close(done)
		d := readDevice(lib, index)
		r.mu.Lock()
		defer r.mu.Unlock()
		c.busy, c.last, c.known = false, d, true
	}()
	return done
}

// collect makes a list of what each card last said.
func (r *nvmlReader) collect(count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	inv := Inventory{DriverVersion: r.driver}
	for i := range count {
		c := r.cards[i]
		d := c.last
		switch {
		case c.busy && !c.known:
			d.Message = fmt.Sprintf("The card has not answered since %s.", c.since.Format(time.TimeOnly))
		case c.busy:
			d.Message = fmt.Sprintf("The card has not answered since %s; the figures are older.", c.since.Format(time.TimeOnly))
		}
		inv.Devices = append(inv.Devices, d)
	}
	// The driver's order is not stable, the bus's is.
	slices.SortStableFunc(inv.Devices, func(a, b Device) int { return cmp.Compare(a.PCIBusID, b.PCIBusID) })
	for i := range inv.Devices {
		inv.Devices[i].Index = i
	}
	r.last, r.lastAt = inv, time.Now()
}

// optional calls a function when the driver has it. The error is nil only for an
// answer.
func optional[T any](lib nvml.Interface, symbol string, call func() (T, nvml.Return)) (T, error) {
	var none T
	if lib.Extensions().LookupSymbol(symbol) != nil {
		return none, nvml.ERROR_FUNCTION_NOT_FOUND
	}
	v, ret := call()
	if ret != nvml.SUCCESS {
		return none, ret
	}
	return v, nil
}

// lost says whether an error means that the card is gone or must be reset.
func lost(err error) bool {
	return errors.Is(err, nvml.ERROR_GPU_IS_LOST) || errors.Is(err, nvml.ERROR_RESET_REQUIRED)
}
