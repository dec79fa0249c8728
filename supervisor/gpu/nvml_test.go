//go:build linux && cgo

package gpu

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func ptr[T any](v T) *T { return &v }

// driver is a mocked driver over cards; missing names functions that it lacks.
func driver(missing string, cards ...*mock.Device) *mock.Interface {
	return &mock.Interface{
		InitFunc:                   func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:               func() nvml.Return { return nvml.SUCCESS },
		SystemGetDriverVersionFunc: func() (string, nvml.Return) { return "580.1", nvml.SUCCESS },
		DeviceGetCountFunc:         func() (int, nvml.Return) { return len(cards), nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			if cards[i] == nil {
				return nil, nvml.ERROR_GPU_IS_LOST
			}
			return cards[i], nvml.SUCCESS
		},
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
				if slices.Contains(strings.Fields(missing), name) {
					return errors.New("undefined symbol: " + name)
				}
				return nil
			}}
		},
	}
}

// h200 is a mocked card that answers everything.
func h200(uuid, bus string) *mock.Device {
	d := &mock.Device{
		GetUUIDFunc:    func() (string, nvml.Return) { return uuid, nvml.SUCCESS },
		GetNameFunc:    func() (string, nvml.Return) { return "NVIDIA H200", nvml.SUCCESS },
		GetMigModeFunc: func() (int, int, nvml.Return) { return 0, 0, nvml.SUCCESS },
		GetPciInfoFunc: func() (nvml.PciInfo, nvml.Return) {
			var p nvml.PciInfo
			for i, c := range []byte(bus) {
				p.BusId[i] = int8(c)
			}
			return p, nvml.SUCCESS
		},
		GetCudaComputeCapabilityFunc: func() (int, int, nvml.Return) { return 9, 0, nvml.SUCCESS },
		GetMemoryInfo_v2Func: func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 141 << 30, Used: 1 << 30, Reserved: 2 << 30}, nvml.SUCCESS
		},
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
			return nvml.Memory{Total: 141 << 30, Used: 3 << 30}, nvml.SUCCESS
		},
		GetUtilizationRatesFunc:   func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 40}, nvml.SUCCESS },
		GetTemperatureFunc:        func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 51, nvml.SUCCESS },
		GetPowerUsageFunc:         func() (uint32, nvml.Return) { return 123400, nvml.SUCCESS },
		GetEnforcedPowerLimitFunc: func() (uint32, nvml.Return) { return 700000, nvml.SUCCESS },
		GetCurrentClocksEventReasonsFunc: func() (uint64, nvml.Return) {
			return 0x1 | 0x4 | 0x40, nvml.SUCCESS
		},
		GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) {
			return []nvml.ProcessInfo{{Pid: 7, UsedGpuMemory: 5}, {Pid: 8, UsedGpuMemory: ^uint64(0)}}, nvml.SUCCESS
		},
	}
	return d
}

func h200Figures(index int, uuid, bus string) Device {
	return Device{
		UUID: uuid, Index: index, Name: "NVIDIA H200", PCIBusID: bus, ComputeCapability: "9.0",
		MemoryTotal: ptr(uint64(141 << 30)), MemoryUsed: ptr(uint64(1 << 30)), MemoryReserved: ptr(uint64(2 << 30)),
		Utilization: ptr(0.4), Temperature: ptr(uint32(51)), PowerWatts: ptr(123.4), PowerLimitWatts: ptr(700.0),
		Throttle:  []string{"power cap", "temperature (hardware)"},
		Processes: []Process{{PID: 7, Memory: ptr(uint64(5))}, {PID: 8}},
	}
}

var noTimes = cmpopts.IgnoreFields(Device{}, "At")

