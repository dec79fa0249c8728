package vllmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
)

// settings are those of the simulation, from the environment.
type settings struct {
	preset engine.Preset
	speed  float64
	start  time.Duration
	faults map[string]fault

	version string // of the vLLM that is played, such as 0.32.0
	release release
}

// readSettings reads the environment. The errors name the variable.
func readSettings(getenv func(string) string) (settings, error) {
	s := settings{speed: 1, start: time.Second}
	asked := getenv("LMWARDEN_SIM_VERSION")
	if asked == "" {
		asked = fmt.Sprintf("0.%d", defaultRelease)
	}
	var err error
	if s.version, s.release, err = parseVersion(asked); err != nil {
		return s, fmt.Errorf("LMWARDEN_SIM_VERSION: %w", err)
	}
	name := getenv("LMWARDEN_SIM_PRESET")
	if name == "" {
		name = "a4000/qwen3-4b"
	}
	if s.preset, err = engine.FindPreset(name); err != nil {
		return s, fmt.Errorf("LMWARDEN_SIM_PRESET: %w", err)
	}
	if v := getenv("LMWARDEN_SIM_SPEED"); v != "" {
		if s.speed, err = strconv.ParseFloat(v, 64); err != nil || !(s.speed > 0 && s.speed <= 1e6) {
			return s, fmt.Errorf("LMWARDEN_SIM_SPEED is %q; it must be a number above 0", v)
		}
	}
	if v := getenv("LMWARDEN_SIM_START"); v != "" {
		if s.start, err = time.ParseDuration(v); err != nil || s.start < 0 {
			return s, fmt.Errorf("LMWARDEN_SIM_START is %q; it must be a duration such as 1s", v)
		}
	}
	if s.faults, err = parseFaults(getenv("LMWARDEN_SIM_FAULT")); err != nil {
		return s, fmt.Errorf("LMWARDEN_SIM_FAULT: %w", err)
	}
	s.start += s.faults[faultSlowStart].duration
	return s, nil
}

// errNoMemory means that the model leaves no room for the cache.
var errNoMemory = errors.New("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.") //nolint:staticcheck // vLLM's own words, with their full stop

// plan sizes the engine for the options.
func plan(o options, p engine.Preset) (engine.Config, error) {
	kvScale := 1.0
	if len(o.kvDtype) >= 3 && o.kvDtype[:3] == "fp8" {
		kvScale = 0.5
	}
	blocks := o.blocks
	if blocks == 0 {
		blocks = p.Capacity(o.utilization, o.tp, kvScale) / o.blockSize
	}
	if blocks < 2 {
		return engine.Config{}, errNoMemory
	}
	room := (blocks - 1) * o.blockSize
	longest := o.maxModelLen
	switch {
	case longest == 0:
		longest = min(p.Model.MaxLen, room)
	case longest > room+1:
		gib := p.Model.KVBytes * kvScale / (1 << 30)
		return engine.Config{}, fmt.Errorf("ValueError: To serve at least one request with the model's max seq len (%d), (%.2f GiB KV cache is needed, which is larger than the available KV cache memory (%.2f GiB). Based on the available memory, the estimated maximum model length is %d. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine", longest, gib*float64(longest), gib*float64(room), room)
	}
	return engine.Config{
		BlockSize: o.blockSize, NumBlocks: blocks,
		MaxNumSeqs: o.maxNumSeqs, MaxBatchedTokens: o.maxBatched, MaxModelLen: longest,
		DisablePrefixCaching: !o.prefixCaching, Cost: p.Cost(o.tp, kvScale),
	}, nil
}

// newServer builds the part that answers HTTP, with its cores running.
func newServer(o options, set settings, log *logger) (*server, error) {
	cfg, err := plan(o, set.preset)
	if err != nil {
		return nil, err
	}
	s := &server{
		opt: o, cfg: cfg, maxModelLen: cfg.MaxModelLen, log: log, started: time.Now(),
		version: set.version, release: set.release, speed: set.speed,
		faults: &faults{on: set.faults, since: time.Now()},
	}
	s.fingerprint = fmt.Sprintf("%08x", tokenID(o.model)^tokenID(fmt.Sprint(o.tp, o.dp))*2654435761)
	s.layout = layout(o)
	for rank := range o.dp {
		c, err := newCore(o.rank+rank, cfg, set.speed)
		if err != nil {
			s.close()
			return nil, err
		}
		s.cores = append(s.cores, c)
	}
	s.fronts = newFronts(s)
	s.handler = s.newHandler()
	return s, nil
}

// close ends the cores, and what stands between them and the clients.
func (s *server) close() {
	if s.fronts != nil {
		s.fronts.close()
	}
	for _, c := range s.cores {
		c.close()
	}
}

// serve is `vllm serve`. Prefix is what stands between the program's name and "serve" on
// its command line.
func serve(args, prefix []string, stdout, stderr io.Writer) int {
	set, err := readSettings(os.Getenv)
	if err != nil {
		fmt.Fprintf(stderr, "vllm serve: error: %v\n", err)
		return exitUsage
	}
	if slices.ContainsFunc(args, asksHelp) {
		printFlags(stdout, set)
		return exitOK
	}
	opt, err := parseFlags(args, set.release)
	var usage *usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(stderr, "usage: vllm serve [model_tag] [options]\nvllm serve: error: %v\n", err)
		return exitUsage
	}
	if err != nil {
		fmt.Fprintf(stderr, "Traceback (most recent call last):\n%v\n", err)
		return exitError
	}
	title := "APIServer"
	if opt.apiServers > 1 {
		title = "MainProcess"
	}
	d := &daemon{
		opt: opt, set: set, prefix: prefix, stdout: stdout, stderr: stderr,
		log:     newLogger(stdout, title, os.Getpid()),
		signals: make(chan os.Signal, 8),
		exit:    make(chan int, 1),
	}
	signal.Notify(d.signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(d.signals)
	return d.run()
}

// layout names the ways in which the model is spread, as the fingerprint of an answer has
// them: nothing for one card.
func layout(o options) string {
	parts := ""
	if o.tp > 1 {
		parts += fmt.Sprint("-tp", o.tp)
	}
	if o.dp > 1 {
		parts += fmt.Sprint("-dp", o.dp)
	}
	return parts
}
