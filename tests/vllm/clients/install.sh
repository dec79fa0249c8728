#!/usr/bin/env bash
# Installs the real clients that tests point at the daemon into the user's cache
# folder, once, at the versions that stand beside this script: Claude Code, Codex,
# OpenCode, Qwen Code, and the SDKs of OpenAI and Anthropic for Node and Python. No
# install script of a package is run. Prints the folder's path as its last line.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
say() { printf 'test-clients: %s\n' "$*" >&2; }

need() {
  command -v "$1" >/dev/null || {
    say "$1 is missing: install $2"
    exit 1
  }
}
need npm "Node.js 20 or newer (Debian: apt-get install nodejs npm)"
need python3 "Python 3.10 or newer (Debian: apt-get install python3 python3-venv)"
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  say "the pinned builds of the coding agents are for Linux on x86-64, this is $(uname -sm)"
  exit 1
fi

# A changed list of clients gets a folder of its own.
list=$(cat "$here/package-lock.json" "$here/python.txt" | sha256sum | cut -c1-12)
clients=${XDG_CACHE_HOME:-$HOME/.cache}/lmwarden/clients-$list
if [ ! -f "$clients/installed" ]; then
  say "installing the clients (about 1.1 GB) into $clients; this happens once"
  mkdir -p "$clients"
  free=$(df -Pk "$clients" | awk 'NR == 2 { print int($4 / 1048576) }')
  if [ "$free" -lt 3 ]; then
    say "$clients has $free GB free and the install needs 3 for a while; free some or set XDG_CACHE_HOME to a folder on a larger disk"
    exit 1
  fi
  cp "$here/package.json" "$here/package-lock.json" "$here/python.txt" "$clients/"
  # npm ci refuses a lock that lacks the builds of a package for other platforms, which
  # are not to be had everywhere; install takes the locked versions as well.
  npm --prefix "$clients" install --ignore-scripts --omit=optional --no-audit --no-fund >&2
  rm -rf "$clients/python"
  python3 -m venv "$clients/python"
  "$clients/python/bin/pip" install --quiet --disable-pip-version-check --requirement "$clients/python.txt" >&2
  touch "$clients/installed"
fi
printf '%s\n' "$clients"
