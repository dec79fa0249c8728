// Command lmwarden turns a Linux box with NVIDIA GPUs into a model server for coding
// agents. It is the daemon (serve), a demonstration without any GPU (demo), a load
// (bench), and the client of a running daemon (all other verbs).
//
// One file holds one group of verbs. They parse, wire and print; the rules live in
// the packages. Client verbs reach a daemon only through its generated client.
package main

import (
	"context"
	"os"
	"time"

	"github.com/lmwarden/lmwarden/sim/vllmd"
)

// vllmdVerb makes this binary the simulated engine. It stands in for the command
// "vllm", so flags and signals after it are vLLM's and not ours.
const vllmdVerb = "vllmd"

func main() {
	if len(os.Args) > 1 && os.Args[1] == vllmdVerb {
		os.Exit(vllmd.Main(os.Args[2:], os.Stdout, os.Stderr))
	}
	ctx, stop := watchSignals(context.Background())
	code := run(ctx, streams{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, now: time.Now, self: os.Args[0]}, os.Args[1:])
	stop()
	os.Exit(code)
}
