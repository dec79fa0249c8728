package vllmd

import "strings"

// kind is what a flag takes.
type kind uint8

const (
	kindBool  kind = iota + 1 // nothing; also --no-NAME
	kindInt                   // a whole number
	kindLen                   // a whole number, also 32k or 1M, also auto
	kindFloat                 // a number
	kindText                  // anything
	kindList                  // one or more values, up to the next flag
)

// flagNames lists the flags of `vllm serve` by kind: all of 0.32's, and those that it had
// before. What is not here, or not in a release (flagSpans), is refused as unrecognized.
var flagNames = map[kind]string{
	kindBool: `
		headless grpc enable-log-requests enable-log-outputs enable-log-deltas disable-log-stats
		enable-prompt-tokens-details enable-force-include-usage enable-auto-tool-choice
		exclude-tools-when-tool-choice-none trust-request-chat-template enable-server-load-tracking
		enable-request-id-headers enable-ssl-refresh enable-tokenizer-info-endpoint
		enable-per-request-metrics disable-fastapi-docs disable-uvicorn-access-log allow-credentials
		return-tokens-as-token-ids tokens-only enable-offline-docs enable-scale-out trust-remote-code
		enforce-eager skip-tokenizer-init enable-prompt-embeds disable-sliding-window
		disable-cascade-attn enable-sleep-mode enable-prefix-caching calculate-kv-scales
		kv-sharing-fast-prefill kv-cache-metrics enable-expert-parallel enable-eplb enable-dbo
		data-parallel-hybrid-lb data-parallel-external-lb data-parallel-multi-port-external-lb
		disable-custom-all-reduce enable-elastic-ep enable-fault-tolerance enable-chunked-prefill
		disable-hybrid-kv-cache-manager async-scheduling scheduler-reserve-full-isl
		disable-chunked-mm-input enable-lora fully-sharded-loras enable-mm-embeds skip-mm-profiling
		language-model-only use-tqdm-on-load aggregate-engine-logging enable-mfu-metrics
		enable-layerwise-nvtx-tracing enable-return-routed-experts fail-on-environ-validation
		cohere-is-reasoning-model enable-flash-late-interaction log-error-stack trust-request-mm-kwargs
		allow-deprecated-quantization enable-cumem-allocator enable-nccl-comm-suspend
		enable-trace-replay return-sampling-mask sleep-mode-offload-cudagraph use-fp64-gumbel
		enable-mamba-cache-stochastic-rounding dcp-q-replicate disable-nccl-for-dp-synchronization
		enable-batch-sharded-sampling enable-ep-weight-filter enable-hc-sp enable-shm-tensor-arena
		numa-bind ray-workers-use-nsight enable-mamba-shared-prefix-checkpoint swa-bounded-replay
		use-replayssm interleave-mm-strings mm-device-do-normalize mm-encoder-only
		enable-mixed-moe-lora-format enable-moe-shared-loras enable-tower-connector-lora
		specialize-active-lora cudagraph-metrics enable-logging-iteration-details jit-monitor-verbose
		long-prefill-token-threshold-adaptive enable-flashinfer-autotune`,
	kindInt: `
		port api-server-count data-parallel-size data-parallel-size-local data-parallel-rank
		data-parallel-start-rank data-parallel-rpc-port data-parallel-supervisor-port
		tensor-parallel-size pipeline-parallel-size prefill-context-parallel-size
		decode-context-parallel-size master-port nnodes node-rank max-parallel-loading-workers
		ubatch-size max-num-seqs max-num-partial-prefills max-long-partial-prefills
		long-prefill-token-threshold max-num-queued-reqs max-num-queued-tokens block-size
		num-gpu-blocks-override prefix-cache-retention-interval seed max-logprobs
		max-cudagraph-capture-size max-log-len h11-max-incomplete-event-size h11-max-header-count
		ssl-cert-reqs stream-interval max-loras max-lora-rank max-cpu-loras shutdown-timeout
		dp-supervisor-probe-failure-threshold kv-cache-metrics-sample grpc-port renderer-num-workers
		safetensors-prefetch-block-size safetensors-prefetch-num-threads mamba-cache-philox-rounds
		cp-kv-cache-interleave-size cpu-distributed-timeout-seconds dbo-decode-token-threshold
		dbo-prefill-token-threshold dcp-kv-cache-interleave-size dp-sync-interval elastic-ep-max-dp-size
		replayssm-buffer-len offload-group-size offload-num-in-group offload-prefetch-step
		mm-shm-cache-max-object-size-mb max-lora-cls-labels max-num-active-seqs max-num-scheduled-tokens
		prefill-schedule-interval spec-tokens sse-keep-alive-interval`,
	kindLen: `
		max-model-len max-num-batched-tokens kv-cache-memory-bytes`,
	kindFloat: `
		gpu-memory-utilization swap-space cpu-offload-gb kv-offloading-size mm-processor-cache-gb
		dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s video-pruning-rate
		distributed-timeout-seconds mm-encoder-fp8-scale-save-margin mm-ipc-gpu-memory-gb`,
	kindText: `
		allowed-origins allowed-methods allowed-headers middleware
		model host uds root-path chat-template chat-template-content-format response-role
		tool-call-parser reasoning-parser reasoning-parser-plugin tool-parser-plugin tool-server
		ssl-keyfile ssl-certfile ssl-ca-certs uvicorn-log-level log-config-file config
		disable-access-log-for-endpoints default-chat-template-kwargs fingerprint-mode runner convert
		tokenizer tokenizer-mode tokenizer-revision dtype revision code-revision hf-config-path
		hf-overrides hf-token config-format generation-config override-generation-config load-format
		download-dir model-loader-extra-config safetensors-load-strategy quantization model-impl
		kv-cache-dtype mamba-cache-dtype mamba-ssm-cache-dtype mamba-block-size mamba-cache-mode
		prefix-caching-hash-algo kv-offloading-backend distributed-executor-backend
		data-parallel-address data-parallel-backend master-addr all2all-backend worker-cls
		worker-extension-cls device-ids eplb-config scheduling-policy scheduler-cls performance-mode
		optimization-level attention-backend kv-transfer-config kv-events-config ec-transfer-config
		speculative-config spec-method compilation-config attention-config kernel-config profiler-config
		structured-outputs-config pooler-config additional-config otlp-traces-endpoint
		collect-detailed-traces limit-mm-per-prompt media-io-kwargs mm-processor-kwargs
		mm-encoder-tp-mode mm-encoder-attn-backend lora-dtype default-mm-loras
		show-hidden-metrics-for-version allowed-local-media-path gdn-prefill-backend kda-decode-backend
		kda-prefill-backend anthropic-disabled-thinking-effort cohere-format fingerprint-value
		ssl-ciphers tool-strict-level io-processor-plugin logprobs-mode model-class-overrides
		quantization-config pt-load-map-location mamba-backend mamba-ssu-algorithm dcp-comm-backend
		expert-placement-strategy fault-tolerance-config prefix-match-unit offload-backend
		mm-encoder-attn-dtype mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-path
		mm-hasher-algorithm mm-processor-cache-type mm-processor-device mm-tensor-ipc
		video-pruning-method log-level logging-config custom-histogram-buckets jit-monitor-mode
		per-request-spec-decode-metrics watermark ir-op-priority linear-backend moe-backend
		sparse-indexer-topk-backend aux-output-config diffusion-config ec-manager-config engram-config
		reasoning-config spec-model watermark-config weight-transfer-config`,
	kindList: `
		served-model-name api-key
		lora-modules logits-processors ignore-patterns allowed-media-domains cudagraph-capture-sizes
		kv-cache-dtype-skip-layers sleep-preserve-parameter-names numa-bind-cpus numa-bind-nodes
		cpu-offload-params offload-params lora-target-modules`,
}

