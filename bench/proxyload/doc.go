// Package proxyload is the load generator for the proxy itself: it opens many short
// streams against several ways that lead to the same engines, directly and through
// proxies, and says what a client sees of the first byte and what each proxy uses of
// the processor.
//
// [Start] makes the box: fake engines in this process, beside the load, and each proxy
// as processes of its own, whose processor time is then its own alone: a bare reverse
// proxy of Go's standard library, nginx, and our daemon as a user starts it. [Compare]
// measures all ways in one run, in small rounds whose order turns around, so that
// whatever else the machine does falls on all of them alike. [NewReport] says how
// ours compares to the others.
package proxyload
