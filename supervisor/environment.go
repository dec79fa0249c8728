package supervisor

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// tokenVar names the variable that marks every process of one life of a replica. It is
// inherited by children, so that they are found when their parents are gone.
const tokenVar = "LMWARDEN_REPLICA"

// alwaysPassed are the daemon's variables that every engine sees.
var alwaysPassed = []string{"PATH", "HOME", "LANG", "USER", "TMPDIR"}

// environment builds the whole environment of an engine. It begins empty, so that
// nothing of the daemon's own (CUDA_VISIBLE_DEVICES, PYTHONPATH, LD_PRELOAD, its
// admin token) leaks into engines.
func environment(passEnv []string, spec Spec, l lease, token, key string) []string {
	env := map[string]string{
		// A pipe would make Python hold back its lines.
		"PYTHONUNBUFFERED": "1",
	}
	for _, name := range slices.Concat(alwaysPassed, passEnv) {
		if v, ok := os.LookupEnv(name); ok {
			env[name] = v
		}
	}
	maps.Copy(env, spec.Env)
	maps.Copy(env, map[string]string{
		// Full names in the layout's order; empty hides all cards.
		"CUDA_VISIBLE_DEVICES": strings.Join(spec.GPUs, ","),
		"CUDA_DEVICE_ORDER":    "PCI_BUS_ID",
		"VLLM_PORT":            fmt.Sprint(l.internal),
		// Shown by ps and top instead of the command line.
		"VLLM_PROCESS_NAME_PREFIX": fmt.Sprintf("%s/%d", spec.ID.Model, spec.ID.Index),
		// Setting its title, a Python process would overwrite the memory from which the
		// kernel shows its environment, and our token with it.
		"SPT_NOENV": "1",
		tokenVar:    token,
		// Nobody else of this host gets past the proxy. Not on the command line, which
		// everybody can read.
		"VLLM_API_KEY": key,
	})
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
