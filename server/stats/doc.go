// Package stats remembers what happened: tokens and latencies over time, the latest
// requests, the events of the box.
//
// All of it is in memory and bounded: one second of resolution for the last hour, one
// minute for the last day, the newest [HistorySize] requests and [EventsSize] events.
// None of it holds the content of a request.
//
// The nouns: a [Collector] is the proxy's recorder, a channel that drops and counts
// when full and a single goroutine behind it that feeds a series per model and the
// history; a series is two rings of buckets; a latency is counted in buckets whose
// bounds grow by 10 %, so that a quantile is right within 5 %.
package stats
