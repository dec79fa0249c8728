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

// flagNames lists the flags of `vllm serve` 0.32 by kind. What is not here is refused
// as unrecognized.
var flagNames = map[kind]string{
	kindBool: `
		headless grpc disable-log-requests enable-log-requests enable-log-outputs enable-log-deltas
		disable-log-stats enable-prompt-tokens-details enable-force-include-usage
		enable-auto-tool-choice exclude-tools-when-tool-choice-none trust-request-chat-template
		enable-server-load-tracking enable-request-id-headers enable-ssl-refresh
		enable-tokenizer-info-endpoint enable-per-request-metrics log-config-requests
		disable-fastapi-docs disable-uvicorn-access-log allow-credentials
		return-tokens-as-token-ids tokens-only enable-offline-docs enable-scale-out
		trust-remote-code enforce-eager skip-tokenizer-init enable-prompt-embeds
		disable-sliding-window disable-cascade-attn enable-sleep-mode
		enable-prefix-caching calculate-kv-scales kv-sharing-fast-prefill kv-cache-metrics
		enable-expert-parallel enable-eplb enable-dbo data-parallel-hybrid-lb data-parallel-external-lb
		data-parallel-multi-port-external-lb disable-custom-all-reduce enable-elastic-ep
		enable-fault-tolerance enable-chunked-prefill disable-hybrid-kv-cache-manager async-scheduling
		scheduler-reserve-full-isl disable-chunked-mm-input enable-lora fully-sharded-loras
		enable-mm-embeds skip-mm-profiling language-model-only use-tqdm-on-load
		aggregate-engine-logging show-hidden-metrics enable-mfu-metrics enable-cudagraph-metrics
		enable-layerwise-nvtx-tracing enable-return-routed-experts fail-on-environ-validation`,
	kindInt: `
		port api-server-count data-parallel-size data-parallel-size-local data-parallel-rank
		data-parallel-start-rank data-parallel-rpc-port data-parallel-supervisor-port
		tensor-parallel-size pipeline-parallel-size prefill-context-parallel-size
		decode-context-parallel-size master-port nnodes node-rank max-parallel-loading-workers
		ubatch-size max-num-seqs max-num-partial-prefills max-long-partial-prefills
		long-prefill-token-threshold max-num-queued-reqs max-num-queued-tokens block-size
		num-gpu-blocks-override num-cpu-blocks prefix-cache-retention-interval seed max-logprobs
		max-cudagraph-capture-size max-log-len h11-max-incomplete-event-size h11-max-header-count
		ssl-cert-reqs stream-interval max-loras max-lora-rank max-cpu-loras shutdown-timeout
		dp-supervisor-probe-failure-threshold kv-cache-metrics-sample`,
	kindLen: "max-model-len max-num-batched-tokens kv-cache-memory-bytes",
	kindFloat: `
		gpu-memory-utilization swap-space cpu-offload-gb kv-offloading-size mm-processor-cache-gb
		sse-keep-alive-interval dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s
		video-pruning-rate distributed-timeout-seconds`,
	kindText: `
		model host uds root-path chat-template chat-template-content-format response-role
		tool-call-parser reasoning-parser reasoning-parser-plugin tool-parser-plugin tool-server
		ssl-keyfile ssl-certfile ssl-ca-certs uvicorn-log-level log-config-file config
		disable-access-log-for-endpoints default-chat-template-kwargs fingerprint-mode
		runner convert tokenizer tokenizer-mode tokenizer-revision dtype revision code-revision
		hf-config-path hf-overrides hf-token config-format generation-config override-generation-config
		load-format download-dir model-loader-extra-config safetensors-load-strategy quantization
		model-impl kv-cache-dtype mamba-cache-dtype mamba-ssm-cache-dtype mamba-block-size
		mamba-cache-mode prefix-caching-hash-algo kv-offloading-backend kv-cache-layout
		distributed-executor-backend data-parallel-address data-parallel-backend master-addr
		all2all-backend worker-cls worker-extension-cls device-ids eplb-config
		scheduling-policy scheduler-cls performance-mode optimization-level attention-backend
		kv-transfer-config kv-events-config ec-transfer-config speculative-config spec-method
		compilation-config attention-config kernel-config profiler-config structured-outputs-config
		pooler-config additional-config observability-config otlp-traces-endpoint
		collect-detailed-traces limit-mm-per-prompt media-io-kwargs mm-processor-kwargs
		mm-encoder-tp-mode mm-encoder-attn-backend lora-dtype default-mm-loras logits-processor-pattern
		show-hidden-metrics-for-version allowed-local-media-path`,
	kindList: `
		served-model-name api-key allowed-origins allowed-methods allowed-headers middleware
		lora-modules logits-processors ignore-patterns allowed-media-domains cudagraph-capture-sizes
		kv-cache-dtype-skip-layers`,
}

// notSimulated lists flags that vLLM has and that would change what clients see, so
// that ignoring them would mislead.
var notSimulated = []string{"uds", "headless", "grpc", "config", "ssl-keyfile", "ssl-certfile"}

// shortNames are the one-dash forms.
var shortNames = map[string]string{
	"-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-dp": "data-parallel-size",
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
