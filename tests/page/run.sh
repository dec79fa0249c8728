#!/usr/bin/env bash
# run.sh BINARY: runs the page's tests in a real Chromium against a real daemon with
# a simulated box and traffic.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=$(realpath "${1:?usage: run.sh BINARY}")
scratch=$(mktemp -d)

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
admin=127.0.0.1:$(free_port)
inference=127.0.0.1:$(free_port)

"$binary" demo --sessions 8 --speed 4 --admin-listen "$admin" --inference-listen "$inference" >"$scratch/log" 2>&1 &
daemon=$!
finish() {
  local code=$?
  kill -INT "$daemon" 2>/dev/null || :
  wait "$daemon" || code=$?
  if [ "$code" != 0 ]; then
    echo "page: failed with $code; the demo's last lines:" >&2
    tail -n 40 "$scratch/log" >&2
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

cd ui
LMWARDEN_URL=http://$admin LMWARDEN_INFERENCE_URL=http://$inference node_modules/.bin/playwright test
