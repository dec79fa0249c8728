//go:build vllm

package contract

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/tests/harness"
)

// workerFlags give the engine a process for its worker: on a CPU it has one anyway.
var workerFlags []string

// subject is the engine that the table is held against: a real vLLM on the CPU.
func subject(t *testing.T) program {
	t.Helper()
	folder := os.Getenv("LMWARDEN_VLLM")
	if folder == "" {
		t.Fatal("LMWARDEN_VLLM is not set: run make test-vllm")
	}
	// Engines that start together must not pick the same port for their insides.
	_, inner, err := net.SplitHostPort(harness.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return program{
		name:    "the real engine",
		command: []string{filepath.Join(folder, "venv/bin/vllm"), "serve", filepath.Join(folder, "model")},
		env: []string{
			"VLLM_CPU_KVCACHE_SPACE=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=1",
			"VLLM_NO_USAGE_STATS=1", "HF_HUB_OFFLINE=1", "VLLM_PORT=" + inner,
			// bf16 kernels of the CPU build end some processors with SIGILL.
			"ONEDNN_MAX_CPU_ISA=AVX512_CORE",
		},
		ready: 20 * time.Minute,
	}
}
