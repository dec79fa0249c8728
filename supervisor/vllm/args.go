package vllm

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Engine is what one "vllm serve" process should be. A zero field is left to vLLM.
type Engine struct {
	// Source is a Hugging Face repository or a local path.
	Source string
	// ServedName is the name that requests carry.
	ServedName string
	// TensorParallel is the number of cards over which the model is split; 0 and 1
	// mean one card.
	TensorParallel int
	// MaxModelLen is the most tokens of prompt and answer together.
	MaxModelLen int
	// MaxNumSeqs is the most requests that are computed at the same time.
	MaxNumSeqs int
	// MaxBatchedTokens is the most tokens that one step computes.
	MaxBatchedTokens int
	// MemoryUtilization is the share of each card's memory that the engine takes,
	// above 0 and at most 1.
	MemoryUtilization float64
	// KVCacheType is vLLM's --kv-cache-dtype: "auto", "fp8".
	KVCacheType string
	// ToolCallParser and ReasoningParser are names that vLLM knows.
	ToolCallParser  string
	ReasoningParser string
	// Extra is appended last, so that it wins over what stands before it.
	Extra []string
	// Env is added to the environment of the process.
	Env map[string]string
}

// Args returns the arguments of the engine command, "serve" first, without --host
// and --port, which are the supervisor's. It is the only place that builds them.
// What [Check] refuses gives arguments that an engine must not be started with.
func Args(e Engine) []string {
	args := []string{"serve", e.Source}
	add := func(flag, value string) { args = append(args, flag, value) }
	number := func(flag string, n int) {
		if n > 0 {
			add(flag, strconv.Itoa(n))
		}
	}
	text := func(flag, value string) {
		if value != "" {
			add(flag, value)
		}
	}
	text("--served-model-name", e.ServedName)
	if e.TensorParallel > 1 {
		number("--tensor-parallel-size", e.TensorParallel)
	}
	number("--max-model-len", e.MaxModelLen)
	number("--max-num-seqs", e.MaxNumSeqs)
	number("--max-num-batched-tokens", e.MaxBatchedTokens)
	if e.MemoryUtilization > 0 {
		add("--gpu-memory-utilization", strconv.FormatFloat(e.MemoryUtilization, 'f', -1, 64))
	}
	text("--kv-cache-dtype", e.KVCacheType)
	if e.ToolCallParser != "" {
		// vLLM takes neither of the two without the other.
		args = append(args, "--enable-auto-tool-choice")
		add("--tool-call-parser", e.ToolCallParser)
	}
	text("--reasoning-parser", e.ReasoningParser)
	// Without it no usage record says how much of a prompt was cached.
	args = append(args, "--enable-prompt-tokens-details")
	// Three probes a second would hide everything else in the log.
	add("--disable-access-log-for-endpoints", "/health,/metrics,/ping,/version,/v1/models")
	return append(args, e.Extra...)
}

// reserved flags are the product's own; the value says why a person cannot set them.
var reserved = map[string]string{
	"host":              "engines listen on the loopback address only",
	"port":              "each replica gets a free port of its own",
	"uds":               "engines are reached through a port",
	"served-model-name": "requests are sent with the name of the model; give other names as aliases",
	"api-key":           "engines are reached through the proxy, which has keys of its own",
	"disable-log-stats": "the engine's counters would be missing",
	"ssl-keyfile":       "engines listen on the loopback address without TLS",
	"ssl-certfile":      "engines listen on the loopback address without TLS",
	"root-path":         "engines are asked at the root of their address",
	"headless":          "an engine without an API server cannot answer",
}

// Check says in one error what of the engine cannot be, or nil. The error names
// every fault, one per line.
func Check(e Engine) error {
	var faults []error
	if strings.TrimSpace(e.Source) == "" {
		faults = append(faults, errors.New("the model has no source; give a Hugging Face repository or a local path"))
	}
	if strings.HasPrefix(e.Source, "-") {
		faults = append(faults, fmt.Errorf("the source %q begins with a dash, which vLLM would read as a flag; give a Hugging Face repository or a path", e.Source))
	}
	if u := e.MemoryUtilization; u < 0 || u > 1 || math.IsNaN(u) {
		faults = append(faults, fmt.Errorf("the memory utilization %v is not a share; give a number above 0 and at most 1", u))
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"tensor parallel size", e.TensorParallel},
		{"max model len", e.MaxModelLen},
		{"max num seqs", e.MaxNumSeqs},
		{"max batched tokens", e.MaxBatchedTokens},
	} {
		if n.value < 0 {
			faults = append(faults, fmt.Errorf("the %s is %d; give a number above 0, or 0 to leave it to the engine", n.name, n.value))
		}
	}
	faults = append(faults, CheckExtra(e.Extra), CheckEnv(e.Env))
	return errors.Join(faults...)
}

// CheckExtra refuses arguments that would replace the product's own. It sees
// through "--flag=value", underscores and abbreviations.
func CheckExtra(args []string) error {
	var faults []error
	for _, arg := range args {
		name, isFlag := strings.CutPrefix(arg, "--")
		if !isFlag || len(name) < 2 {
			continue
		}
		name, _, _ = strings.Cut(name, "=")
		name = strings.ReplaceAll(name, "_", "-")
		for flag, why := range reserved {
			if strings.HasPrefix(flag, name) {
				faults = append(faults, fmt.Errorf("the argument %s cannot be given, because %s; remove it", arg, why))
			}
		}
	}
	return errors.Join(faults...)
}

// reservedEnv names what the supervisor sets itself.
var reservedEnv = map[string]string{
	"CUDA_VISIBLE_DEVICES":     "the layout chooses the cards",
	"CUDA_DEVICE_ORDER":        "cards are named by their UUIDs in PCI bus order",
	"NVIDIA_VISIBLE_DEVICES":   "the layout chooses the cards",
	"VLLM_PORT":                "each replica gets a range of internal ports of its own",
	"VLLM_HOST_IP":             "replicas are processes of this box",
	"VLLM_PROCESS_NAME_PREFIX": "a replica's processes are recognised by it",
	"SPT_NOENV":                "a replica's processes are recognised by their environment",
	"VLLM_API_KEY":             "engines are reached through the proxy, which has keys of its own",
}

// EnvPrefix begins the names of variables by which the product marks its processes.
const EnvPrefix = "LMWARDEN_"

// CheckEnv refuses variables that the product sets itself.
func CheckEnv(env map[string]string) error {
	var faults []error
	for name, value := range env {
		switch why, taken := reservedEnv[name]; {
		case taken:
			faults = append(faults, fmt.Errorf("the variable %s cannot be given, because %s; remove it", name, why))
		case strings.HasPrefix(name, EnvPrefix):
			faults = append(faults, fmt.Errorf("the variable %s cannot be given, because names that begin with %s are the product's own; remove it", name, EnvPrefix))
		case name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00"):
			faults = append(faults, fmt.Errorf("the variable %q is not a name and a value that a process can get; remove it", name))
		}
	}
	return errors.Join(faults...)
}
