// Package load describes what the clients of a box do, as data: the shape of their
// conversations, how long they think, when they begin. A simulation and a live run
// play the same loads.
//
// A [Load] is a closed loop of slots; each holds one conversation after the other. A
// [Talk] is one conversation as it unfolds, turn by turn, with the sizes of its texts
// and never the texts themselves. A [Trace] is a recorded load: the times, sizes and
// keys of requests that somebody's clients made.
//
// The same seed, slot and number give the same conversation, whoever plays it and
// however fast the box answers.
package load
