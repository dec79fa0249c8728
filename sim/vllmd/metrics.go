package vllmd

import (
	"fmt"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
)

// exposition builds a metrics page in the manner of Python's client: labels sorted by
// name, whole numbers with a fraction, a _created gauge beside each counter.
type exposition struct {
	strings.Builder
	created bool // write _created gauges
}

// sample is one value with its labels, as name and value in turn.
type sample struct {
	labels []string
	value  float64
	since  time.Time
}

func pyNumber(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eIN") {
		s += ".0"
	}
	return s
}

func (x *exposition) head(name, help, kind string) {
	fmt.Fprintf(x, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (x *exposition) value(name string, labels []string, v float64) {
	x.WriteString(name)
	if len(labels) > 0 {
		pairs := make([]string, 0, len(labels)/2)
		for i := 0; i < len(labels); i += 2 {
			pairs = append(pairs, labels[i]+"="+strconv.Quote(labels[i+1]))
		}
		sort.Strings(pairs)
		x.WriteString("{" + strings.Join(pairs, ",") + "}")
	}
	x.WriteString(" " + pyNumber(v) + "\n")
}

func (x *exposition) gauge(name, help string, samples ...sample) {
	if len(samples) == 0 {
		return
	}
	x.head(name, help, "gauge")
	for _, s := range samples {
		x.value(name, s.labels, s.value)
	}
}

func (x *exposition) counter(name, help string, samples ...sample) {
	x.head(name+"_total", help, "counter")
	for _, s := range samples {
		x.value(name+"_total", s.labels, s.value)
	}
	x.createdAt(name, help, samples)
}

func (x *exposition) createdAt(name, help string, samples []sample) {
	if !x.created {
		return
	}
	x.head(name+"_created", help, "gauge")
	for _, s := range samples {
		x.value(name+"_created", s.labels, float64(s.since.UnixMicro())/1e6)
	}
}

func (x *exposition) histogram(name, help string, samples []sample, hs []*histogram) {
	x.head(name, help, "histogram")
	for i, h := range hs {
		sum := uint64(0)
		for k, n := range h.counts {
			sum += n
			le := "+Inf"
			if k < len(h.bounds) {
				le = pyNumber(h.bounds[k])
			}
			x.value(name+"_bucket", append([]string{"le", le}, samples[i].labels...), float64(sum))
		}
		x.value(name+"_count", samples[i].labels, float64(h.total))
		x.value(name+"_sum", samples[i].labels, h.sum)
	}
	x.createdAt(name, help, samples)
}

// metrics answers /metrics.
func (s *server) metrics(w http.ResponseWriter, _ *http.Request) {
	// Several API servers share a page, which is then without figures of a process.
	x := &exposition{created: s.opt.apiServers == 1}
	if s.opt.apiServers == 1 {
		s.processMetrics(x)
	}
	// All figures of one engine come from one moment.
	for _, c := range s.cores {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	s.engineMetrics(x)
	s.http.write(x)
	body := x.String()
	w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write([]byte(body))
}

// processMetrics writes what Python's client tells about its process.
func (s *server) processMetrics(x *exposition) {
	x.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
		sample{value: float64(s.started.UnixMilli()) / 1e3})
	// VmRSS is the second field of statm, in pages. Without /proc it is left out.
	if raw, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(raw)); len(f) > 1 {
			pages, _ := strconv.ParseFloat(f[1], 64)
			x.gauge("process_resident_memory_bytes", "Resident memory size in bytes.",
				sample{value: pages * float64(os.Getpagesize())})
		}
	}
}

// each makes a sample for each engine.
func (s *server) each(f func(c *core, st engine.Stats) float64, more ...string) []sample {
	out := make([]sample, 0, len(s.cores))
	for _, c := range s.cores {
		labels := append([]string{"model_name", s.opt.served[0], "engine", strconv.Itoa(c.rank)}, more...)
		out = append(out, sample{labels, f(c, c.stats()), c.figures.created})
	}
	return out
}

// served makes a sample for each engine whose gauges exist: with several API servers
// an engine that has computed nothing has none.
func (s *server) served(f func(c *core, st engine.Stats) float64, more ...string) []sample {
	all := s.each(f, more...)
	if s.opt.apiServers == 1 {
		return all
	}
	out := all[:0]
	for i, v := range all {
		if s.cores[i].stats().Steps > 0 {
			out = append(out, v)
		}
	}
	return out
}

