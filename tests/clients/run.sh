#!/usr/bin/env bash
# run.sh BINARY: installs the real clients if they are not there yet, then runs them
# against the daemon while scripted engines answer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "${1:?usage: run.sh BINARY}")
clients=$("$here/../vllm/clients/install.sh" | tail -n 1)

export LMWARDEN_BINARY=$binary LMWARDEN_CLIENTS=$clients
cd "$here/../.."
exec go test -tags clients -count=1 -v -timeout 40m ./tests/clients/
