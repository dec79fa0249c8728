package vllmd

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// metric returns the value of a line of the metrics page, given as it begins.
func metric(t *testing.T, url, line string) string {
	t.Helper()
	_, page := send(t, http.MethodGet, url+"/metrics", "")
	for l := range strings.SplitSeq(page, "\n") {
		if v, ok := strings.CutPrefix(l, line+" "); ok {
			return v
		}
	}
	return "absent"
}

// TestRanks checks which APIs honour the rank header, and that each rank has its own
// cache.
func TestRanks(t *testing.T) {
	_, url := testServer(t, "--data-parallel-size", "2", "--enable-prompt-tokens-details")
	long := strings.Repeat("a long story ", 30)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"tiny","max_tokens":2,"messages":[{"role":"user","content":"` + long + `chat"}]}`,
		"/v1/completions":      `{"model":"tiny","max_tokens":2,"prompt":"` + long + `text"}`,
		"/v1/messages":         `{"model":"tiny","max_tokens":2,"messages":[{"role":"user","content":"` + long + `anthropic"}]}`,
	} {
		for range 3 {
			if res, answer := send(t, http.MethodPost, url+path, body, "X-Data-Parallel-Rank", "1"); res.StatusCode != http.StatusOK {
				t.Fatalf("%s gave %d %s", path, res.StatusCode, answer)
			}
		}
		if res, answer := send(t, http.MethodPost, url+path, body, "X-Data-Parallel-Rank", "2"); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s with rank 2 gave %d %s", path, res.StatusCode, answer)
		}
	}
	if got := metric(t, url, `vllm:request_success_total{engine="1",finished_reason="length",model_name="tiny"}`); got != "9.0" {
		t.Errorf("rank 1 served %s requests, want 9.0", got)
	}
	if got := metric(t, url, `vllm:num_requests_running{engine="0",model_name="tiny"}`); got != "absent" {
		t.Errorf("the gauge of a rank that has served nothing is %s, want none", got)
	}
	// Responses takes no rank: both serve them. Which of them is next is the balancer's to
	// say, who may know of a request that has ended since.
	served := func(rank int) int {
		n, _ := strconv.ParseFloat(metric(t, url, fmt.Sprintf(`vllm:request_success_total{engine="%d",finished_reason="length",model_name="tiny"}`, rank)), 64)
		return int(n)
	}
	for sent := 1; served(0) == 0 || served(1) == 9; sent++ {
		if sent > 50 {
			t.Fatalf("after %d responses rank 0 has served %d requests and rank 1 %d", sent-1, served(0), served(1))
		}
		if res, answer := send(t, http.MethodPost, url+"/v1/responses", `{"model":"tiny","input":"hi","max_output_tokens":1}`, "X-Data-Parallel-Rank", "0"); res.StatusCode != http.StatusOK {
			t.Fatalf("responses gave %d %s", res.StatusCode, answer)
		}
		if got := served(0) + served(1); got != 9+sent {
			t.Errorf("both ranks have served %d requests of %d", got, 9+sent)
		}
	}
	if _, page := send(t, http.MethodGet, url+"/metrics", ""); strings.Contains(page, "_created") || strings.Count(page, "cache_config_info{") != 2 || !strings.Contains(page, `num_gpu_blocks="4000"`) {
		t.Error("the page of two ranks has _created series, or not one sum of blocks for each rank")
	}
	res, answer := send(t, http.MethodPost, url+"/v1/chat/completions", `{"model":"tiny","stream":true,"messages":[{"role":"user","content":"hi"}]}`, "X-Data-Parallel-Rank", "7")
	if _, data := frames(t, answer); res.StatusCode != http.StatusOK || len(data) != 2 || dig(t, data[0], "error", "code") != 400.0 {
		t.Errorf("a stream for a rank out of range gave %d %s", res.StatusCode, answer)
	}
	if res, _ := send(t, http.MethodPost, url+"/v1/completions", `{"model":"tiny","prompt":"hi"}`, "X-Data-Parallel-Rank", "x"); res.StatusCode != http.StatusOK {
		t.Errorf("a rank that is no number gave %d, want 200", res.StatusCode)
	}
}

// TestMetrics checks the figures that others read after a request and its repetition.
func TestMetrics(t *testing.T) {
	_, url := testServer(t)
	for range 2 {
		post(t, url+"/v1/completions", `{"model":"tiny","max_tokens":3,"prompt":[`+strings.Repeat("5,", 99)+`5]}`)
	}
	const label = `{engine="0",model_name="tiny"}`
	for line, want := range map[string]string{
		"vllm:num_requests_running" + label:                                                       "0.0",
		"vllm:num_requests_waiting" + label:                                                       "0.0",
		"vllm:kv_cache_usage_perc" + label:                                                        "0.0",
		"vllm:prefix_cache_queries_total" + label:                                                 "200.0",
		"vllm:prefix_cache_hits_total" + label:                                                    "96.0",
		"vllm:prompt_tokens_total" + label:                                                        "200.0",
		"vllm:prompt_tokens_cached_total" + label:                                                 "96.0",
		"vllm:generation_tokens_total" + label:                                                    "6.0",
		"vllm:num_preemptions_total" + label:                                                      "0.0",
		"vllm:time_to_first_token_seconds_count" + label:                                          "2.0",
		"vllm:inter_token_latency_seconds_count" + label:                                          "4.0",
		"vllm:e2e_request_latency_seconds_count" + label:                                          "2.0",
		"vllm:request_prompt_tokens_sum" + label:                                                  "200.0",
		`vllm:request_prompt_tokens_bucket{engine="0",le="100.0",model_name="tiny"}`:              "2.0",
		`vllm:request_prompt_tokens_bucket{engine="0",le="50.0",model_name="tiny"}`:               "0.0",
		"vllm:iteration_tokens_total_count" + label:                                               "6.0",
		"vllm:request_prefill_kv_computed_tokens_sum" + label:                                     "104.0",
		`vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"}`:       "2.0",
		`vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_compute"}`: "104.0",
		`http_requests_total{handler="/v1/completions",method="POST",status="2xx"}`:               "2.0",
	} {
		if got := metric(t, url, line); got != want {
			t.Errorf("%s is %s, want %s", line, got, want)
		}
	}
	_, page := send(t, http.MethodGet, url+"/metrics", "")
	for _, part := range []string{"# TYPE vllm:prefix_cache_hits_total counter\n", "# TYPE vllm:num_requests_running gauge\n", "# TYPE vllm:e2e_request_latency_seconds histogram\n", `kv_cache_size_tokens="32000"`, `num_gpu_blocks="2000"`, `block_size="16"`} {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %q", part)
		}
	}
}