func zero(*core, engine.Stats) float64 { return 0 }

// engineMetrics writes vLLM's own metrics. The caller holds all cores' locks.
func (s *server) engineMetrics(x *exposition) {
	s.gauges(x)
	s.counters(x)
	s.histograms(x)
	s.cacheConfig(x)
}

func (s *server) gauges(x *exposition) {
	x.gauge("vllm:num_requests_running", "Number of requests in model execution batches.",
		s.served(func(_ *core, st engine.Stats) float64 { return float64(st.Running) })...)
	waiting := func(_ *core, st engine.Stats) float64 { return float64(st.Waiting) }
	x.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", s.served(waiting)...)
	if s.release.has(waitingReasons) {
		x.gauge("vllm:num_requests_waiting_by_reason", "Number of waiting requests by reason.",
			append(s.served(waiting, "reason", "capacity"), s.served(zero, "reason", "deferred")...)...)
	}
	awake := func(*core, engine.Stats) float64 { return 1 }
	x.gauge("vllm:engine_sleep_state", "Engine sleep state.", append(append(
		s.served(awake, "sleep_state", "awake"),
		s.served(zero, "sleep_state", "weights_offloaded")...),
		s.served(zero, "sleep_state", "discard_all")...)...)
	x.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
		s.served(func(_ *core, st engine.Stats) float64 { return float64(st.UsedBlocks) / float64(st.Blocks) })...)
}

func (s *server) counters(x *exposition) {
	count := func(f func(st engine.Stats) int, more ...string) []sample {
		return s.each(func(_ *core, st engine.Stats) float64 { return float64(f(st)) }, more...)
	}
	x.counter("vllm:prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.",
		count(func(st engine.Stats) int { return st.PrefixQueries })...)
	x.counter("vllm:prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.",
		count(func(st engine.Stats) int { return st.PrefixHits })...)
	for _, name := range []string{"external_prefix_cache_queries", "external_prefix_cache_hits", "mm_cache_queries", "mm_cache_hits"} {
		x.counter("vllm:"+name, "Not used by this engine.", s.each(zero)...)
	}
	x.counter("vllm:num_preemptions", "Cumulative number of preemptions from the engine.",
		count(func(st engine.Stats) int { return st.Preemptions })...)
	x.counter("vllm:prompt_tokens", "Number of prefill tokens processed.",
		count(func(st engine.Stats) int { return st.PromptTokens })...)
	cached := func(st engine.Stats) int { return st.CachedTokens }
	none := func(engine.Stats) int { return 0 }
	x.counter("vllm:prompt_tokens_by_source", "Number of prompt tokens by source.", append(append(
		count(func(st engine.Stats) int { return st.PromptTokens - st.CachedTokens }, "source", "local_compute"),
		count(cached, "source", "local_cache_hit")...),
		count(none, "source", "external_kv_transfer")...)...)
	x.counter("vllm:prompt_tokens_cached", "Number of cached prompt tokens.", count(cached)...)
	if s.release.has(recomputedTokens) {
		x.counter("vllm:prompt_tokens_recomputed", "Number of cached prompt tokens that were computed again.", count(none)...)
	}
	bySource := count(cached, "source", "device")
	for _, source := range []string{"host", "p2p", "disk", "external_unspecified"} {
		bySource = append(bySource, count(none, "source", source)...)
	}
	if s.release.has(cachedBySource) {
		x.counter("vllm:prompt_tokens_cached_by_source", "Number of cached prompt tokens by source.", bySource...)
	}
	x.counter("vllm:generation_tokens", "Number of generation tokens processed.",
		count(func(st engine.Stats) int { return st.Generated })...)
	reasons := s.each(func(c *core, _ engine.Stats) float64 { return float64(c.figures.stop) }, "finished_reason", "stop")
	reasons = append(reasons, s.each(func(c *core, _ engine.Stats) float64 { return float64(c.figures.length) }, "finished_reason", "length")...)
	for _, r := range []string{"abort", "error", "repetition"} {
		reasons = append(reasons, count(none, "finished_reason", r)...)
	}
	x.counter("vllm:request_success", "Count of successfully processed requests.", reasons...)
	var rejected []sample
	for _, r := range []string{"max_num_queued_reqs", "max_num_queued_tokens"} {
		rejected = append(rejected, sample{[]string{"model_name", s.opt.served[0], "reason", r}, 0, s.started})
	}
	if s.release.has(admissionRejected) {
		x.counter("vllm:admission_rejections", "Count of requests rejected at admission.", rejected...)
	}
}

