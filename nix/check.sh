#!/usr/bin/env bash
# Checks what can be checked of the Nix files without nixpkgs: every file parses,
# the module evaluates against nix/testing/lib.nix, what it renders is what it
# should, it refuses what it should, and the daemon accepts the rendered file.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v nix-instantiate >/dev/null || {
  echo "nix-instantiate is missing: install Nix (Debian: apt-get install --no-install-recommends nix-bin)" >&2
  exit 1
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# An evaluator without a daemon and without the user's configuration.
export NIX_STORE_DIR=$scratch/store NIX_STATE_DIR=$scratch/state NIX_LOG_DIR=$scratch/log NIX_CONF_DIR=$scratch/conf
export NIX_CONFIG=$'build-users-group =\nexperimental-features = nix-command flakes'
passed=0

for file in flake.nix nix/*.nix nix/testing/*.nix; do
  nix-instantiate --parse "$file" >/dev/null
  passed=$((passed + 1))
done

# evaluate CONFIGURATION: prints the evaluation as JSON.
evaluate() {
  nix-instantiate --eval --strict --json -E "import ./nix/testing/eval.nix { configuration = $1; }"
}

# expect NAME CONFIGURATION JQ-LIKE-PYTHON: the expression over v must be true.
expect() {
  local out
  out=$(evaluate "$2") || { echo "nix: $1: evaluation failed" >&2; exit 1; }
  printf '%s' "$out" | python3 -c "
import json, sys
v = json.load(sys.stdin)
assert ($3), json.dumps(v, indent=1)" || { echo "nix: $1: $3 does not hold" >&2; exit 1; }
  passed=$((passed + 1))
}

# refuse NAME CONFIGURATION TEXT: evaluation must fail with TEXT in its message.
refuse() {
  local out
  if out=$(evaluate "$2" 2>&1); then
    echo "nix: $1: was accepted: $out" >&2
    exit 1
  fi
  grep -qF -- "$3" <<<"$out" || { echo "nix: $1: refused, but without \"$3\": $out" >&2; exit 1; }
  passed=$((passed + 1))
}

expect "off by default" '{ }' 'v["unit"] is None and v["users"] == []'
expect "an empty configuration keeps every default" '{ services.lmwarden.enable = true; }' \
  'v["file"] == {} and v["unit"]["serviceConfig"]["User"] == "lmwarden" and v["allowedTCPPorts"] == []'
full='{
  services.lmwarden = {
    enable = true;
    openFirewall = true;
    settings = {
      inference_listen = "0.0.0.0:9000";
      inference_auth.keys_file = "/run/keys/lmwarden";
      engine.command = [ "/opt/vllm/bin/vllm" ];
      engine.drain_timeout = "45s";
    };
    models.qwen3-4b = {
      spec = { source = "Qwen/Qwen3-4B-Instruct-2507"; replicas = 4; tool_call_parser = "hermes"; aliases = [ "claude-*" ]; };
      routing = { affinity = true; spill_threshold = 6; admission = "ADMISSION_WORKING_SET"; };
    };
  };
}'
expect "a full configuration is rendered as written" "$full" \
  'v["file"]["models"] == [{"name": "qwen3-4b", "stopped": False, "spec": {"source": "Qwen/Qwen3-4B-Instruct-2507", "replicas": 4, "tool_call_parser": "hermes", "aliases": ["claude-*"]}, "routing": {"affinity": True, "spill_threshold": 6, "admission": "ADMISSION_WORKING_SET"}}] and v["file"]["engine"] == {"command": ["/opt/vllm/bin/vllm"], "drain_timeout": "45s"} and v["allowedTCPPorts"] == [9000]'
expect "limits of keys are declared" \
  '{ services.lmwarden = { enable = true; settings.inference_auth.keys_file = "/run/keys/lmwarden"; keys."*".max_requests_per_minute = 60; keys.team-a = { max_concurrent_requests = 4; }; }; }' \
  'v["file"]["inference_auth"] == {"keys_file": "/run/keys/lmwarden", "keys": [{"name": "*", "limits": {"max_requests_per_minute": 60}}, {"name": "team-a", "limits": {"max_concurrent_requests": 4}}]}'
refuse "an open address without keys" \
  '{ services.lmwarden = { enable = true; settings.inference_listen = "0.0.0.0:8000"; }; }' \
  'set settings.inference_auth.keys_file'
expect "an open address, said to be insecure" \
  '{ services.lmwarden = { enable = true; settings.inference_listen = "0.0.0.0:8000"; settings.insecure = true; }; }' \
  'v["file"]["insecure"] is True'
refuse "a model without a source" '{ services.lmwarden = { enable = true; models.m = { }; }; }' 'every model needs'
refuse "a threshold out of range" \
  '{ services.lmwarden = { enable = true; models.m = { spec.source = "a/b"; routing.spill_threshold = 0; }; }; }' \
  'services.lmwarden.models.m.routing.spill_threshold'
refuse "a misspelt option" '{ services.lmwarden = { enable = true; settings.inference_lisen = "x"; }; }' 'inference_lisen'
refuse "a wrong type" '{ services.lmwarden = { enable = true; settings.insecure = "yes"; }; }' 'settings.insecure'

# The flake's outputs evaluate.
nix-instantiate --eval --strict --json nix/testing/flake-outputs.nix | python3 -c "
import json, sys
v = json.load(sys.stdin)
want = open('nix/vendor-hash').read().strip()
assert v['systems'] == ['aarch64-linux', 'x86_64-linux'] and v['pname'] == v['overlay'] == v['mainProgram'] == 'lmwarden', v
assert v['vendorHash'] == want and v['lazy'] and v['shell'] and v['module'], v" || {
  echo "nix: the flake's outputs are not what they should be" >&2
  exit 1
}
passed=$((passed + 1))

# The daemon accepts what the module renders.
if [ -x bin/lmwarden ]; then
  # The daemon looks whether the keys can be read.
  echo a-key >"$scratch/keys"
  evaluate "$full" | python3 -c 'import json, sys; json.dump(json.load(sys.stdin)["file"], sys.stdout)' |
    sed "s#/run/keys/lmwarden#$scratch/keys#" >"$scratch/lmwarden.yaml"
  bin/lmwarden config check "$scratch/lmwarden.yaml" >/dev/null
  passed=$((passed + 1))
else
  echo "nix: bin/lmwarden is not built; run make build first" >&2
  exit 1
fi

# nix/vendor-hash is the hash of the modules that go.mod names.
go mod vendor -o "$scratch/vendor"
vendor=$(nix hash path "$scratch/vendor")
if [ "$vendor" != "$(cat nix/vendor-hash)" ]; then
  echo "nix: the modules have changed: write $vendor into nix/vendor-hash" >&2
  exit 1
fi
passed=$((passed + 1))

# The unit that systemd would get is one that systemd takes.
if command -v systemd-analyze >/dev/null; then
  evaluate "$full" | python3 -c '
import json, sys
unit = json.load(sys.stdin)["unit"]
service = unit["serviceConfig"]
with open(sys.argv[1], "w") as out:
    out.write("[Unit]\nDescription=%s\n[Service]\n" % unit["description"])
    for key, value in service.items():
        if key == "ExecStart":
            value = "/bin/true"
        if key in ("User", "Group"):
            value = "root"
        out.write("%s=%s\n" % (key, str(value).lower() if isinstance(value, bool) else value))
' "$scratch/lmwarden.service"
  systemd-analyze verify "$scratch/lmwarden.service"
  passed=$((passed + 1))
fi

echo "nix: $passed checks passed"
