#!/usr/bin/env bash
# Installs the peers of `make peers` into the user's cache folder, once: each Python
# peer with its pinned version into a virtual environment of its own, and nginx from
# Debian. Prints the folder's path as its last line. A peer that cannot be installed
# is said so and left out of the comparison; the others go on.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${LMWARDEN_PEERS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lmwarden/peers}
say() { printf 'peers: %s\n' "$*" >&2; }

# pick_python finds an interpreter that the peers have wheels for and that can make
# virtual environments.
pick_python() {
  local candidate path
  for candidate in python3.12 python3.11 python3.13 python3; do
    for path in $(type -ap "$candidate" 2>/dev/null) "$HOME"/.pyenv/versions/*/bin/"$candidate"; do
      [ -x "$path" ] || continue
      if "$path" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
        printf '%s\n' "$path"
        return
      fi
    done
  done
  return 1
}

# python_peer PACKAGE VERSION: a finished install has a file of its own, so that an
# interrupted one is begun again.
python_peer() {
  local venv=$cache/$1-$2
  [ -f "$venv/installed" ] && return
  say "installing $1 $2 into $venv with $python"
  rm -rf "$venv"
  if "$python" -m venv "$venv" &&
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$1==$2" >&2; then
    touch "$venv/installed"
  else
    say "$1 $2 could not be installed and is left out; the lines above say why"
  fi
}

mkdir -p "$cache"
if python=$(pick_python); then
  python_peer vllm-router 0.1.17
  python_peer sglang-router 0.3.2
else
  say "no Python 3.11 to 3.13 with venv was found; vllm-router and sglang-router are left out (Debian: apt-get install python3 python3-venv)"
fi
PATH=$PATH:/usr/sbin "$here/../../scripts/apt-need.sh" nginx nginx-light >&2 ||
  say "nginx is left out"
printf '%s\n' "$cache"
