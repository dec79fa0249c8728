package vllm_test

import (
	"bufio"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lmwarden/lmwarden/supervisor/vllm"
)

func ptr[T any](v T) *T { return &v }

func TestArgs(t *testing.T) {
	for _, c := range []struct {
		name   string
		engine vllm.Engine
		want   string
	}{
		{
			"least",
			vllm.Engine{Source: "Qwen/Qwen3-4B", ServedName: "qwen", TensorParallel: 1},
			"serve Qwen/Qwen3-4B --served-model-name qwen --enable-prompt-tokens-details " +
				"--disable-access-log-for-endpoints /health,/metrics,/ping,/version,/v1/models",
		},
		{
			"all, the further arguments last",
			vllm.Engine{
				Source: "/m", ServedName: "m", TensorParallel: 2, MaxModelLen: 65536, MaxNumSeqs: 8,
				MaxBatchedTokens: 2048, MemoryUtilization: 0.9, KVCacheType: "fp8", ToolCallParser: "hermes",
				ReasoningParser: "qwen3", Extra: []string{"--max-num-seqs", "16", "--enforce-eager"},
			},
			"serve /m --served-model-name m --tensor-parallel-size 2 --max-model-len 65536 --max-num-seqs 8 " +
				"--max-num-batched-tokens 2048 --gpu-memory-utilization 0.9 --kv-cache-dtype fp8 " +
				"--enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3 --enable-prompt-tokens-details " +
				"--disable-access-log-for-endpoints /health,/metrics,/ping,/version,/v1/models " +
				"--max-num-seqs 16 --enforce-eager",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := vllm.Check(c.engine); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(c.want, strings.Join(vllm.Args(c.engine), " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		engine vllm.Engine
		want   string
	}{
		{"no source", vllm.Engine{Source: " "}, "no source"},
		{"source like a flag", vllm.Engine{Source: "--port"}, "begins with a dash"},
		{"port", vllm.Engine{Source: "m", Extra: []string{"--port", "1"}}, "--port cannot be given, because each replica"},
		{"with a value", vllm.Engine{Source: "m", Extra: []string{"--host=0.0.0.0"}}, "loopback address only"},
		{"underscores", vllm.Engine{Source: "m", Extra: []string{"--served_model_name", "x"}}, "as aliases"},
		{"abbreviated", vllm.Engine{Source: "m", Extra: []string{"--served-m", "x"}}, "as aliases"},
		{"socket", vllm.Engine{Source: "m", Extra: []string{"--uds=/x"}}, "through a port"},
		{"share", vllm.Engine{Source: "m", MemoryUtilization: 1.5}, "not a share"},
		{"negative", vllm.Engine{Source: "m", MaxNumSeqs: -1}, "max num seqs is -1"},
		{"cards", vllm.Engine{Source: "m", Env: map[string]string{"CUDA_VISIBLE_DEVICES": "0"}}, "layout chooses the cards"},
		{"our mark", vllm.Engine{Source: "m", Env: map[string]string{"LMWARDEN_REPLICA": "x"}}, "product's own"},
		{"no name", vllm.Engine{Source: "m", Env: map[string]string{"A=B": "x"}}, "not a name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := vllm.Check(c.engine); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	fine := []string{"--seed", "1", "--max-model-len=auto", "-O3", "--enable-sleep-mode", "--hf-token", "x", "--"}
	if err := vllm.CheckExtra(fine); err != nil {
		t.Error(err)
	}
}

func TestParseMetrics(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		want vllm.Figures
	}{
		{
			"one engine, with created series and a histogram",
			`# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a \"b\", {c}"} 3.0
vllm:num_requests_waiting{engine="0"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 1.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:prefix_cache_queries_total{engine="0"} 100.0
vllm:prefix_cache_queries_created{engine="0"} 1.79e+09
vllm:prefix_cache_hits_total{engine="0"} 64.0
vllm:prompt_tokens_total{engine="0"} 1e+02
vllm:prompt_tokens_cached_total{engine="0"} 64.0
vllm:prompt_tokens_cached_by_source_total{engine="0",source="device"} 64.0
vllm:prompt_tokens_by_source_total{engine="0",source="local_cache_hit"} 63.0
vllm:generation_tokens_total{engine="0"} 12.0
vllm:num_preemptions_total{engine="0"} 0.0
vllm:iteration_tokens_total_sum{engine="0"} 9.0
vllm:iteration_tokens_total_count{engine="0"} 4.0
vllm:cache_config_info{block_size="32",kv_cache_size_tokens="6400",num_gpu_blocks="999",engine="0"} 1.0
process_open_fds 12`,
			vllm.Figures{
				Running: ptr(3.0), Waiting: ptr(1.0), KVUsed: ptr(0.25), PrefixQueries: ptr(100.0), PrefixHits: ptr(64.0),
				PromptTokens: ptr(100.0), CachedTokens: ptr(64.0), GenerationTokens: ptr(12.0), Preemptions: ptr(0.0), Steps: ptr(4.0),
				CapacityTokens: ptr(int64(6400)),
			},
		},
		{
			"two engines; blocks are the sum already",
			`vllm:num_requests_running{engine="0"} 3
vllm:num_requests_running{engine="1"} 4
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.1
vllm:cache_config_info{block_size="32",num_gpu_blocks="800",kv_cache_size_tokens="None",engine="0"} 1
vllm:cache_config_info{block_size="32",num_gpu_blocks="800",kv_cache_size_tokens="None",engine="1"} 1`,
			vllm.Figures{Running: ptr(7.0), KVUsed: ptr(0.3), CapacityTokens: ptr(int64(25600))},
		},
		{
			"OpenMetrics, timestamps, exemplars, and lines that make no sense",
			"vllm:prompt_tokens_total{a=\"b\"} 5 1700000000 # {id=\"x\"} 1 2\nvllm:x{a=\"b} 5\nvllm:y{a}\nvllm:num_requests_waiting NaN\nvllm:num_preemptions\n{} 4\n\r\n" +
				"vllm:prompt_tokens_by_source_total{source=\"local_cache_hit\"} 2\nvllm:prompt_tokens_by_source_total{source=\"external_kv_transfer\"} 1\n" +
				"vllm:prompt_tokens_by_source_total{source=\"local_compute\"} 2\n# EOF",
			vllm.Figures{PromptTokens: ptr(5.0), CachedTokens: ptr(3.0)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := vllm.ParseMetrics([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := vllm.ParseMetrics([]byte("go_goroutines 4\n<html>")); err == nil {
		t.Error("a text without vLLM's figures was taken")
	}
}

func FuzzParseMetrics(f *testing.F) {
	for _, s := range []string{`vllm:a{b="c"} 1`, `vllm:a{b="\`, `vllm:a{`, "vllm:cache_config_info{block_size=\"9223372036854775807\",num_gpu_blocks=\"9\"} 1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := vllm.ParseMetrics(text)
		if err == nil && got.CapacityTokens != nil && *got.CapacityTokens <= 0 {
			t.Errorf("capacity %d", *got.CapacityTokens)
		}
	})
}

// start is how a start on a GPU looks, shortened.
const start = `(APIServer pid=1) INFO [api_utils.py:286] non-default args: {'model': 'm', 'max_num_seqs': 8, 'max_num_batched_tokens': 2048}
(APIServer pid=1) INFO [model.py:733] Resolved architecture: Qwen3ForCausalLM
(APIServer pid=1) INFO [model.py:2152] Using max model len 4096
(EngineCore pid=2) INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='m'
(Worker pid=3) INFO world_size=1 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:1 backend=nccl
(Worker pid=3) INFO [model_runner.py:68] Starting to load model m...
Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:01<00:03]
(Worker pid=3) INFO Model loading took 7.6 GiB memory and 3.2 seconds
(Worker pid=3) INFO torch.compile took 20.1 s in total
(EngineCore pid=2) INFO GPU KV cache size: 36,864 tokens, Maximum concurrency for 4,096 tokens per request: 9.00x
Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  50%|█████     | 4/8
(EngineCore pid=2) INFO init engine (profile, create kv cache, warmup model) took 40.03 s
(APIServer pid=1) INFO Starting vLLM server on http://127.0.0.1:8101
INFO:     Application startup complete.`

func TestPhasesAndFacts(t *testing.T) {
	var phases []string
	var f vllm.Figures
	lines := bufio.NewScanner(strings.NewReader(start))
	for lines.Scan() {
		if p, ok := vllm.Phase(lines.Text()); ok {
			phases = append(phases, p)
		}
		vllm.Facts(lines.Text(), &f)
	}
	want := []string{
		"reading the configuration", "starting the engine", "connecting the cards", "loading weights",
		"loading weights, 25 %", "weights loaded", "compiling", "sizing the KV cache", "capturing CUDA graphs",
		"engine is up", "opening the server", "answering",
	}
	if got := slices.Compact(phases); !slices.Equal(got, want) {
		t.Errorf("phases %q", got)
	}
	wantFacts := vllm.Figures{
		MaxModelLen: ptr(int64(4096)), MaxNumSeqs: ptr(int64(8)), MaxBatchedTokens: ptr(int64(2048)), CapacityTokens: ptr(int64(36864)),
	}
	if diff := cmp.Diff(wantFacts, f); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{`INFO: 127.0.0.1 - "GET /health HTTP/1.1" 200 OK`, "WARNING Enforce eager set, disabling torch.compile, CUDAGraphs"} {
		if p, ok := vllm.Phase(line); ok {
			t.Errorf("%q is no phase, but shows %q", line, p)
		}
	}
}

func TestDiagnosis(t *testing.T) {
	for _, c := range []struct {
		name, log string
		kind      vllm.Kind
		want      string
	}{
		{
			"the root cause between general lines",
			"ERROR EngineCore failed to start.\nTraceback\nValueError: To serve at least one request with the model's max seq len (65536), (9.0 GiB KV cache is needed, which is larger than the available KV cache memory (4.5 GiB). Based on the available memory, the estimated maximum model length is 32768.\nRuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
			vllm.Configuration, "32768 tokens or less",
		},
		{
			"memory held by another process",
			"ValueError: Free memory on device cuda:0 (1.2/15.7 GiB) on startup is less than desired GPU memory utilization (0.92, 14.4 GiB).",
			vllm.Transient, "Card cuda:0 has too little free memory (1.2/15.7 GiB)",
		},
		{"does not fit", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", vllm.Configuration, "does not fit"},
		{"gated", "huggingface_hub.errors.GatedRepoError: 403 Client Error.", vllm.Configuration, "licence"},
		{"http port", "OSError: [Errno 98] Address already in use", vllm.PortTaken, "takes another one"},
		{"internal port", "torch.distributed.DistNetworkError: The server socket has failed to listen. EADDRINUSE", vllm.Transient, "internal port"},
		{"parser", "KeyError: 'invalid tool call parser: nope (chose from { hermes })'", vllm.Configuration, "no tool call parser named nope"},
		{"command line", "vllm serve: error: argument --dtype: invalid choice: 'x'", vllm.Configuration, "argument --dtype: invalid choice: 'x'."},
		{"killed child", "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.", vllm.Transient, "ran out of memory"},
		{"refused instruction", "Worker proc VllmWorker-0 died unexpectedly (exit code: -4), shutting down executor.", vllm.Configuration, "--dtype float32"},
		{"first of two errors", "ValueError: first\nRuntimeError: second", vllm.Unknown, "ValueError: first."},
		{"architecture", "ValueError: Model architectures ['Foo'] are not supported for now. Supported architectures: …", vllm.Configuration, "architecture 'Foo'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d vllm.Diagnosis
			for line := range strings.SplitSeq(c.log, "\n") {
				d.Add(line)
			}
			got, found := d.Cause()
			if !found || got.Kind != c.kind || !strings.Contains(got.Sentence, c.want) || !strings.Contains(c.log, got.Line) {
				t.Errorf("got %+v, want %q", got, c.want)
			}
		})
	}
	var healthy vllm.Diagnosis
	for line := range strings.SplitSeq(start, "\n") {
		healthy.Add(line)
	}
	if cause, found := healthy.Cause(); found {
		t.Errorf("a good start has the cause %+v", cause)
	}
}

func TestMergeKeepsWhatIsNotReported(t *testing.T) {
	old := vllm.Figures{Version: "0.32.0", CapacityTokens: ptr(int64(5)), MaxModelLen: ptr(int64(6)), Running: ptr(1.0)}
	got := vllm.Figures{CapacityTokens: ptr(int64(7))}.Merge(old)
	want := vllm.Figures{Version: "0.32.0", CapacityTokens: ptr(int64(7)), MaxModelLen: ptr(int64(6))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
