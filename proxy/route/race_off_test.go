//go:build !race

package route

// manyIDs is how many ids TestManyIDsLeaveMemoryFlat sends.
const manyIDs = 1_000_000
