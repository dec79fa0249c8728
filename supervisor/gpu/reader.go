package gpu

import (
	"cmp"
	"fmt"
	"time"
)

// Options of [New]. A zero field takes the default that its comment names.
type Options struct {
	// LibraryPath is the file of NVIDIA's management library. Default
	// "libnvidia-ml.so.1" on the loader's path, then where NixOS keeps it.
	LibraryPath string
	// MaxAge is for how long a reading is served again. Default 1 s.
	MaxAge time.Duration
	// Timeout is for one card's answer. A driver that recovers a card can block for
	// longer; the others are not kept waiting. Default 2 s.
	Timeout time.Duration
}

func (o Options) withDefaults() Options {
	o.MaxAge = cmp.Or(o.MaxAge, time.Second)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	return o
}

// Return codes of NVML that a person can do something about.
const (
	codeNotSupported    = 3
	codeNoPermission    = 4
	codeNotFound        = 6
	codeDriverNotLoaded = 9
	codeLibraryNotFound = 12
	codeFunctionMissing = 13
	codeLost            = 15
	codeResetRequired   = 16
	codeCgroup          = 17
	codeMismatch        = 18
)

// sentence says what a return code of NVML means and what to do.
func sentence(code int, text string) string {
	switch code {
	case codeNotSupported:
		return "The card does not report this."
	case codeNoPermission:
		return "This user may not ask the card; run the service with access to /dev/nvidia*."
	case codeNotFound:
		return "The card is not there any more."
	case codeDriverNotLoaded:
		return "NVIDIA's kernel driver is not loaded; load it (modprobe nvidia) or look into the kernel's log why it does not."
	case codeLibraryNotFound:
		return "NVIDIA's management library (libnvidia-ml.so.1) is not installed; install the driver, or run without cards."
	case codeFunctionMissing:
		return "NVIDIA's driver is too old for this; install a newer one."
	case codeLost:
		return "The card has fallen off the bus; restart the host, and if it happens again look at its power and its slot."
	case codeResetRequired:
		return "The card needs a reset: end what runs on it, then nvidia-smi --gpu-reset, or restart the host."
	case codeCgroup:
		return "The service may not open the card; add it to the unit's DeviceAllow."
	case codeMismatch:
		return "The driver's library and its kernel module have different versions, as after an update; restart the host."
	default:
		return fmt.Sprintf("NVIDIA's library answers with code %d (%s).", code, text)
	}
}
