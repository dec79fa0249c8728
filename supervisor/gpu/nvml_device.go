//go:build linux && cgo

package gpu

import (
	"errors"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// reading fills in one device, field by field: what one field fails with says nothing
// of the others, except that the card is lost.
type reading struct {
	lib nvml.Interface
	d   Device
}

// readDevice reads one card of the driver's list.
func readDevice(lib nvml.Interface, index int) Device {
	r := &reading{lib: lib, d: Device{Index: index, At: time.Now()}}
	dev, ret := lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		r.note(ret)
		if r.d.Message == "" {
			r.d.Message = sentence(int(ret), nvml.ErrorString(ret))
		}
		return r.d
	}
	r.identity(dev)
	r.memory(dev)
	r.sensors(dev)
	r.throttle(dev)
	r.processes(dev)
	return r.d
}

// note remembers an error that concerns the whole card.
func (r *reading) note(err error) {
	if !lost(err) || r.d.Lost {
		return
	}
	var ret nvml.Return
	if errors.As(err, &ret) {
		r.d.Lost, r.d.Message = true, sentence(int(ret), nvml.ErrorString(ret))
	}
}

// field reads one value; nil when it is not reported.
func field[T any](r *reading, symbol string, call func() (T, nvml.Return)) *T {
	v, err := optional(r.lib, symbol, call)
	if err != nil {
		r.note(err)
		return nil
	}
	return &v
}

func (r *reading) identity(dev nvml.Device) {
	if uuid := field(r, "nvmlDeviceGetUUID", dev.GetUUID); uuid != nil {
		r.d.UUID = *uuid
	}
	if name := field(r, "nvmlDeviceGetName", dev.GetName); name != nil {
		r.d.Name = *name
	}
	if pci := field(r, "nvmlDeviceGetPciInfo_v3", dev.GetPciInfo); pci != nil {
		r.d.PCIBusID = text(pci.BusId[:])
	}
	type capability struct{ major, minor int }
	cc := field(r, "nvmlDeviceGetCudaComputeCapability", func() (capability, nvml.Return) {
		major, minor, ret := dev.GetCudaComputeCapability()
		return capability{major, minor}, ret
	})
	if cc != nil {
		r.d.ComputeCapability = fmt.Sprintf("%d.%d", cc.major, cc.minor)
	}
	mode := field(r, "nvmlDeviceGetMigMode", func() (int, nvml.Return) {
		current, _, ret := dev.GetMigMode()
		return current, ret
	})
	if mode != nil && *mode == nvml.DEVICE_MIG_ENABLE && r.d.Message == "" {
		r.d.Message = "The card is divided into MIG slices, which cannot be used as one; turn MIG off (nvidia-smi -mig 0) to use it."
	}
}

// memory prefers the newer call: the older one counts what the driver reserves as
// used. A total of 0 is a fault that some drivers had, and means not known.
func (r *reading) memory(dev nvml.Device) {
	if m := field(r, "nvmlDeviceGetMemoryInfo_v2", dev.GetMemoryInfo_v2); m != nil && m.Total > 0 {
		r.d.MemoryTotal, r.d.MemoryUsed, r.d.MemoryReserved = &m.Total, &m.Used, &m.Reserved
		return
	}
	if m := field(r, "nvmlDeviceGetMemoryInfo", dev.GetMemoryInfo); m != nil && m.Total > 0 {
		r.d.MemoryTotal, r.d.MemoryUsed = &m.Total, &m.Used
	}
}

func (r *reading) sensors(dev nvml.Device) {
	if u := field(r, "nvmlDeviceGetUtilizationRates", dev.GetUtilizationRates); u != nil {
		share := float64(u.Gpu) / 100
		r.d.Utilization = &share
	}
	r.d.Temperature = field(r, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) {
		return dev.GetTemperature(nvml.TEMPERATURE_GPU)
	})
	r.d.PowerWatts = watts(field(r, "nvmlDeviceGetPowerUsage", dev.GetPowerUsage))
	r.d.PowerLimitWatts = watts(field(r, "nvmlDeviceGetEnforcedPowerLimit", dev.GetEnforcedPowerLimit))
}

func watts(milli *uint32) *float64 {
	if milli == nil {
		return nil
	}
	w := float64(*milli) / 1000
	return &w
}

// throttle names the reasons, from the mildest on. Idling and set clocks are no fault.
func (r *reading) throttle(dev nvml.Device) {
	bits := field(r, "nvmlDeviceGetCurrentClocksEventReasons", dev.GetCurrentClocksEventReasons)
	if bits == nil {
		return
	}
	for _, reason := range []struct {
		bit  uint64
		name string
	}{
		{0x4, "power cap"},
		{0x20, "temperature (driver)"},
		{0x40, "temperature (hardware)"},
		{0x80, "power brake"},
		{0x8, "hardware slowdown"},
	} {
		if *bits&reason.bit != 0 {
			r.d.Throttle = append(r.d.Throttle, reason.name)
		}
	}
}

func (r *reading) processes(dev nvml.Device) {
	// Memory that the driver cannot tell is all ones.
	const notAvailable = ^uint64(0)
	list := field(r, "nvmlDeviceGetComputeRunningProcesses", dev.GetComputeRunningProcesses)
	if list == nil {
		return
	}
	r.d.Processes = []Process{}
	for _, p := range *list {
		one := Process{PID: int(p.Pid)}
		if memory := p.UsedGpuMemory; memory != notAvailable {
			one.Memory = &memory
		}
		r.d.Processes = append(r.d.Processes, one)
	}
}

// text reads a string of C.
func text(s []int8) string {
	var b []byte
	for _, c := range s {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}
