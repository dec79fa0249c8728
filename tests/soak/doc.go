// Command soak sends a million requests of all shapes through the proxy, over loopback
// to engines that answer at once, and fails when anything is left of them: a request
// that counts as in flight, a goroutine, or memory that grew after the first tenth.
//
// The shapes are mixed at random from a seed: streams and whole answers of every API,
// conversations with an id and without, clients that leave, engines that refuse, fail
// and cut their answers, and conversations so busy that their turns spill. Proxy,
// engines and clients share this process, so that one collection shows the heap of all.
package main
