package vllmd

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{"0.24": "0.24.0 24", "v0.19.1": "0.19.1 19", "0.33.0": "0.33.0 33"} {
		version, r, err := parseVersion(text)
		if got := fmt.Sprint(version, " ", int(r)); err != nil || got != want {
			t.Errorf("%q was read as %s, %v; want %s", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "0.18", "0.34", "1.0", "24", "0.24.x", "0.24-rc1", "0.9999"} {
		if _, _, err := parseVersion(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestFlagsByRelease checks that a flag is refused by the releases that do not have it.
func TestFlagsByRelease(t *testing.T) {
	for flag, span := range map[string][2]release{
		"--fingerprint-mode none":             {21, 99},
		"--dp-supervisor-probe-interval-s 3":  {22, 99},
		"--device-ids 0":                      {24, 99},
		"--enable-per-request-metrics":        {25, 99},
		"--enable-fault-tolerance":            {27, 99},
		"--sse-keep-alive-interval 5":         {29, 99},
		"--max-num-queued-reqs 5":             {29, 99},
		"--enable-prompt-tokens-details":      {0, 99},
		"--enable-force-include-usage":        {0, 99},
		"--shutdown-timeout 3":                {0, 99},
		"--swap-space 4":                      {0, 28},
		"-dp 2 --data-parallel-rank 1":        {0, 20},
		"--no-enable-prefix-caching -tp 2":    {0, 99},
		"--enable-log-requests --max-loras 2": {0, 99},
	} {
		for r := oldestRelease; r <= newestRelease; r++ {
			_, err := parseFlags(append([]string{"m"}, strings.Fields(flag)...), r)
			if want := r >= span[0] && r <= span[1]; (err == nil) != want {
				t.Errorf("0.%d takes %s: %v, want %t", r, flag, err, want)
			}
		}
	}
}

// byRelease are parts of answers with the releases in which they stand there. Each part
// begins with the answer it is looked for in.
var byRelease = map[string][2]release{
	"metrics vllm:num_requests_waiting_by_reason{":                 {20, 99},
	"metrics vllm:prompt_tokens_recomputed_total{":                 {0, 19},
	"metrics vllm:prompt_tokens_cached_total{":                     {0, 99},
	"metrics vllm:prompt_tokens_by_source_total{":                  {0, 99},
	"metrics vllm:prompt_tokens_cached_by_source_total{":           {29, 99},
	"metrics vllm:request_num_preemptions_count{":                  {29, 99},
	"metrics vllm:admission_rejections_total{":                     {29, 99},
	`metrics kv_cache_size_tokens="32000"`:                         {24, 99},
	`metrics kv_cache_max_concurrency="`:                           {24, 99},
	`metrics swap_space="`:                                         {0, 23},
	`metrics gpu_memory_utilization="0.9"`:                         {0, 19},
	`metrics gpu_memory_utilization="0.92"`:                        {20, 99},
	"metrics vllm:prefix_cache_hits_created{":                      {0, 99},
	`cold "prompt_tokens_details":null`:                            {0, 23},
	`cold "cached_tokens":0`:                                       {24, 99},
	`warm "cached_tokens":96`:                                      {0, 99},
	`warm "created_cache_tokens":0`:                                {27, 99},
	`warm "multimodal_tokens":null`:                                {28, 99},
	`warm "metrics":null`:                                          {25, 99},
	`warm "system_fingerprint":"vllm-`:                             {21, 99},
	`warm "system_fingerprint":null`:                               {0, 20},
	`stream "prompt_tokens_details":{"cached_tokens":96}`:          {0, 26},
	`stream "created_cache_tokens":0}`:                             {27, 99},
	`stream "system_fingerprint"`:                                  {21, 99},
	`messages "usage":{"input_tokens":106,"output_tokens":2}`:      {0, 23},
	`messages {"input_tokens":10,"output_tokens":2,"cache_read_in`: {24, 26},
	`messages {"input_tokens":10,"output_tokens":2,"cache_creatio`: {27, 99},
	`responses "cached_tokens":`:                                   {0, 99},
	`responses "cache_write_tokens":`:                              {27, 99},
	"unknown Valid aliases: tiny.":                                 {32, 99},
	"unknown The model `other` does not exist.":                    {0, 99},
	"render Scale-out endpoints are disabled.":                     {29, 99},
	`render "token_ids":[`:                                         {0, 28},
}

// TestReleases checks what each release answers.
func TestReleases(t *testing.T) {
	for r := oldestRelease; r <= newestRelease; r++ {
		t.Run(fmt.Sprintf("0.%d", r), func(t *testing.T) {
			_, url := testServerOf(t, fmt.Sprintf("0.%d", r), 1000, "--enable-prompt-tokens-details")
			long := strings.Repeat("a long story ", 32)
			text := func(more string) string {
				return `{"model":"tiny","max_tokens":2,"messages":[{"role":"user","content":"` + long + `"}]` + more + `}`
			}
			answers := map[string]string{}
			for _, ask := range []struct{ name, method, path, body string }{
				{"cold", http.MethodPost, "/v1/chat/completions", text("")},
				{"warm", http.MethodPost, "/v1/chat/completions", text("")},
				{"stream", http.MethodPost, "/v1/chat/completions", text(`,"stream":true,"stream_options":{"include_usage":true}`)},
				{"messages", http.MethodPost, "/v1/messages", text("")},
				{"responses", http.MethodPost, "/v1/responses", `{"model":"tiny","input":"hi","max_output_tokens":2}`},
				{"unknown", http.MethodPost, "/v1/completions", `{"model":"other","prompt":"x"}`},
				{"render", http.MethodPost, "/v1/chat/completions/render", text("")},
				{"version", http.MethodGet, "/version", ""},
				{"metrics", http.MethodGet, "/metrics", ""},
			} {
				_, answers[ask.name] = send(t, ask.method, url+ask.path, ask.body)
			}
			if want := fmt.Sprintf(`{"version":"0.%d.0"}`, r); answers["version"] != want {
				t.Errorf("the version is %s, want %s", answers["version"], want)
			}
			for part, span := range byRelease {
				name, part, _ := strings.Cut(part, " ")
				want := r >= span[0] && r <= span[1]
				if has := strings.Contains(answers[name], part); has != want {
					t.Errorf("the answer %s has %q: %t, want %t", name, part, has, want)
					if name != "metrics" {
						t.Logf("it is %s", answers[name])
					}
				}
			}
		})
	}
}

// TestMessagesSalt checks that a cache salt keeps prompts apart on /v1/messages in the
// releases that read it there.
func TestMessagesSalt(t *testing.T) {
	for version, want := range map[string]string{"0.27": "96", "0.28": "0"} {
		_, url := testServerOf(t, version, 1000, "--enable-prompt-tokens-details")
		ask := func(salt string) string {
			return post(t, url+"/v1/messages", `{"model":"tiny","max_tokens":2,"cache_salt":"`+salt+`","messages":[{"role":"user","content":"`+strings.Repeat("a long story ", 32)+`"}]}`)
		}
		ask("one")
		if got := fmt.Sprint(dig(t, ask("two"), "usage", "cache_read_input_tokens")); got != want {
			t.Errorf("%s found %s tokens of another salt, want %s", version, got, want)
		}
	}
}
