package vllmd

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options is a parsed command line.
type options struct {
	model         string
	served        []string // names that clients may use; the first is the model's own
	host          string
	port          int
	maxModelLen   int // 0 when not given
	maxNumSeqs    int
	maxBatched    int
	blockSize     int
	blocks        int // 0 when not overridden
	utilization   float64
	kvDtype       string
	tp, dp        int
	shutdownAfter int // seconds
	apiKeys       []string
	promptDetails bool
	forceUsage    bool
	perRequest    bool
	tools         bool          // automatic tool choice is on and has a parser
	toolParser    bool          // calls of tools are told from text
	scaleOut      bool          // the endpoints that render prompts are open
	trackLoad     bool          // /load counts
	echoIDs       bool          // X-Request-Id is sent back
	keepAlive     time.Duration // between comments in silent streams; 0 for none
	apiServers    int
	rank          int // of a process that is one rank of several; else 0
	prefixCaching bool
	accessLog     bool
	quietPaths    []string // paths without an access log line
	statsLog      bool
	eager         bool
	loadFormat    string
	given         []string // "'name': value" of what differs from the defaults, for the log
	duplicates    []string
}

// usageError is a command line that argparse would refuse.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// parseFlags reads the arguments after `vllm serve` as that release does.
func parseFlags(args []string, rel release) (options, error) {
	values, positional, unknown, err := scanFlags(args, rel)
	if err != nil {
		return options{}, err
	}
	if len(unknown) > 0 {
		return options{}, usagef("unrecognized arguments: %s", strings.Join(unknown, " "))
	}
	if len(positional) > 1 {
		return options{}, usagef("unrecognized arguments: %s", strings.Join(positional[1:], " "))
	}
	return buildOptions(values, positional, rel)
}

// asksHelp knows the flags that print the others: --help=all, --help=listgroup, ... too.
func asksHelp(arg string) bool {
	head, _, _ := strings.Cut(arg, "=")
	return head == "-h" || head == "--help"
}

// printFlags lists the flags of the release that is played.
func printFlags(w io.Writer, set settings) {
	fmt.Fprintf(w, "usage: vllm serve [model_tag] [options]\n\nA simulated vLLM %s. It takes these options, and ignores those that it has no use for:\n\n", set.version)
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		switch {
		case !set.release.knowsFlag(name), slices.Contains(notSimulated, name):
		case kinds[name] == kindBool:
			fmt.Fprintf(w, "  --%s, --no-%s\n", name, name)
		default:
			fmt.Fprintf(w, "  --%s %s\n", name, strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		}
	}
}

// flagValues holds what was given for each flag, in order; the last one counts.
type flagValues struct {
	byName map[string][]string
	order  []string
	twice  []string
}

func (v *flagValues) set(name string, vals []string) {
	if _, again := v.byName[name]; again {
		v.twice = append(v.twice, name)
	} else {
		v.order = append(v.order, name)
	}
	v.byName[name] = vals
}

// scanFlags tells flags, their values and positional arguments apart.
func scanFlags(args []string, rel release) (v flagValues, positional, unknown []string, err error) {
	v.byName = make(map[string][]string)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			positional = append(positional, arg)
			continue
		}
		head, value, inline := strings.Cut(arg, "=")
		name, off, ok := flagName(head)
		if !ok || !rel.knowsFlag(name) {
			unknown = append(unknown, arg)
			continue
		}
		var vals []string
		switch k := kinds[name]; {
		case k == kindBool && inline:
			return v, nil, nil, usagef("argument --%s: ignored explicit argument '%s'", name, value)
		case k == kindBool:
			vals = []string{strconv.FormatBool(!off)}
		case inline:
			vals = []string{value}
		default:
			for i+1 < len(args) && (!strings.HasPrefix(args[i+1], "-") || isNumber(args[i+1])) {
				i++
				vals = append(vals, args[i])
				if k != kindList {
					break
				}
			}
			if len(vals) == 0 {
				want := "one argument"
				if k == kindList {
					want = "at least one argument"
				}
				return v, nil, nil, usagef("argument --%s: expected %s", name, want)
			}
		}
		v.set(name, vals)
	}
	return v, positional, unknown, nil
}

