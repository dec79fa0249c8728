package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	promodel "github.com/prometheus/common/model"

	"github.com/lmwarden/lmwarden/tests/harness"
)

// family is what the table says of a metric: its type, and the labels of each series
// beside engine and model_name.
type family struct {
	kind   dto.MetricType
	labels []string
	values []string // of the label, when there is one
}

var families = map[string]family{
	"vllm:num_requests_running": {kind: dto.MetricType_GAUGE},
	"vllm:num_requests_waiting": {kind: dto.MetricType_GAUGE},
	"vllm:num_requests_waiting_by_reason": {
		kind: dto.MetricType_GAUGE, labels: []string{"reason"}, values: []string{"capacity", "deferred"},
	},
	"vllm:engine_sleep_state": {
		kind: dto.MetricType_GAUGE, labels: []string{"sleep_state"}, values: []string{"awake", "discard_all", "weights_offloaded"},
	},
	"vllm:kv_cache_usage_perc":                 {kind: dto.MetricType_GAUGE},
	"vllm:prefix_cache_queries_total":          {kind: dto.MetricType_COUNTER},
	"vllm:prefix_cache_hits_total":             {kind: dto.MetricType_COUNTER},
	"vllm:external_prefix_cache_queries_total": {kind: dto.MetricType_COUNTER},
	"vllm:external_prefix_cache_hits_total":    {kind: dto.MetricType_COUNTER},
	"vllm:num_preemptions_total":               {kind: dto.MetricType_COUNTER},
	"vllm:prompt_tokens_total":                 {kind: dto.MetricType_COUNTER},
	"vllm:prompt_tokens_by_source_total": {
		kind: dto.MetricType_COUNTER, labels: []string{"source"}, values: []string{"external_kv_transfer", "local_cache_hit", "local_compute"},
	},
	"vllm:prompt_tokens_cached_total": {kind: dto.MetricType_COUNTER},
	"vllm:prompt_tokens_cached_by_source_total": {
		kind: dto.MetricType_COUNTER, labels: []string{"source"}, values: []string{"device", "disk", "external_unspecified", "host", "p2p"},
	},
	"vllm:generation_tokens_total": {kind: dto.MetricType_COUNTER},
	"vllm:request_success_total": {
		kind: dto.MetricType_COUNTER, labels: []string{"finished_reason"}, values: []string{"abort", "error", "length", "repetition", "stop"},
	},
	"vllm:time_to_first_token_seconds":           {kind: dto.MetricType_HISTOGRAM},
	"vllm:inter_token_latency_seconds":           {kind: dto.MetricType_HISTOGRAM},
	"vllm:request_time_per_output_token_seconds": {kind: dto.MetricType_HISTOGRAM},
	"vllm:e2e_request_latency_seconds":           {kind: dto.MetricType_HISTOGRAM},
	"vllm:request_queue_time_seconds":            {kind: dto.MetricType_HISTOGRAM},
	"vllm:request_prefill_time_seconds":          {kind: dto.MetricType_HISTOGRAM},
	"vllm:request_decode_time_seconds":           {kind: dto.MetricType_HISTOGRAM},
	"vllm:request_inference_time_seconds":        {kind: dto.MetricType_HISTOGRAM},
	"vllm:request_prompt_tokens":                 {kind: dto.MetricType_HISTOGRAM},
	"vllm:request_generation_tokens":             {kind: dto.MetricType_HISTOGRAM},
	"vllm:request_params_max_tokens":             {kind: dto.MetricType_HISTOGRAM},
	"vllm:request_prefill_kv_computed_tokens":    {kind: dto.MetricType_HISTOGRAM},
	"vllm:iteration_tokens_total":                {kind: dto.MetricType_HISTOGRAM},
	"vllm:request_success_created": {
		kind: dto.MetricType_GAUGE, labels: []string{"finished_reason"}, values: []string{"abort", "error", "length", "repetition", "stop"},
	},
	"vllm:prompt_tokens_created": {kind: dto.MetricType_GAUGE},
	"vllm:cache_config_info":     {kind: dto.MetricType_GAUGE, labels: cacheConfigLabels},
}

