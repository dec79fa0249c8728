package server

import (
	"errors"
	"fmt"
	"maps"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/upstream"
	"github.com/lmwarden/lmwarden/server/face"
	"github.com/lmwarden/lmwarden/supervisor"
	"github.com/lmwarden/lmwarden/supervisor/vllm"
)

// checkConfigMessage checks a configuration that did not come from a file.
func checkConfigMessage(cfg *lmwardenv1.Config) error {
	if err := face.Validate(cfg); err != nil {
		return fmt.Errorf("the configuration is not valid: %w", err)
	}
	return errors.Join(checkModels(cfg), checkKeys(cfg))
}

// checkSpec returns what is wrong with a model's spec beyond the ranges of its
// fields: fields that contradict each other.
func checkSpec(spec *lmwardenv1.ModelSpec) error {
	var problems []error
	if spec.GetSource() == "" && !remote(spec) {
		problems = append(problems, errors.New("spec.source is empty; give a Hugging Face repository or a local path"))
	}
	if remote(spec) && len(spec.GetRemoteUrls()) == 0 {
		problems = append(problems, errors.New("spec.remote_urls is empty; replica mode remote needs the URL of at least one engine"))
	}
	if !remote(spec) && len(spec.GetRemoteUrls()) > 0 {
		problems = append(problems, errors.New("spec.remote_urls is set; it goes with replica mode remote only"))
	}
	for i, url := range spec.GetRemoteUrls() {
		if err := upstream.CheckAddress(url); err != nil {
			problems = append(problems, fmt.Errorf("spec.remote_urls[%d]: %w", i, err))
		}
	}
	if spec.GetReplicaMode() == lmwardenv1.ReplicaMode_REPLICA_MODE_VLLM_DATA_PARALLEL {
		problems = append(problems, errors.New("spec.replica_mode: vllm data parallel is not served by this version; use independent"))
	}
	tp := max(spec.GetTensorParallelSize(), 1)
	if n := uint32(len(spec.GetGpus())); n > 0 && n%tp != 0 {
		problems = append(problems, fmt.Errorf("spec.gpus names %s, which is no multiple of tensor_parallel_size %d", plural(int(n), "card", "cards"), tp))
	}
	if n := uint32(len(spec.GetGpus())); n > 0 && spec.GetReplicas()*tp > n {
		problems = append(problems, fmt.Errorf("spec.gpus names %s and %d replicas of %d need %d; name more cards or ask for fewer replicas", plural(int(n), "card", "cards"), spec.GetReplicas(), tp, spec.GetReplicas()*tp))
	}
	return errors.Join(problems...)
}

// checkEngine returns what vLLM would not take of a spec.
func checkEngine(name string, spec *lmwardenv1.ModelSpec) error {
	if remote(spec) {
		return nil
	}
	return vllm.Check(engine(name, spec))
}

func remote(spec *lmwardenv1.ModelSpec) bool {
	return spec.GetReplicaMode() == lmwardenv1.ReplicaMode_REPLICA_MODE_REMOTE
}

// engine translates a model's spec into what we know of vLLM.
func engine(name string, spec *lmwardenv1.ModelSpec) vllm.Engine {
	return vllm.Engine{
		Source:            spec.GetSource(),
		ServedName:        name,
		TensorParallel:    int(spec.GetTensorParallelSize()),
		MaxModelLen:       int(spec.GetMaxModelLen()),
		MaxNumSeqs:        int(spec.GetMaxNumSeqs()),
		MaxBatchedTokens:  int(spec.GetMaxNumBatchedTokens()),
		MemoryUtilization: spec.GetGpuMemoryUtilization(),
		KVCacheType:       kvCacheType(spec.GetKvCacheType()),
		ToolCallParser:    spec.GetToolCallParser(),
		ReasoningParser:   spec.GetReasoningParser(),
		Extra:             spec.GetExtraArgs(),
		Env:               spec.GetEnv(),
	}
}

// kvCacheType returns vLLM's own word, or an empty text to leave it to the engine.
func kvCacheType(t lmwardenv1.KvCacheType) string {
	switch t {
	case lmwardenv1.KvCacheType_KV_CACHE_TYPE_AUTO:
		return "auto"
	case lmwardenv1.KvCacheType_KV_CACHE_TYPE_FP8:
		return "fp8"
	case lmwardenv1.KvCacheType_KV_CACHE_TYPE_BF16:
		return "bfloat16"
	}
	return ""
}

// specsOf returns the specs of a model's replicas, one per group of cards. Env is set
// for every engine, below the model's own variables.
func specsOf(m *lmwardenv1.Model, groups [][]string, env map[string]string) []supervisor.Spec {
	spec := m.GetSpec()
	all := maps.Clone(env)
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, spec.GetEnv())
	var args []string
	if !remote(spec) {
		args = vllm.Args(engine(m.GetName(), spec))
	}
	specs := make([]supervisor.Spec, len(groups))
	for i, cards := range groups {
		specs[i] = supervisor.Spec{
			ID:          supervisor.ReplicaID{Model: m.GetName(), Index: i},
			Args:        args,
			Env:         all,
			GPUs:        cards,
			ServedModel: m.GetName(),
		}
		if remote(spec) {
			specs[i].Remote = spec.GetRemoteUrls()[i]
		}
	}
	return specs
}
