package vllmd

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// Exit codes, as a Python program gives them.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// Main runs the command line args, without the program's name, and returns the exit
// code. The last len(args) entries of os.Args must be args: the process starts
// itself again for its children. It takes over SIGTERM and SIGINT.
func Main(args []string, stdout, stderr io.Writer) int {
	// Two threads suffice for a process that mostly sleeps, and four of them run beside
	// each other on small machines.
	runtime.GOMAXPROCS(min(2, runtime.GOMAXPROCS(0)))
	if len(args) == 0 {
		fmt.Fprintln(stderr, "usage: vllm [-h] [-v] {serve} ...\nvllm: error: say what to run: vllm serve MODEL")
		return exitUsage
	}
	switch args[0] {
	case "serve":
		return serve(args[1:], os.Args[1:max(1, len(os.Args)-len(args))], stdout, stderr)
	case roleEngine, roleWorker, roleCoordinator, roleFront, roleOrphan:
		return runChild(args[0], args[1:], stdout)
	case "-v", "--version", "-h", "--help":
		set, err := readSettings(os.Getenv)
		if err != nil {
			fmt.Fprintf(stderr, "vllm: error: %v\n", err)
			return exitUsage
		}
		if strings.HasSuffix(args[0], "h") || strings.HasSuffix(args[0], "help") {
			fmt.Fprintln(stdout, "usage: vllm [-h] [-v] {serve} ...\n\nA simulated vLLM "+set.version+": vllm serve MODEL [options]")
			return exitOK
		}
		fmt.Fprintln(stdout, set.version)
		return exitOK
	default:
		fmt.Fprintf(stderr, "usage: vllm [-h] [-v] {serve} ...\nvllm: error: argument subparser: invalid choice: '%s' (choose from serve)\n", args[0])
		return exitUsage
	}
}
