#!/usr/bin/env bash
# install.sh VENV EXTRA...: make the environment VENV, and install this project there, editable, with these extras of pyproject.toml; a file VENV/.has-EXTRA says of each that it is there.
# By uv where it is on PATH, otherwise by pip. PYTHON names the interpreter. The Makefile calls it.
set -euo pipefail

venv=$1
shift
extras=$(IFS=,; echo "$*")
python=${PYTHON:-}
root=$(cd "$(dirname "$0")/../.." && pwd)

say() { printf 'koala: %s\n' "$*" >&2; }

if [ -z "$python" ]; then
  say "found no Python 3.11 or newer on PATH; install one (Debian, Ubuntu: apt install python3 python3-venv)"
  say "or name it: make PYTHON=/path/to/python3.11"
  exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  say "$python is not Python 3.11 or newer: $("$python" --version 2>&1)"
  exit 1
fi

installer=pip
if command -v uv >/dev/null; then installer=uv; fi

# A virtual environment that the installer can use.
make_environment() {
  say "1 of 2: making $venv with $("$python" --version 2>&1)"
  if [ "$installer" = uv ]; then
    "$python" -m venv --clear --without-pip "$venv"
    return
  fi
  if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "$python cannot make virtual environments: ensurepip is missing"
    say "install it (Debian, Ubuntu: apt install python$version-venv), or install uv, and try again"
    exit 1
  fi
  "$python" -m venv --clear "$venv"
}

# What pip says: its newest line on a terminal, otherwise a line for each of its steps.
progress() {
  local line found="" columns
  columns=$(tput cols 2>/dev/null || echo 80)
  while IFS= read -r line; do
    if [ -t 2 ]; then
      printf '\r\033[K  %s' "${line:0:$((columns - 3))}" >&2
      continue
    fi
    case $line in
      "Collecting "*) [ -n "$found" ] || say "  finding and downloading packages" && found=yes ;;
      "Installing collected packages: "*) say "  unpacking ${line#*: }" ;;
    esac
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}

if ! "$venv/bin/python" -c "$([ "$installer" = uv ] || echo import pip)" >/dev/null 2>&1; then
  make_environment
fi
say "2 of 2: installing Koala into $venv with the packages of its extras $extras, by $installer"
if [ "$installer" = uv ]; then
  uv pip install --python "$venv/bin/python" --compile-bytecode --editable "$root[$extras]"
else
  "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off --editable "$root[$extras]" | progress
fi
for extra in "$@"; do touch "$venv/.has-$extra"; done
say "$venv is ready after $SECONDS s"