// cacheConfigLabels are those of the cache's settings, engine aside.
var cacheConfigLabels = strings.Fields(`_block_size_resolved block_size cache_dtype cache_hit_alignment_tokens
	effective_attention_block_size enable_mamba_shared_prefix_checkpoint enable_prefix_caching
	gpu_memory_utilization hash_block_size is_attention_free kv_cache_dtype_skip_layers kv_cache_layout
	kv_cache_max_concurrency kv_cache_memory_bytes kv_cache_size_tokens kv_offloading_backend
	kv_offloading_size kv_sharing_fast_prefill mamba_block_size mamba_cache_dtype mamba_cache_mode
	mamba_page_size_padded mamba_ssm_cache_dtype num_cpu_blocks num_gpu_blocks num_gpu_blocks_override
	prefix_cache_retention_interval prefix_caching_hash_algo prefix_match_unit replayssm_buffer_len
	skip_page_size_padded sliding_window swa_bounded_replay use_kda_recoverssm use_replayssm
	user_specified_block_size`)

// scrape reads an engine's metrics.
func (e *engine) scrape(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	got, err := exchange{method: http.MethodGet, path: "/metrics"}.send(t.Context(), e.url)
	if err != nil {
		t.Fatal(err)
	}
	if c := got.header.Get("Content-Type"); got.status != http.StatusOK || c != "text/plain; version=1.0.0; charset=utf-8" {
		t.Errorf("/metrics is %d %q", got.status, c)
	}
	parser := expfmt.NewTextParser(promodel.UTF8Validation)
	found, err := parser.TextToMetricFamilies(strings.NewReader(got.body))
	if err != nil {
		t.Fatalf("/metrics: %v", err)
	}
	return found
}

