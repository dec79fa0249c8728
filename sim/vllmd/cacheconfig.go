package vllmd

import "strconv"

// cacheConfig writes the settings of the cache as labels. num_gpu_blocks is the sum over
// all engines; the size in tokens is that of one.
func (s *server) cacheConfig(x *exposition) {
	samples := make([]sample, 0, len(s.cores))
	for _, c := range s.cores {
		labels := append([]string{"engine", strconv.Itoa(c.rank)}, s.commonCacheLabels()...)
		if s.release.has(cacheSizeLabels) {
			labels = append(labels, s.laterCacheLabels()...)
		} else {
			labels = append(labels, s.earlierCacheLabels()...)
		}
		samples = append(samples, sample{labels: labels, value: 1})
	}
	x.gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", samples...)
}

// pyBool spells a truth value as Python does.
func pyBool(v bool) string {
	if v {
		return "True"
	}
	return "False"
}

// commonCacheLabels are those of all releases.
func (s *server) commonCacheLabels() []string {
	override := "None"
	if s.opt.blocks > 0 {
		override = strconv.Itoa(s.opt.blocks)
	}
	return []string{
		"block_size", strconv.Itoa(s.cfg.BlockSize),
		"cache_dtype", s.opt.kvDtype,
		"enable_prefix_caching", pyBool(s.opt.prefixCaching),
		"gpu_memory_utilization", pyNumber(s.opt.utilization),
		"is_attention_free", "False",
		"kv_cache_memory_bytes", "None",
		"kv_offloading_backend", "native",
		"kv_offloading_size", "None",
		"kv_sharing_fast_prefill", "False",
		"mamba_block_size", "None",
		"mamba_cache_dtype", "auto",
		"mamba_cache_mode", "none",
		"mamba_page_size_padded", "None",
		"mamba_ssm_cache_dtype", "auto",
		"num_cpu_blocks", "None",
		"num_gpu_blocks", strconv.Itoa(s.cfg.NumBlocks * len(s.cores)),
		"num_gpu_blocks_override", override,
		"prefix_caching_hash_algo", "sha256",
		"sliding_window", "None",
	}
}

// earlierCacheLabels are those of releases that do not tell how many tokens fit.
func (s *server) earlierCacheLabels() []string {
	return []string{
		"calculate_kv_scales", "False",
		"cpu_kvcache_space_bytes", "None",
		"cpu_offload_gb", "0",
		"cpu_offload_params", "set()",
		"swap_space", "4",
	}
}

// laterCacheLabels are those of releases that do. They are those of 0.32; when each of
// them came, but for the two of the size, is not known.
func (s *server) laterCacheLabels() []string {
	size := s.cfg.NumBlocks * s.cfg.BlockSize
	return []string{
		"_block_size_resolved", "True",
		"cache_hit_alignment_tokens", "None",
		"effective_attention_block_size", strconv.Itoa(s.cfg.BlockSize),
		"enable_mamba_shared_prefix_checkpoint", "False",
		"hash_block_size", "None",
		"kv_cache_dtype_skip_layers", "[]",
		"kv_cache_layout", "None",
		"kv_cache_max_concurrency", pyNumber(float64(size) / float64(s.maxModelLen)),
		"kv_cache_size_tokens", strconv.Itoa(size),
		"prefix_cache_retention_interval", "0",
		"prefix_match_unit", "None",
		"replayssm_buffer_len", "16",
		"skip_page_size_padded", "None",
		"swa_bounded_replay", "True",
		"use_kda_recoverssm", "False",
		"use_replayssm", "False",
		"user_specified_block_size", pyBool(s.opt.blockSize != 16),
	}
}
