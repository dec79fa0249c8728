//go:build !vllm

package contract

import "testing"

// subject is the engine that the table is held against.
func subject(t *testing.T) program {
	t.Helper()
	return simulated(t, 2)
}
