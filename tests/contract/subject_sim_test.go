//go:build !vllm

package contract

import "testing"

// workerFlags give the engine a process for its worker: the simulated one has some only
// when it has several cards.
var workerFlags = []string{"--tensor-parallel-size", "2"}

// subject is the engine that the table is held against.
func subject(t *testing.T) program {
	t.Helper()
	return simulated(t, 2)
}
