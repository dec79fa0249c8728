package vllmd

import (
	"errors"
	"strings"
	"testing"

	"github.com/lmwarden/lmwarden/sim/engine"
)

func TestFlags(t *testing.T) {
	o, err := parseFlags(strings.Fields(`some/model --host=127.0.0.1 --port 8101 --served-model-name a b --max-model-len 32k
		--max_num_seqs 8 --max-num-batched-tokens=1K --gpu-memory-utilization 0.5 --kv-cache-dtype fp8 --block-size 32
		--num-gpu-blocks-override 200 -tp 2 --enable-prompt-tokens-details --enable-auto-tool-choice
		--tool-call-parser hermes --reasoning-parser qwen3 --api-key k --shutdown-timeout 20 -dp 2 --enforce-eager
		--load-format dummy --no-enable-prefix-caching --max-model-len 4096 --compilation-config.mode 0 --seed -1`), defaultRelease)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case o.model != "some/model", o.host != "127.0.0.1", o.port != 8101, strings.Join(o.served, " ") != "a b",
		o.maxModelLen != 4096, o.maxNumSeqs != 8, o.maxBatched != 1024, o.utilization != 0.5, o.kvDtype != "fp8",
		o.blockSize != 32, o.blocks != 200, o.tp != 2, o.dp != 2, !o.promptDetails, !o.tools, o.shutdownAfter != 20,
		!o.eager, o.prefixCaching, len(o.duplicates) != 1, len(o.apiKeys) != 1:
		t.Errorf("read %+v", o)
	}
	if got := strings.Join(o.given, ", "); !strings.Contains(got, "'served_model_name': ['a', 'b']") || !strings.Contains(got, "'enforce_eager': True") || !strings.Contains(got, "'port': 8101") {
		t.Errorf("the log would say %s", got)
	}
	d, err := parseFlags([]string{"m"}, defaultRelease)
	if err != nil || d.port != 8000 || d.maxNumSeqs != 256 || d.maxBatched != 2048 || d.served[0] != "m" || !d.prefixCaching {
		t.Errorf("the defaults are %+v, %v", d, err)
	}
}

// TestHelp lists the flags of the release, wherever it is asked for, and ends well.
func TestHelp(t *testing.T) {
	t.Setenv("LMWARDEN_SIM_VERSION", "0.22")
	for _, ask := range []string{"-h", "--help", "--help=all"} {
		var out, problems strings.Builder
		code := serve([]string{"m", "--max-num-seqs", "8", ask}, nil, &out, &problems)
		for text, want := range map[string]bool{
			"vLLM 0.22.0": true, "  --max-num-seqs MAX_NUM_SEQS\n": true, "  --enforce-eager, --no-enforce-eager\n": true,
			"  --swap-space ": true, "  --sse-keep-alive-interval": false, "  --uds": false,
		} {
			if strings.Contains(out.String(), text) != want {
				t.Errorf("%s: %q is in the help: %t", ask, text, !want)
			}
		}
		if code != exitOK || problems.String() != "" {
			t.Errorf("%s: exit code %d: %s", ask, code, problems.String())
		}
	}
}

func TestFlagErrors(t *testing.T) {
	for line, want := range map[string]string{
		"m --no-such-flag":                "unrecognized arguments: --no-such-flag",
		"m --max-num-seq 3":               "unrecognized arguments: --max-num-seq",
		"m other":                         "unrecognized arguments: other",
		"m --port":                        "argument --port: expected one argument",
		"m --port x":                      "argument --port: invalid int value: 'x'",
		"m --served-model-name":           "argument --served-model-name: expected at least one argument",
		"m --enforce-eager=1":             "argument --enforce-eager: ignored explicit argument '1'",
		"m --kv-cache-dtype int1":         "argument --kv-cache-dtype: invalid choice",
		"m --gpu-memory-utilization 1.5":  "argument --gpu-memory-utilization: 1.5 is not between 0 and 1",
		"m --max-model-len many":          "argument --max-model-len: invalid human_readable_int value: 'many'",
		"m --tensor-parallel-size 0":      "argument --tensor-parallel-size: 0 is less than 1",
		"m --no-port 3":                   "unrecognized arguments: --no-port",
		"m --gpu-memory-utilization high": "argument --gpu-memory-utilization: invalid float value: 'high'",
	} {
		_, err := parseFlags(strings.Fields(line), defaultRelease)
		var usage *usageError
		if !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q gave %v, want %s", line, err, want)
		}
	}
	for line, want := range map[string]string{
		"m --uds /x":                           "has no --uds",
		"m -tp 8 -dp 9":                        "at most 64 cards",
		"m --num-gpu-blocks-override 99999999": "at most 16777216",
		"m --max-model-len 1e30":               "invalid human_readable_int",
		"m -dp 2 --data-parallel-rank 0":       "Non-MoE models do not support external data parallel mode",
	} {
		if _, err := parseFlags(strings.Fields(line), defaultRelease); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gave %v, want %q", line, err, want)
		}
	}
	if _, err := parseFlags([]string{"m", "--enable-auto-tool-choice"}, defaultRelease); err == nil || !strings.Contains(err.Error(), "requires --tool-call-parser") {
		t.Errorf("tool choice without a parser gave %v", err)
	}
}

// TestPlan checks the size of the cache that the flags lead to.
func TestPlan(t *testing.T) {
	preset, err := engine.FindPreset("a4000/qwen3-4b")
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]struct {
		tokens int // within 1 %
		err    string
	}{
		"m":                               {46_000, ""},
		"m --kv-cache-dtype fp8":          {92_000, ""},
		"m --num-gpu-blocks-override 200": {3_200, ""},
		"m --gpu-memory-utilization 0.8":  {32_000, ""},
		"m --gpu-memory-utilization 0.3":  {0, "No available memory for the cache blocks"},
		"m --max-model-len 100k":          {0, "estimated maximum model length is 46"},
		"m -tp 2":                         {146_700, ""},
	} {
		o, err := parseFlags(strings.Fields(line), defaultRelease)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := plan(o, preset)
		if want.err != "" {
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%q gave %v, want %q", line, err, want.err)
			}
			continue
		}
		got := cfg.NumBlocks * cfg.BlockSize
		if err != nil || got < want.tokens*99/100 || got > want.tokens*101/100 {
			t.Errorf("%q holds %d tokens, want %d (%v)", line, got, want.tokens, err)
		}
	}
}

func TestSettings(t *testing.T) {
	for name, value := range map[string]string{
		"LMWARDEN_SIM_PRESET": "none", "LMWARDEN_SIM_SPEED": "0", "LMWARDEN_SIM_START": "soon", "LMWARDEN_SIM_FAULT": "x",
	} {
		_, err := readSettings(func(n string) string {
			if n == name {
				return value
			}
			return ""
		})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s gave %v", name, value, err)
		}
	}
}
