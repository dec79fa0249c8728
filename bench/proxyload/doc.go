// Package proxyload is the load generator for the proxy itself: it opens many short
// streams against several URLs that lead to the same engines, directly and through
// proxies, and says what each way adds to the time to the first byte and to the
// processor time of a request.
//
// All ways are measured in one run, in small rounds whose order turns around each
// time, so that whatever else the machine does falls on all of them alike. Engines,
// proxies and generator may share one process; the processor time of the direct way
// is then what the generator and the engine cost, and is taken off the others.
package proxyload