// flagName returns the table's name of a flag as written, and whether it is the
// negated form. Underscores are dashes, and --name.key sets a part of a JSON flag.
func flagName(head string) (name string, off, ok bool) {
	base, _, dotted := strings.Cut(head, ".")
	if long, short := shortNames[base]; short {
		return long, false, true
	}
	if !strings.HasPrefix(base, "--") {
		return "", false, false
	}
	name = strings.ReplaceAll(base[2:], "_", "-")
	if dotted {
		return name, false, strings.HasSuffix(name, "-config")
	}
	if _, ok = kinds[name]; ok {
		return name, false, true
	}
	if rest, negated := strings.CutPrefix(name, "no-"); negated && kinds[rest] == kindBool {
		return rest, true, true
	}
	return "", false, false
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// buildOptions checks the values and fills in the defaults.
func buildOptions(v flagValues, positional []string, rel release) (options, error) {
	utilization := 0.9
	if rel.has(utilization92) {
		utilization = 0.92
	}
	r := reader{values: v.byName}
	o := options{
		model:         r.text("model", "Qwen/Qwen3-0.6B"),
		served:        v.byName["served-model-name"],
		host:          r.text("host", ""),
		port:          r.number("port", 8000, 0),
		maxModelLen:   r.length("max-model-len", 0),
		maxNumSeqs:    r.number("max-num-seqs", 256, 1),
		maxBatched:    r.length("max-num-batched-tokens", 2048),
		blockSize:     r.number("block-size", 16, 1),
		blocks:        r.number("num-gpu-blocks-override", 0, 2),
		utilization:   r.fraction("gpu-memory-utilization", utilization),
		kvDtype:       r.text("kv-cache-dtype", "auto"),
		tp:            r.number("tensor-parallel-size", 1, 1),
		dp:            r.number("data-parallel-size", 1, 1),
		shutdownAfter: r.number("shutdown-timeout", 0, 0),
		apiKeys:       v.byName["api-key"],
		promptDetails: r.on("enable-prompt-tokens-details", false),
		forceUsage:    r.on("enable-force-include-usage", false),
		prefixCaching: r.on("enable-prefix-caching", true),
		accessLog:     !r.on("disable-uvicorn-access-log", false),
		statsLog:      !r.on("disable-log-stats", false),
		eager:         r.on("enforce-eager", false),
		loadFormat:    r.text("load-format", "auto"),
		duplicates:    v.twice,
		perRequest:    r.on("enable-per-request-metrics", false),
		scaleOut:      r.on("enable-scale-out", false),
		trackLoad:     r.on("enable-server-load-tracking", false),
		echoIDs:       r.on("enable-request-id-headers", false),
		keepAlive:     time.Duration(r.number("sse-keep-alive-interval", 0, 0)) * time.Second,
		rank:          r.number("data-parallel-rank", 0, 0),
	}
	o.apiServers = r.number("api-server-count", o.dp, 1)
	// As in the real one, keys of the command line replace that of the environment.
	if key := os.Getenv("VLLM_API_KEY"); len(o.apiKeys) == 0 && key != "" {
		o.apiKeys = []string{key}
	}
	if paths := r.text("disable-access-log-for-endpoints", ""); paths != "" {
		o.quietPaths = strings.Split(paths, ",")
	}
	external := o.dp > 1 && (v.byName["data-parallel-rank"] != nil ||
		r.on("data-parallel-external-lb", false) || r.on("data-parallel-multi-port-external-lb", false))
	auto, parser := r.on("enable-auto-tool-choice", false), r.text("tool-call-parser", "")
	for _, name := range notSimulated {
		if _, given := v.byName[name]; given {
			return options{}, fmt.Errorf("NotImplementedError: the simulated engine has no --%s", name)
		}
	}
	switch {
	case r.err != nil:
		return options{}, r.err
	case o.tp*o.dp > mostCards || o.tp > mostCards || o.dp > mostCards:
		return options{}, fmt.Errorf("ValueError: %d replicas of %d cards; the simulated box has at most %d cards", o.dp, o.tp, mostCards)
	case o.blocks > mostBlocks:
		return options{}, fmt.Errorf("ValueError: %d blocks; the simulated cache has at most %d", o.blocks, mostBlocks)
	case external && !rel.has(denseExternal):
		return options{}, fmt.Errorf("ValueError: Non-MoE models do not support external data parallel mode. For external load balancing, launch independent vLLM instances without --data-parallel-* arguments.") //nolint:staticcheck // vLLM's own words
	case auto && parser == "":
		return options{}, fmt.Errorf("TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser")
	case !slices.Contains([]string{"auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"}, o.kvDtype):
		return options{}, usagef("argument --kv-cache-dtype: invalid choice: '%s' (choose from auto, bfloat16, fp8, fp8_e4m3, fp8_e5m2)", o.kvDtype)
	}
	o.tools, o.toolParser = auto, parser != ""
	if external { // this process is one of the ranks, with an engine and a server of its own
		o.dp, o.apiServers = 1, 1
	}
	if len(positional) == 1 {
		o.model = positional[0]
		o.given = append(o.given, pyItem("model_tag", []string{o.model}, kindText))
	}
	if len(o.served) == 0 {
		o.served = []string{o.model}
	}
	for _, name := range v.order {
		o.given = append(o.given, pyItem(name, v.byName[name], kinds[name]))
	}
	return o, nil
}

// pyItem renders a flag as an entry of a Python dict.
func pyItem(name string, vals []string, k kind) string {
	value := vals[len(vals)-1]
	switch k {
	case kindBool:
		value = map[string]string{"true": "True", "false": "False"}[value]
	case kindText:
		value = "'" + value + "'"
	case kindList:
		value = "['" + strings.Join(vals, "', '") + "']"
	case kindInt, kindLen, kindFloat:
	}
	return fmt.Sprintf("'%s': %s", strings.ReplaceAll(name, "-", "_"), value)
}

// reader converts values and keeps the first error.
type reader struct {
	values map[string][]string
	err    error
}

func (r *reader) last(name string) (string, bool) {
	v, ok := r.values[name]
	if !ok || len(v) == 0 {
		return "", false
	}
	return v[len(v)-1], true
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = usagef(format, args...)
	}
}

