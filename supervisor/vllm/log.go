package vllm

import (
	"regexp"
	"strconv"
	"strings"
)

// phases are the steps of a start with what shows that one has begun, the latest
// step first, since a line may hold the mark of an earlier one as well.
var phases = []struct {
	mark, name string
}{
	{"Application startup complete", "answering"},
	{"Starting vLLM server on", "opening the server"},
	{"Starting vLLM API server", "opening the server"},
	{"init engine (profile", "engine is up"},
	{"Capturing CUDA graphs", "capturing CUDA graphs"},
	{"Graph capturing finished", "capturing CUDA graphs"},
	{"KV cache size:", "sizing the KV cache"},
	{"Available KV cache memory", "sizing the KV cache"},
	{"torch.compile tak", "compiling"},
	{"torch.compile took", "compiling"},
	{"for vLLM's torch.compile", "compiling"},
	{"Dynamo bytecode transform", "compiling"},
	{"Compiling a graph", "compiling"},
	{"Directly load the compiled graph", "compiling"},
	{"Model loading took", "weights loaded"},
	{"Loading weights took", "weights loaded"},
	{"Loading safetensors checkpoint shards", "loading weights"},
	{"Starting to load model", "loading weights"},
	{"Time spent downloading weights", "weights downloaded"},
	{"distributed_init_method=", "connecting the cards"},
	{"Initializing a V1 LLM engine", "starting the engine"},
	{"Resolved architecture", "reading the configuration"},
	{"non-default args", "reading the configuration"},
}

var shardPercent = regexp.MustCompile(`checkpoint shards:\s+(\d{1,3})% Completed`)

// Phase says in a few words which step of a start a log line shows, and whether it
// shows one: "loading weights, 25 %".
func Phase(line string) (string, bool) {
	for _, p := range phases {
		if !strings.Contains(line, p.mark) {
			continue
		}
		if m := shardPercent.FindStringSubmatch(line); m != nil {
			return p.name + ", " + m[1] + " %", true
		}
		return p.name, true
	}
	return "", false
}

var facts = []struct {
	pattern *regexp.Regexp
	set     func(f *Figures, n *int64)
}{
	// The word before is GPU or CPU; numbers carry thousands separators.
	{regexp.MustCompile(`KV cache size: ([\d,]+) tokens`), func(f *Figures, n *int64) { f.CapacityTokens = n }},
	{regexp.MustCompile(`Using max model len ([\d,]+)`), func(f *Figures, n *int64) { f.MaxModelLen = n }},
	{regexp.MustCompile(`reduced from [\d,]+ to ([\d,]+)`), func(f *Figures, n *int64) { f.MaxModelLen = n }},
	{regexp.MustCompile(`max_num_batched_tokens=([\d,]+)`), func(f *Figures, n *int64) { f.MaxBatchedTokens = n }},
	{regexp.MustCompile(`'max_num_batched_tokens': (\d+)`), func(f *Figures, n *int64) { f.MaxBatchedTokens = n }},
	{regexp.MustCompile(`'max_num_seqs': (\d+)`), func(f *Figures, n *int64) { f.MaxNumSeqs = n }},
}

// Facts adds to f what a log line of a start says of the engine's sizes, and says
// whether it did. The metrics of some front ends do not carry them.
func Facts(line string, f *Figures) bool {
	found := false
	for _, fact := range facts {
		m := fact.pattern.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64)
		if err == nil && n > 0 {
			fact.set(f, &n)
			found = true
		}
	}
	return found
}

// Merge fills in what f lacks from older figures, so that what only the log or an
// earlier reading said is kept.
func (f Figures) Merge(old Figures) Figures {
	if f.Version == "" {
		f.Version = old.Version
	}
	for _, p := range []struct{ to, from **int64 }{
		{&f.MaxModelLen, &old.MaxModelLen},
		{&f.MaxNumSeqs, &old.MaxNumSeqs},
		{&f.MaxBatchedTokens, &old.MaxBatchedTokens},
		{&f.CapacityTokens, &old.CapacityTokens},
	} {
		if *p.to == nil {
			*p.to = *p.from
		}
	}
	return f
}
