// Package vllm tests the daemon with a real vLLM (its CPU build, a tiny model with
// random weights) and real clients. It is built with the tag vllm and run by
// `make test-vllm`, which installs both.
package vllm
