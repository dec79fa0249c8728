#!/usr/bin/env bash
# apt-need.sh COMMAND PACKAGE: makes sure that a command exists. As root on a
# Debian it is installed; otherwise the sentence says exactly what to install.
set -euo pipefail
command=$1 package=$2

if command -v "$command" >/dev/null; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "$command is missing, and the tests need it: install it (Debian: sudo apt-get install --no-install-recommends $package) and run again" >&2
  exit 1
fi
echo "installing $package" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 || {
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "$package" >/dev/null
}
command -v "$command" >/dev/null || {
  echo "$package was installed but there is no $command" >&2
  exit 1
}
