#!/usr/bin/env bash
# measure.sh BINARY [FLAGS]: installs the real engine if it is not there yet, then runs
# the same conversations against two of them, without and with admission, and prints a
# table and what it shows. The flags are -steps, -step, -warmup, -rounds and -resume.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "${1:?usage: measure.sh BINARY [FLAGS]}")
shift
engine=$("$here/install.sh" | tail -n 1)
export LMWARDEN_BINARY=$binary LMWARDEN_VLLM=$engine
cd "$here/../.."
exec go test -tags measure -count=1 -v -timeout 60m -run '^TestMeasure$' ./tests/vllm/ -args "$@"