func (r *reader) text(name, def string) string {
	if v, ok := r.last(name); ok {
		return v
	}
	return def
}

func (r *reader) on(name string, def bool) bool {
	if v, ok := r.last(name); ok {
		return v == "true"
	}
	return def
}

func (r *reader) number(name string, def, least int) int {
	v, ok := r.last(name)
	if !ok {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		r.fail("argument --%s: invalid int value: '%s'", name, v)
	} else if n < least {
		r.fail("argument --%s: %d is less than %d", name, n, least)
	}
	return n
}

func (r *reader) fraction(name string, def float64) float64 {
	v, ok := r.last(name)
	if !ok {
		return def
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil {
		r.fail("argument --%s: invalid float value: '%s'", name, v)
	} else if f <= 0 || f > 1 {
		r.fail("argument --%s: %s is not between 0 and 1", name, v)
	}
	return f
}

// Bounds of what is simulated, so that a slip of the pen does not fill the memory.
const (
	mostTokens = 1 << 40
	mostBlocks = 1 << 24
	mostCards  = 64
)

// length reads a number of tokens: 4096, 32k (thousands), 32K (1,024s), 1m, 1M, auto.
func (r *reader) length(name string, def int) int {
	v, ok := r.last(name)
	if !ok || v == "auto" || v == "-1" {
		return def
	}
	digits, scale := v, 1.0
	for suffix, s := range map[string]float64{"k": 1e3, "K": 1 << 10, "m": 1e6, "M": 1 << 20, "g": 1e9, "G": 1 << 30} {
		if d, found := strings.CutSuffix(v, suffix); found {
			digits, scale = d, s
		}
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(f >= 1 && f*scale <= mostTokens) {
		r.fail("argument --%s: invalid human_readable_int value: '%s'", name, v)
		return def
	}
	return int(f * scale)
}
