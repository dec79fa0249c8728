// Package contract holds what LM Warden counts on in an inference engine, as one table:
// statuses, header names, the keys and types of bodies, the order of events, errors,
// metrics, and how the processes end. `go test` runs it against the simulated engine;
// with the tag vllm (`make test-vllm`) it runs against a real vLLM on the CPU, started
// with the same arguments. An expectation that only one of the two meets is a bug of
// the simulated engine, or of the table.
//
// Values are ignored unless the table fixes them. The replay in it goes further: the
// same requests go to both engines and to a plain model of the prefix cache, and every
// request must find the same number of cached tokens.
package contract
