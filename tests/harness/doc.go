// Package harness runs the real binary for the whole-product tests: it starts a
// daemon as a process, hands out the generated clients, and finds every process
// that the daemon left behind. It holds no expectations of its own.
package harness