func read(t *testing.T, r Reader) Inventory {
	t.Helper()
	inv, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestReadSortsByBus(t *testing.T) {
	r := newReader(Options{}, driver("", h200("GPU-b", "00000000:65:00.0"), h200("GPU-a", "00000000:18:00.0")))
	want := Inventory{DriverVersion: "580.1", Devices: []Device{
		h200Figures(0, "GPU-a", "00000000:18:00.0"), h200Figures(1, "GPU-b", "00000000:65:00.0"),
	}}
	if diff := cmp.Diff(want, read(t, r), noTimes); diff != "" {
		t.Error(diff)
	}
}

// A function that the driver lacks ends the program when it is called, so it must not
// be; the mock would panic.
func TestMissingFunctionsAreNotCalled(t *testing.T) {
	card := h200("GPU-a", "00000000:18:00.0")
	card.GetMemoryInfo_v2Func, card.GetCurrentClocksEventReasonsFunc, card.GetComputeRunningProcessesFunc = nil, nil, nil
	card.GetMigModeFunc = nil
	r := newReader(Options{}, driver("nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetComputeRunningProcesses nvmlDeviceGetMigMode", card))
	want := h200Figures(0, "GPU-a", "00000000:18:00.0")
	want.MemoryUsed, want.MemoryReserved, want.Throttle, want.Processes = ptr(uint64(3<<30)), nil, nil, nil
	if diff := cmp.Diff([]Device{want}, read(t, r).Devices, noTimes); diff != "" {
		t.Error(diff)
	}
}

func TestOneCardsErrorIsItsOwn(t *testing.T) {
	quiet := h200("GPU-quiet", "00000000:01:00.0")
	quiet.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED }
	quiet.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{}, nvml.SUCCESS }
	quiet.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.SUCCESS }
	gone := h200("GPU-gone", "00000000:02:00.0")
	gone.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
	sliced := h200("GPU-sliced", "00000000:03:00.0")
	sliced.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_ENABLE, nvml.SUCCESS }
	devices := read(t, newReader(Options{}, driver("", quiet, gone, sliced, nil))).Devices
	if len(devices) != 4 {
		t.Fatalf("%d devices", len(devices))
	}
	// The one without a handle has no bus id and comes first.
	if d := devices[0]; !d.Lost || !strings.Contains(d.Message, "fallen off the bus") {
		t.Errorf("no handle: %+v", d)
	}
	if d := devices[1]; d.Utilization != nil || d.MemoryTotal != nil || d.Temperature == nil || d.Message != "" {
		t.Errorf("not reported: %+v", d)
	}
	if d := devices[2]; !d.Lost || d.Temperature != nil || d.UUID != "GPU-gone" || !strings.Contains(d.Message, "restart the host") {
		t.Errorf("lost: %+v", d)
	}
	if d := devices[3]; d.Lost || !strings.Contains(d.Message, "MIG") {
		t.Errorf("sliced: %+v", d)
	}
}

func TestHangingCardHoldsUpNobody(t *testing.T) {
	// The clock moves only when nothing else does, so that what answers is in time.
	synctest.Test(t, hangingCardHoldsUpNobody)
}

func hangingCardHoldsUpNobody(t *testing.T) {
	release := make(chan struct{})
	hangs := h200("GPU-hangs", "00000000:02:00.0")
	slow := make(chan struct{}, 1)
	hangs.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) {
		select {
		case slow <- struct{}{}: // the first time it answers
		default:
			<-release
		}
		return 60, nvml.SUCCESS
	}
	fine := h200("GPU-fine", "00000000:01:00.0")
	r := newReader(Options{Timeout: 20 * time.Millisecond, MaxAge: time.Nanosecond}, driver("", fine, hangs))
	first := read(t, r)
	time.Sleep(time.Second) // of the bubble's clock
	second := read(t, r)
	time.Sleep(time.Second)
	third := read(t, r)
	if first.Devices[1].Message != "" || !first.Devices[1].At.Equal(second.Devices[1].At) {
		t.Errorf("first %+v, second %+v", first.Devices[1], second.Devices[1])
	}
	for _, inv := range []Inventory{second, third} {
		if d := inv.Devices[1]; d.UUID != "GPU-hangs" || !strings.Contains(d.Message, "has not answered since") {
			t.Errorf("hanging: %+v", d)
		}
		if d := inv.Devices[0]; d.Message != "" || !d.At.After(first.Devices[0].At) {
			t.Errorf("its neighbour: %+v", d)
		}
	}
	close(release)
	synctest.Wait() // no reading may outlive its test
	if r.anyBusy() {
		t.Error("the card has answered, and is still waited for")
	}
}

