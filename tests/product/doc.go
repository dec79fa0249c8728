// Package product tests the whole product from outside: the real binary, engine
// processes that behave like vLLM's, real HTTP, and nothing in between.
package product
