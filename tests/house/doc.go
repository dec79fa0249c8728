// Package house holds the rules of the house as tests: who may import whom,
// documented packages and symbols, and the size of files and functions. They read
// the sources themselves, so that a cached test result cannot hide a change.
package house