func TestReadingsAreSharedForAWhile(t *testing.T) {
	lib := driver("", h200("GPU-a", "00000000:01:00.0"))
	r := newReader(Options{MaxAge: time.Hour}, lib)
	one := read(t, r)
	one.Devices[0].UUID = "changed by its owner"
	if two := read(t, r); two.Devices[0].UUID != "GPU-a" || len(lib.DeviceGetCountCalls()) != 1 {
		t.Errorf("%d readings, %+v", len(lib.DeviceGetCountCalls()), two)
	}
}

func TestDriverThatComesLater(t *testing.T) {
	lib := driver("", h200("GPU-a", "00000000:01:00.0"))
	answers := []nvml.Return{nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH, nvml.SUCCESS}
	lib.InitFunc = func() nvml.Return {
		next := answers[0]
		answers = answers[1:]
		return next
	}
	r := newReader(Options{}, lib)
	for _, want := range []string{"not loaded", "different versions"} {
		_, err := r.Read(t.Context())
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if inv := read(t, r); len(inv.Devices) != 1 {
		t.Errorf("got %+v", inv)
	}
}

func TestDriverThatHangs(t *testing.T) {
	lib := driver("")
	release := make(chan struct{})
	lib.InitFunc = func() nvml.Return { <-release; return nvml.ERROR_UNKNOWN }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	r := newReader(Options{}, lib)
	// The binding has one table of functions for the whole program, which opening a
	// library writes without a lock: no reading may outlive its test.
	defer func() {
		close(release)
		r.turn <- struct{}{}
	}()
	for range 2 {
		if _, err := r.Read(ctx); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	}
}

func TestWithoutALibrary(t *testing.T) {
	_, err := New(Options{LibraryPath: filepath.Join(t.TempDir(), "libnvidia-ml.so.1")}).Read(t.Context())
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "install the driver") {
		t.Errorf("got %v", err)
	}
}

// library is a driver's library that has little: what is not there must not be called,
// or this test ends without a result.
const library = `
#include <string.h>
typedef int ret; typedef void *dev;
ret nvmlInit_v2(void) { return 0; }
ret nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(ret r) { return "text"; }
ret nvmlSystemGetDriverVersion(char *s, unsigned n) { strncpy(s, "535.1", n); return 0; }
ret nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
ret nvmlDeviceGetHandleByIndex_v2(unsigned i, dev *d) { *d = (dev)(long)(i + 1); return i ? 15 : 0; }
ret nvmlDeviceGetUUID(dev d, char *s, unsigned n) { strncpy(s, "GPU-8f1c", n); return 0; }
ret nvmlDeviceGetTemperature(dev d, int sensor, unsigned *t) { *t = 44; return 0; }
ret nvmlDeviceGetPowerUsage(dev d, unsigned *mw) { return 3; }
`

func TestTrueLibraryThatLacksFunctions(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Fatal("there is no gcc to build a library with, though this file is built with cgo: install gcc")
	}
	file := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	build := exec.CommandContext(t.Context(), gcc, "-shared", "-fPIC", "-w", "-x", "c", "-o", file, "-")
	build.Stdin = strings.NewReader(library)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	inv := read(t, New(Options{LibraryPath: file}))
	want := Inventory{DriverVersion: "535.1", Devices: []Device{
		{UUID: "GPU-8f1c", Index: 0, Temperature: ptr(uint32(44))},
		{Index: 1, Lost: true, Message: sentence(codeLost, "")},
	}}
	if diff := cmp.Diff(want, inv, noTimes); diff != "" {
		t.Error(diff)
	}
}

func TestSentencesSayWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	for _, code := range []int{codeNotSupported, codeNoPermission, codeNotFound, codeDriverNotLoaded, codeLibraryNotFound, codeFunctionMissing, codeLost, codeResetRequired, codeCgroup, codeMismatch, 99} {
		s := sentence(code, "text")
		if seen[s] || !strings.HasSuffix(s, ".") {
			t.Errorf("code %d: %q", code, s)
		}
		seen[s] = true
	}
	if s := sentence(99, "text"); !strings.Contains(s, fmt.Sprint(99)) || !strings.Contains(s, "text") {
		t.Errorf("unknown code: %q", s)
	}
}