func (s *server) histograms(x *exposition) {
	labels := s.each(zero)
	for _, h := range []struct {
		name, help string
		of         func(f *figures) *histogram
	}{
		{"request_prompt_tokens", "Number of prefill tokens processed.", func(f *figures) *histogram { return f.prompt }},
		{"request_generation_tokens", "Number of generation tokens processed.", func(f *figures) *histogram { return f.generation }},
		{"iteration_tokens_total", "Histogram of number of tokens per engine_step.", func(f *figures) *histogram { return f.iteration }},
		{"request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", func(f *figures) *histogram { return f.maxGeneration }},
		{"request_params_n", "Histogram of the n request parameter.", func(f *figures) *histogram { return f.choices }},
		{"request_params_max_tokens", "Histogram of the max_tokens request parameter.", func(f *figures) *histogram { return f.maxTokens }},
		{"time_to_first_token_seconds", "Histogram of time to first token in seconds.", func(f *figures) *histogram { return f.first }},
		{"inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", func(f *figures) *histogram { return f.between }},
		{"request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", func(f *figures) *histogram { return f.perToken }},
		{"e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", func(f *figures) *histogram { return f.e2e }},
		{"request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", func(f *figures) *histogram { return f.queue }},
		{"request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", func(f *figures) *histogram { return f.inference }},
		{"request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", func(f *figures) *histogram { return f.prefill }},
		{"request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", func(f *figures) *histogram { return f.decode }},
		{"request_num_preemptions", "Histogram of preemptions per request.", func(f *figures) *histogram { return f.redone }},
		{"request_prefill_kv_computed_tokens", "Histogram of new KV tokens computed during prefill.", func(f *figures) *histogram { return f.computed }},
	} {
		if h.name == "request_num_preemptions" && !s.release.has(preemptionsCount) {
			continue
		}
		hs := make([]*histogram, 0, len(s.cores))
		for _, c := range s.cores {
			hs = append(hs, h.of(&c.figures))
		}
		x.histogram("vllm:"+h.name, h.help, labels, hs)
	}
}

// httpFigures counts requests as the framework's instrumentation does.
type httpFigures struct {
	mu       sync.Mutex
	requests map[[3]string]int // handler, method, status class
	seconds  map[[2]string]*histogram
}

// add counts an answered request. Probes are left out.
func (h *httpFigures) add(pattern string, r *http.Request, rec *recorder, d time.Duration) {
	switch pattern {
	case "/metrics", "/health", "/load", "/ping", "/version", "/sim/fault":
		return
	case "/", "":
		pattern = "none"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.requests == nil {
		h.requests = make(map[[3]string]int)
		h.seconds = make(map[[2]string]*histogram)
	}
	h.requests[[3]string{pattern, r.Method, strconv.Itoa(rec.status/100) + "xx"}]++
	key := [2]string{pattern, r.Method}
	if h.seconds[key] == nil {
		h.seconds[key] = newHistogram([]float64{.1, .5, 1})
	}
	h.seconds[key].observe(d.Seconds())
}

// write adds the figures to a page.
func (h *httpFigures) write(x *exposition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var counts, durations []sample
	for k, n := range h.requests {
		counts = append(counts, sample{labels: []string{"handler", k[0], "method", k[1], "status", k[2]}, value: float64(n)})
	}
	sort.Slice(counts, func(i, j int) bool { return strings.Join(counts[i].labels, " ") < strings.Join(counts[j].labels, " ") })
	keys := make([][2]string, 0, len(h.seconds))
	for k := range h.seconds {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i][0]+keys[i][1] < keys[j][0]+keys[j][1] })
	hs := make([]*histogram, 0, len(keys))
	for _, k := range keys {
		durations = append(durations, sample{labels: []string{"handler", k[0], "method", k[1]}})
		hs = append(hs, h.seconds[k])
	}
	created := x.created
	x.created = false
	x.counter("http_requests", "Total number of requests by method, status and handler.", counts...)
	x.histogram("http_request_duration_seconds", "Latency with only few buckets by handler.", durations, hs)
	x.created = created
}
