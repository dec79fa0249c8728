#!/usr/bin/env bash
# run.sh BINARY: installs the real engine and the real clients if they are not
# there yet, then runs the tests that need them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "${1:?usage: run.sh BINARY}")

engine=$("$here/install.sh" | tail -n 1)
clients=$("$here/clients/install.sh" | tail -n 1)

export LMWARDEN_BINARY=$binary LMWARDEN_VLLM=$engine LMWARDEN_CLIENTS=$clients
cd "$here/../.."
# One after the other: both start engines, and a start takes all processors.
exec go test -tags vllm -count=1 -p 1 -v -timeout 25m ./tests/vllm/ ./tests/contract/
