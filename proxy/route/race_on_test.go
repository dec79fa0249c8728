//go:build race

package route

// manyIDs is smaller under the race detector, which slows the core down twentyfold.
const manyIDs = 200_000
