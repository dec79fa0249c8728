// Package vllm is what the product knows of vLLM as a process: its command line
// ([Args]), its environment ([CheckEnv]), the meaning of its log lines ([Phase],
// [Facts], [Diagnosis]) and its metrics ([ParseMetrics]).
//
// Everything here is a pure function of its arguments. Nothing starts a process,
// opens a file or sends a request: package supervisor does. A change of vLLM's
// flags, metric names or messages is answered here and nowhere else.
package vllm
