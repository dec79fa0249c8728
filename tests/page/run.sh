#!/usr/bin/env bash
# run.sh BINARY [ARGUMENT...]: runs the page's tests in a real Chromium against a real
# daemon with a simulated box and traffic, and one that asks for keys. The arguments go to
# Playwright: the name of a spec runs that one.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=$(realpath "${1:?usage: run.sh BINARY [ARGUMENT...]}")
shift
scratch=$(mktemp -d)

# Four at once, so that none is given twice; free again when the program has ended.
free=$(python3 -c '
import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
print(*("127.0.0.1:%d" % s.getsockname()[1] for s in held))')
read -r admin inference keyed_admin keyed_inference <<<"$free"

# Keys have a daemon of their own: what limits them would limit the demo's traffic.
printf 'sk-of-alice # alice\nsk-of-bob # bob\n' >"$scratch/keys"
cat >"$scratch/keyed.yaml" <<EOF
admin_listen: $keyed_admin
inference_listen: $keyed_inference
data_dir: $scratch/keyed
inference_auth:
  keys_file: $scratch/keys
  keys:
    - name: bob
      limits: {max_tokens_per_minute: 5000}
EOF
"$binary" serve --config "$scratch/keyed.yaml" >"$scratch/keyed.log" 2>&1 &
keyed=$!
"$binary" demo --sessions 8 --speed 4 --admin-listen "$admin" --inference-listen "$inference" >"$scratch/log" 2>&1 &
daemon=$!

finish() {
  local code=$?
  kill -INT "$daemon" "$keyed" 2>/dev/null || :
  wait "$daemon" || code=$?
  wait "$keyed" || code=$?
  if [ "$code" != 0 ]; then
    echo "page: failed with $code; the last lines of the demo, and of the daemon with keys:" >&2
    tail -n 40 "$scratch/log" "$scratch/keyed.log" >&2
  fi
  rm -rf "$scratch"
  exit "$code"
}
trap finish EXIT

# The page shows something once every replica is ready.
for _ in $(seq 300); do
  if curl -fsS -H 'Content-Type: application/json' -d '{}' "http://$admin/lmwarden.v1.ModelService/ListModels" 2>/dev/null | grep -q MODEL_STATE_READY; then
    ready=yes
    break
  fi
  kill -0 "$daemon" || { echo "page: the demo ended at its start" >&2; exit 1; }
  sleep 0.2
done
[ "${ready:-}" = yes ] || { echo "page: the model was not ready within 60 s" >&2; exit 1; }
curl -fsS --retry 60 --retry-delay 1 --retry-connrefused "http://$keyed_admin/healthz" >/dev/null

cd ui
export LMWARDEN_URL=http://$admin LMWARDEN_INFERENCE_URL=http://$inference
export LMWARDEN_KEYED_URL=http://$keyed_admin LMWARDEN_KEYED_INFERENCE_URL=http://$keyed_inference
node_modules/.bin/playwright test "$@"
