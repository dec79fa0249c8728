package vllm

import (
	"regexp"
	"strings"
)

// Kind of a failure: what starting again can do about it.
type Kind int

// The kinds.
const (
	// Unknown failures are tried again, within the budget.
	Unknown Kind = iota
	// Transient failures may pass by themselves and are tried again.
	Transient
	// PortTaken means that another process has the port; another one helps.
	PortTaken
	// Configuration means that the same start fails again until a person changes
	// something.
	Configuration
)

// Cause is why an engine failed, for the person who must act.
type Cause struct {
	Kind Kind
	// Sentence is what happened and what to do.
	Sentence string
	// Line is the log line that showed it.
	Line string
}

// signature is how a failure looks in the log. In advice $1, $2 stand for the groups
// of the pattern.
type signature struct {
	pattern *regexp.Regexp
	kind    Kind
	advice  string
}

func sign(pattern string, kind Kind, advice string) signature {
	return signature{regexp.MustCompile(pattern), kind, advice}
}

// signatures from the most telling to the least: a root cause is often followed, and
// sometimes announced, by general lines that say only that something failed.
var signatures = []signature{
	sign(`Free memory on device (\S+) \(([^)]*)\) on startup is less than desired GPU memory utilization`, Transient,
		"Card $1 has too little free memory ($2): another process holds it, often an engine that was not ended. Free the card or lower the memory utilization."),
	sign(`less than desired CPU memory utilization`, Transient,
		"The host has too little free memory for the share that the engine wants. Set VLLM_CPU_KVCACHE_SPACE in the model's environment, or lower the memory utilization."),
	sign(`estimated maximum model length is (\d+)`, Configuration,
		"One request of the longest context does not fit into the KV cache. Set the longest context to $1 tokens or less, use an fp8 KV cache, or more cards per replica."),
	sign(`No available memory for the cache blocks`, Configuration,
		"The weights leave no memory for the KV cache. Raise the memory utilization, use more cards per replica or a smaller model."),
	sign(`CUDA out of memory occurred when warming up sampler with (\d+) dummy requests`, Configuration,
		"The card ran out of memory while warming up with $1 requests. Lower the most requests at the same time, or the memory utilization."),
	sign(`Failed to load model - not enough GPU memory|OutOfMemoryError|CUDA out of memory`, Configuration,
		"The model does not fit into the memory of its cards. Use more cards per replica, a quantised model or a smaller one."),
	sign(`gated repo|GatedRepoError|401 Client Error|403 Client Error`, Configuration,
		"Hugging Face refuses the download. Accept the model's licence there and give the engine an HF_TOKEN that has access: --env HF_TOKEN=... for this model, or engine.pass_env for the daemon's own (with a token set, access was not granted yet)."),
	sign(`Repository Not Found|RepositoryNotFoundError|is not a local folder and is not a valid model identifier`, Configuration,
		"There is no such model on Hugging Face or on this disk. Check the source. A private repository needs a token: --env HF_TOKEN=... for this model, or HF_TOKEN in engine.pass_env for the daemon's own."),
	sign(`Model architectures \[([^\]]*)\] (?:are not supported|failed to be inspected)`, Configuration,
		"This vLLM does not know the architecture $1. Install a newer vLLM or choose another model."),
	sign(`Cannot find any model weights with`, Configuration,
		"The repository or folder has no weights, or the download is not complete. Check the source."),
	sign(`invalid tool call parser: ([^\s(]+)`, Configuration,
		"vLLM knows no tool call parser named $1. Choose one of those that the log names."),
	sign(`invalid reasoning parser: ([^\s(]+)|[Rr]easoning parser '?([^\s']+)'? not found`, Configuration,
		"vLLM does not know the reasoning parser $1$2. Choose one of those that the log names."),
	sign(`--enable-auto-tool-choice requires --tool-call-parser`, Configuration,
		"Tool calls need a parser. Set the tool call parser."),
	sign(`Non-MoE models do not support external data parallel mode`, Configuration,
		"vLLM refuses its own data parallel mode for a dense model. Remove the data parallel arguments and use replicas."),
	sign(`error: (unrecognized arguments: .*|argument .*|the following arguments are required: .*)`, Configuration,
		"The engine does not take its command line: $1. Change the model's settings or its further arguments."),
	sign(`Total number of attention heads \((\d+)\) must be divisible by tensor parallel size \((\d+)\)`, Configuration,
		"$1 attention heads cannot be divided over $2 cards. Choose a number of cards that divides them."),
	sign(`DistNetworkError.*EADDRINUSE|EADDRINUSE.*(?:TCPStore|init_method)`, Transient,
		"Two engines that started at once wanted the same internal port. The next start gets through."),
	sign(`[Ee]rrno 98|[Aa]ddress already in use|EADDRINUSE`, PortTaken,
		"Another process has the engine's port. The next start takes another one."),
	sign(`VLLM_ENGINE_READY_TIMEOUT_S`, Configuration,
		"The engine gave up waiting for itself. Set VLLM_ENGINE_READY_TIMEOUT_S in the model's environment to more seconds; a first start or a large model needs it."),
	sign(`No space left on device`, Configuration,
		"The disk or /dev/shm is full. Free space and start the model again."),
	sign(`Worker proc (\S+) died unexpectedly \(exit code: -9\)`, Transient,
		"Worker process $1 was killed from outside, usually because the host ran out of memory."),
	sign(`Worker proc (\S+) died unexpectedly \(exit code: -4\)`, Configuration,
		"This CPU, or the virtual machine around it, refuses an instruction that the engine uses. With vLLM's CPU build, --dtype float32 and ONEDNN_MAX_CPU_ISA=AVX512_CORE in the model's environment avoid it."),
	sign(`NCCL error|ncclUnhandledCudaError|ncclSystemError|unhandled system error`, Transient,
		"The cards could not be connected (NCCL). Try NCCL_P2P_DISABLE=1 in the model's environment, give /dev/shm 2 GiB or more, and check the list of cards."),
	sign(`no NVIDIA GPU|No CUDA GPUs are available|CUDA driver initialization failed|Failed to infer device type`, Configuration,
		"The engine sees no card. Check the driver, and that the service may open /dev/nvidia*."),
	sign(`CUDA error: (.*)`, Transient,
		"The card reported an error: $1."),
	sign(`Worker proc (\S+) died unexpectedly \(exit code: ([^)]*)\)`, Transient,
		"Worker process $1 ended with code $2; its lines in the log say why."),
	sign(`Engine core process (\S+) died unexpectedly`, Transient,
		"The engine's process $1 ended; its last lines in the log say why."),
	sign(`(?:^|[\s.])([A-Z]\w*(?:Error|Exception)): (.+)`, Unknown,
		"$1: $2."),
	sign(`EngineCore encountered a fatal error|EngineDeadError`, Transient,
		"The engine stopped with a fatal error; the first lines of it in the log say why."),
	sign(`EngineCore failed to start`, Unknown,
		"The engine could not start; the first lines of the error in the log say why."),
}

// Diagnosis finds the first cause in the lines of one life. The zero value is ready;
// it is not safe for concurrent use.
type Diagnosis struct {
	rank  int // 1 plus the place of the best signature seen; 0 means none
	cause Cause
}

// Add takes the next line of the log.
func (d *Diagnosis) Add(line string) {
	best := len(signatures)
	if d.rank > 0 {
		best = d.rank - 1
	}
	// Only a more telling signature replaces what was found, so that of two lines of
	// the same kind the first one counts.
	for i, s := range signatures[:best] {
		m := s.pattern.FindStringSubmatchIndex(line)
		if m == nil {
			continue
		}
		sentence := string(s.pattern.ExpandString(nil, s.advice, line, m))
		d.rank = i + 1
		d.cause = Cause{Kind: s.kind, Sentence: tidy(sentence), Line: line}
		return
	}
}

// Cause is the most telling failure seen so far, and whether there is one.
func (d *Diagnosis) Cause() (Cause, bool) { return d.cause, d.rank > 0 }

// tidy ends a sentence with one full stop and keeps it readable.
func tidy(s string) string {
	const most = 500
	s = strings.TrimRight(strings.TrimSpace(s), ".")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s + "."
}
