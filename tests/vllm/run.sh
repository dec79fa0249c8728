#!/usr/bin/env bash
# run.sh BINARY: installs the real engine and the real clients if they are not
# there yet, then runs the tests that need them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "${1:?usage: run.sh BINARY}")
say() { printf 'test-vllm: %s\n' "$*" >&2; }

engine=$("$here/install.sh" | tail -n 1)

command -v npm >/dev/null || {
  say "npm is missing, and the clients come from its registry: install Node.js 20 or newer (Debian: apt-get install nodejs npm)"
  exit 1
}
# A changed list of clients gets a folder of its own.
clients=${XDG_CACHE_HOME:-$HOME/.cache}/lmwarden/clients-$(sha256sum "$here/clients/package-lock.json" | cut -c1-12)
if [ ! -f "$clients/installed" ]; then
  say "installing the clients (about 300 MB) into $clients; this happens once"
  mkdir -p "$clients"
  cp "$here/clients/package.json" "$here/clients/package-lock.json" "$clients/"
  npm --prefix "$clients" ci --ignore-scripts --no-audit --no-fund >&2
  touch "$clients/installed"
fi

export LMWARDEN_BINARY=$binary LMWARDEN_VLLM=$engine LMWARDEN_CLIENTS=$clients
cd "$here/../.."
# One after the other: both start engines, and a start takes all processors.
exec go test -tags vllm -count=1 -p 1 -v -timeout 25m ./tests/vllm/ ./tests/contract/
