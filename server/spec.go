package server

import (
	"errors"
	"fmt"

	"buf.build/go/protovalidate"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// checkConfigMessage checks a configuration that did not come from a file.
func checkConfigMessage(cfg *lmwardenv1.Config) error {
	if err := protovalidate.Validate(cfg); err != nil {
		return fmt.Errorf("the configuration is not valid: %w", err)
	}
	return checkModels(cfg)
}

// checkSpec returns what is wrong with a model's spec beyond the ranges of its
// fields: fields that contradict each other.
func checkSpec(spec *lmwardenv1.ModelSpec) error {
	var problems []error
	remote := spec.GetReplicaMode() == lmwardenv1.ReplicaMode_REPLICA_MODE_REMOTE
	if spec.GetSource() == "" && !remote {
		problems = append(problems, errors.New("spec.source is empty; give a Hugging Face repository or a local path"))
	}
	if remote && len(spec.GetRemoteUrls()) == 0 {
		problems = append(problems, errors.New("spec.remote_urls is empty; replica mode remote needs the URL of at least one engine"))
	}
	if !remote && len(spec.GetRemoteUrls()) > 0 {
		problems = append(problems, errors.New("spec.remote_urls is set; it goes with replica mode remote only"))
	}
	if spec.GetReplicaMode() == lmwardenv1.ReplicaMode_REPLICA_MODE_VLLM_DATA_PARALLEL {
		problems = append(problems, errors.New("spec.replica_mode: vllm data parallel is not served by this version; use independent"))
	}
	tp := max(spec.GetTensorParallelSize(), 1)
	if n := uint32(len(spec.GetGpus())); n > 0 && n%tp != 0 {
		problems = append(problems, fmt.Errorf("spec.gpus names %d cards, which is no multiple of tensor_parallel_size %d", n, tp))
	}
	if n := uint32(len(spec.GetGpus())); n > 0 && spec.GetReplicas()*tp > n {
		problems = append(problems, fmt.Errorf("spec.gpus names %d cards and %d replicas of %d need %d; name more cards or ask for fewer replicas", n, spec.GetReplicas(), tp, spec.GetReplicas()*tp))
	}
	return errors.Join(problems...)
}
