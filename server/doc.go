// Package server is the control plane, and the only package that knows all
// vocabularies: the API's, the store's, the proxy's and the supervisor's.
//
// What is desired lives in the [catalog]: models of the configuration file, which
// are read-only, and models of the store. What is the case is asked of the
// supervisor and the proxy, and is never stored. The two are never mixed.
//
// The life of a change: a handler (service_*.go) validates it, the catalog writes it
// to the store under its revision and swaps the new model in, the reconcile loop
// (reconcile.go) is woken, assigns cards, hands specs to the supervisor and a new
// snapshot to the proxy, and the watchers (watch.go) see what came of it.
//
//	call -> handler -> catalog -> store
//	                      |
//	                      v  wake
//	                  reconcile -> layout -> supervisor.Apply -> status
//	                      |                                        |
//	                      +---------> proxy.Apply(snapshot) <------+
//
// Errors become codes of the API in errors.go and nowhere else.
package server
