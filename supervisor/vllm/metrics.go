package vllm

import (
	"bufio"
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
)

// MaxMetricsBytes is how much of an answer of /metrics is worth reading.
const MaxMetricsBytes = 8 << 20

// ErrNoMetrics means that a text has no figure of vLLM in it: something else answers
// at that address, or the engine was started without its statistics.
var ErrNoMetrics = errors.New("the answer of /metrics has no figure of vLLM")

// sample is one line of a metrics text.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// ParseMetrics reads the figures out of an answer of /metrics, in Prometheus' text
// form or in OpenMetrics. Lines that it cannot read are passed over, since one odd
// line must not hide the others. Several engines behind one address are added up; the
// share of used blocks is their mean. At and Version stay zero.
func ParseMetrics(text []byte) (Figures, error) {
	var s sums
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if sample, ok := parseSample(lines.Text()); ok {
			s.add(sample)
		}
	}
	if !s.any {
		return Figures{}, ErrNoMetrics
	}
	return s.figures(), nil
}

// sums collects the samples of one reading by the name of the figure.
type sums struct {
	any      bool
	sum      map[string]float64
	count    map[string]int
	sized    int64 // sum of kv_cache_size_tokens
	blocks   int64 // num_gpu_blocks, which already is the sum over all engines
	blockLen int64
}

func (s *sums) add(m sample) {
	name, ours := strings.CutPrefix(m.name, "vllm:")
	if !ours {
		return
	}
	s.any = true
	if name == "cache_config_info" {
		s.sized += label(m, "kv_cache_size_tokens")
		s.blocks = label(m, "num_gpu_blocks")
		s.blockLen = label(m, "block_size")
		return
	}
	if s.sum == nil {
		s.sum, s.count = map[string]float64{}, map[string]int{}
	}
	// A counter of OpenMetrics ends in _total as well; an older text may lack it.
	name = strings.TrimSuffix(name, "_total")
	if source := m.labels["source"]; name == "prompt_tokens_by_source" && source != "local_compute" {
		name = "prompt_tokens_by_source:cached"
	}
	s.sum[name] += m.value
	s.count[name]++
}

// maxLabel is more than any engine has of blocks or tokens, and little enough for sums
// and products of two.
const maxLabel = 1<<31 - 1

// label reads a whole number out of a label; 0 when there is none ("None").
func label(m sample, name string) int64 {
	n, err := strconv.ParseInt(m.labels[name], 10, 64)
	if err != nil || n < 0 || n > maxLabel {
		return 0
	}
	return n
}

func (s *sums) figures() Figures {
	f := Figures{
		Running:          s.get("num_requests_running"),
		Waiting:          s.get("num_requests_waiting"),
		KVUsed:           s.get("kv_cache_usage_perc"),
		PrefixQueries:    s.get("prefix_cache_queries"),
		PrefixHits:       s.get("prefix_cache_hits"),
		PromptTokens:     s.get("prompt_tokens"),
		CachedTokens:     s.get("prompt_tokens_cached"),
		GenerationTokens: s.get("generation_tokens"),
		Preemptions:      s.get("num_preemptions"),
		Steps:            s.get("iteration_tokens_total_count"),
	}
	if f.CachedTokens == nil {
		f.CachedTokens = s.get("prompt_tokens_by_source:cached")
	}
	if f.KVUsed != nil {
		*f.KVUsed /= float64(s.count["kv_cache_usage_perc"])
	}
	// The size in tokens is right for hybrid models too, blocks x length is not.
	switch {
	case s.sized > 0:
		f.CapacityTokens = &s.sized
	case s.blocks > 0 && s.blockLen > 0:
		capacity := s.blocks * s.blockLen
		f.CapacityTokens = &capacity
	}
	return f
}

func (s *sums) get(name string) *float64 {
	if s.count[name] == 0 {
		return nil
	}
	v := s.sum[name]
	return &v
}

// parseSample reads "name{label="value",…} number [timestamp] [# exemplar]".
func parseSample(line string) (sample, bool) {
	line = strings.TrimSpace(line)
	end := strings.IndexAny(line, "{ \t")
	if end <= 0 || line[0] == '#' {
		return sample{}, false
	}
	m := sample{name: line[:end]}
	rest := line[end:]
	if rest[0] == '{' {
		var ok bool
		if m.labels, rest, ok = parseLabels(rest[1:]); !ok {
			return sample{}, false
		}
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return sample{}, false
	}
	v, err := strconv.ParseFloat(fields[0], 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return sample{}, false
	}
	m.value = v
	return m, true
}

// parseLabels reads from behind the opening brace to behind the closing one.
func parseLabels(s string) (labels map[string]string, rest string, ok bool) {
	labels = map[string]string{}
	for {
		s = strings.TrimLeft(s, ", \t")
		if after, done := strings.CutPrefix(s, "}"); done {
			return labels, after, true
		}
		name, value, found := strings.Cut(s, `="`)
		if !found {
			return nil, "", false
		}
		text, after, closed := unquote(value)
		if !closed {
			return nil, "", false
		}
		labels[strings.TrimSpace(name)] = text
		s = after
	}
}

// unquote reads a label's value up to its closing quote.
func unquote(s string) (text, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			i++
			if i == len(s) {
				return "", "", false
			}
			if s[i] == 'n' {
				b.WriteByte('\n')
				continue
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}
