// Package report turns what steps measured into something to read: a table, JSON, CSV
// and one self-contained page with charts. Steps of live runs and of simulations are
// the same to it.
//
// A [Run] is one step that was measured once: one arm at one number of sessions, with
// its [Figures]. [Summarize] makes a [Row] of the runs that repeat each other: the
// means, and how far they can be trusted. A [Ledger] keeps runs in a file while a long
// series is under way, so that it can be stopped and resumed.
//
// The names of columns in JSON and CSV are a contract: they are only ever added to.
package report
