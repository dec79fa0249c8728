// Package clients runs real clients against the daemon while scripted engines answer:
// coding agents and SDKs, whole, with their tools, streams, time-outs and resumed
// conversations. A tap before the daemon and the engines behind it keep what they saw,
// so that both sides can be compared byte for byte. It is built with the tag clients
// and run by `make test-clients`, which installs the clients into the user's cache.
//
// Nothing that a client sends is kept: its prompts are its vendor's.
package clients