// labelsOf returns a series' labels.
func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// sum adds up the series of a metric whose labels have the given values.
func sum(found map[string]*dto.MetricFamily, name string, with ...string) float64 {
	total := 0.0
	for _, m := range found[name].GetMetric() {
		labels := labelsOf(m)
		if len(with) > 0 && labels[with[0]] != with[1] {
			continue
		}
		total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return total
}

func metricsHold(t *testing.T, e *engine) {
	found := e.scrape(t)
	for _, name := range slices.Sorted(maps.Keys(families)) {
		want, got := families[name], found[name]
		if got == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		if got.GetType() != want.kind {
			t.Errorf("%s is a %s, want a %s", name, got.GetType(), want.kind)
		}
		names := append([]string{"engine", "model_name"}, want.labels...)
		if name == "vllm:cache_config_info" {
			names = append([]string{"engine"}, want.labels...)
		}
		slices.Sort(names)
		var values []string
		for _, m := range got.GetMetric() {
			labels := labelsOf(m)
			if diff := cmp.Diff(names, slices.Sorted(maps.Keys(labels))); diff != "" {
				t.Errorf("labels of %s (-want +got):\n%s", name, diff)
			}
			if len(want.values) > 0 {
				values = append(values, labels[want.labels[0]])
			}
			if labels["engine"] != "0" || name != "vllm:cache_config_info" && labels["model_name"] != "tiny" {
				t.Errorf("%s has the labels %v", name, labels)
			}
		}
		slices.Sort(values)
		if diff := cmp.Diff(want.values, values); diff != "" {
			t.Errorf("values of %s of %s (-want +got):\n%s", want.labels[0], name, diff)
		}
	}
	cacheConfigHolds(t, found["vllm:cache_config_info"])
}

// outline is what must be the same of a metric in all engines: its type, the labels of
// its series, and the bounds of a histogram.
type outline struct {
	Kind   string
	Labels []string
	Bounds []float64
}

func outlineOf(f *dto.MetricFamily) outline {
	o := outline{Kind: f.GetType().String()}
	for i, m := range f.GetMetric() {
		if i > 0 {
			break // all series of a metric have the same
		}
		o.Labels = slices.Sorted(maps.Keys(labelsOf(m)))
		for _, b := range m.GetHistogram().GetBucket() {
			o.Bounds = append(o.Bounds, b.GetUpperBound())
		}
	}
	return o
}

// metricsAgree compares all metrics that the simulated engine has with those of the
// subject of the table.
func metricsAgree(t *testing.T, e *engine) {
	if e.isSimulated() {
		t.Skip("the subject is the simulated engine itself")
	}
	simulated, subject := quick(t).scrape(t), e.scrape(t)
	for _, name := range slices.Sorted(maps.Keys(simulated)) {
		if !strings.HasPrefix(name, "vllm:") {
			continue
		}
		if subject[name] == nil {
			t.Errorf("%s has no %s", e.name, name)
		} else if diff := cmp.Diff(outlineOf(subject[name]), outlineOf(simulated[name])); diff != "" {
			t.Errorf("%s (-%s +simulated):\n%s", name, e.name, diff)
		}
	}
}

// cacheConfigHolds checks the labels that tell the cache's size.
func cacheConfigHolds(t *testing.T, info *dto.MetricFamily) {
	t.Helper()
	if len(info.GetMetric()) != 1 {
		t.Fatalf("%d series of the cache's settings, want 1", len(info.GetMetric()))
	}
	labels := labelsOf(info.GetMetric()[0])
	for name, want := range map[string]string{
		"block_size": fmt.Sprint(blockSize), "num_gpu_blocks": fmt.Sprint(blocks), "num_gpu_blocks_override": fmt.Sprint(blocks),
		"kv_cache_size_tokens": fmt.Sprint(blocks * blockSize), "kv_cache_max_concurrency": "1.5625",
		"enable_prefix_caching": "True", "user_specified_block_size": "True", "prefix_caching_hash_algo": "sha256",
	} {
		if labels[name] != want {
			t.Errorf("the cache's %s is %q, want %q", name, labels[name], want)
		}
	}
}

// metricsCount compares what counters rise by with the usage of the answers.
func metricsCount(t *testing.T, e *engine) {
	before := e.scrape(t)
	want := map[string]float64{}
	prompt := strings.Repeat("one two three four ", 40)
	for range 2 {
		got, err := exchange{
			path: "/v1/chat/completions",
			body: `{"model":"tiny","max_tokens":5,"ignore_eos":true,"messages":[{"role":"user","content":"` + prompt + `"}]}`,
		}.send(t.Context(), e.url)
		if err != nil {
			t.Fatal(err)
		}
		var reply struct {
			Usage struct {
				Prompt     float64 `json:"prompt_tokens"`
				Completion float64 `json:"completion_tokens"`
				Details    struct {
					Cached float64 `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(got.body), &reply); err != nil {
			t.Fatalf("%v: %s", err, got.body)
		}
		want["vllm:prompt_tokens_total"] += reply.Usage.Prompt
		want["vllm:prefix_cache_queries_total"] += reply.Usage.Prompt
		want["vllm:prompt_tokens_cached_total"] += reply.Usage.Details.Cached
		want["vllm:prefix_cache_hits_total"] += reply.Usage.Details.Cached
		want["vllm:generation_tokens_total"] += reply.Usage.Completion
		want["vllm:request_success_total"]++
	}
	if want["vllm:prefix_cache_hits_total"] == 0 {
		t.Error("the same prompt twice found nothing in the cache")
	}
	// The page lags a little behind the answer.
	harness.Within(t, soon, func() error {
		after := e.scrape(t)
		got := map[string]float64{}
		for name := range want {
			got[name] = sum(after, name) - sum(before, name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("rise of the counters (-want +got):\n%s", diff)
		}
		return nil
	})
}
