//go:build hardware

package gpu

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestHardware reads the cards of this very machine and holds them to what
// nvidia-smi says. It is built with the tag hardware and run by make gpu-check.
func TestHardware(t *testing.T) {
	inventory, err := New(Options{Timeout: 10 * time.Second}).Read(t.Context())
	if err != nil {
		t.Fatalf("the cards of this machine: %v", err)
	}
	if inventory.DriverVersion == "" {
		t.Error("the driver reports no version")
	}
	out, err := exec.CommandContext(t.Context(), "nvidia-smi",
		"--query-gpu=uuid,name,memory.total", "--format=csv,noheader,nounits").Output()
	if err != nil {
		t.Fatalf("nvidia-smi, which comes with the driver: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(inventory.Devices) {
		t.Fatalf("%d cards were read, nvidia-smi lists %d:\n%s", len(inventory.Devices), len(lines), out)
	}
	for i, d := range inventory.Devices {
		t.Logf("%d: %s, %s, at %s, compute %s, %s", d.Index, d.UUID, d.Name, d.PCIBusID, d.ComputeCapability, d.Message)
		want := strings.Split(lines[i], ", ")
		mib, err := strconv.ParseUint(want[2], 10, 64)
		if err != nil {
			t.Fatalf("nvidia-smi reports a memory of %q", want[2])
		}
		if d.UUID != want[0] || d.Name != want[1] {
			t.Errorf("card %d is read as %s, %s; nvidia-smi says %s, %s", i, d.UUID, d.Name, want[0], want[1])
		}
		if d.MemoryTotal == nil || *d.MemoryTotal>>20 != mib {
			t.Errorf("card %d: total memory %v bytes, nvidia-smi says %d MiB", i, d.MemoryTotal, mib)
		}
		if d.MemoryUsed == nil || d.MemoryTotal != nil && *d.MemoryUsed > *d.MemoryTotal {
			t.Errorf("card %d: %v bytes are in use of %v", i, d.MemoryUsed, d.MemoryTotal)
		}
		if d.Simulated || d.Index != i || d.PCIBusID == "" || d.ComputeCapability == "" {
			t.Errorf("card %d: %+v", i, d)
		}
	}
}