// notSimulated lists flags that vLLM has and that would change what clients see, so
// that ignoring them would mislead.
var notSimulated = []string{"uds", "headless", "grpc", "config", "ssl-keyfile", "ssl-certfile"}

// shortNames are the one-dash forms.
var shortNames = map[string]string{
	"--device-memory-utilization": "gpu-memory-utilization",
	"-tp":                         "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-dp": "data-parallel-size",
	"-dpn": "data-parallel-rank", "-dpr": "data-parallel-start-rank", "-dpl": "data-parallel-size-local",
	"-dpa": "data-parallel-address", "-dpp": "data-parallel-rpc-port", "-dpb": "data-parallel-backend",
	"-dph": "data-parallel-hybrid-lb", "-dpe": "data-parallel-external-lb",
	"-dpm": "data-parallel-multi-port-external-lb", "-asc": "api-server-count", "-q": "quantization",
	"-O": "optimization-level", "-cc": "compilation-config", "-sc": "speculative-config",
	"-ac": "attention-config", "-ep": "enable-expert-parallel", "-n": "nnodes", "-r": "node-rank",
}

// kinds is flagNames turned round.
var kinds = func() map[string]kind {
	m := make(map[string]kind)
	for k, names := range flagNames {
		for _, n := range strings.Fields(names) {
			m[n] = k
		}
	}
	return m
}()
