#!/usr/bin/env bash
# run.sh BINARY [FLAGS]: installs the peers if they are not there yet, then runs the
# same load through each of them and through us. The flags are those of the runner.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "${1:?usage: run.sh BINARY [FLAGS]}")
shift
peers=
case " $* " in
*" -own "*) ;; # only ours takes part
*) peers=$("$here/install.sh" | tail -n 1) ;;
esac
cd "$here/../.."
runner=$(mktemp -d)
trap 'rm -rf "$runner"' EXIT
go build -o "$runner/peers" ./tests/peers
PATH=$PATH:/usr/sbin "$runner/peers" -binary "$binary" -peers "$peers" "$@"
