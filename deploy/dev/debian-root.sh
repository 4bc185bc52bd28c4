#!/usr/bin/env bash
# debian-root.sh - the packages of another Debian in a folder, for tests in front of their programs.
#
#   debian-root.sh SUITE DIR PACKAGE...   e.g.: debian-root.sh trixie /var/cache/koala/trixie condor
#
# The folder is made once: a second call with the same packages does nothing. Needs root and
# debootstrap (apt install debootstrap); trixie with HTCondor and Slurm takes 2 minutes and 600 MB.
# No service is started. KOALA_DEBIAN_MIRROR is the mirror, default http://deb.debian.org/debian.
set -euo pipefail

die() { echo "debian-root: $*" >&2; exit 1; }

[ $# -ge 3 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
suite=$1 dir=$2
shift 2
done_with="$suite $*"
if [ "$(cat "$dir/.made" 2>/dev/null)" = "$done_with" ]; then exit 0; fi
# Nothing is ever removed from a folder that this script did not make.
if [ -e "$dir" ] && [ ! -e "$dir/.base" ] && [ -n "$(ls -A "$dir")" ]; then
  die "$dir has other files: name a new or an empty folder"
fi
base_suite=$(cat "$dir/.base" 2>/dev/null || true)
[ "${base_suite:-$suite}" = "$suite" ] || die "$dir has $base_suite: name another folder for $suite"
[ "$(id -u)" = 0 ] || die "root is needed to make $dir"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt install debootstrap"

mkdir -p "$(dirname "$dir")"
dir=$(cd "$(dirname "$dir")" && pwd)/$(basename "$dir")
exec 9> "$dir.lock"    # a second call waits for the first one
flock 9
if [ "$(cat "$dir/.made" 2>/dev/null)" = "$done_with" ]; then exit 0; fi
if [ ! -e "$dir/.base" ]; then
  # The base is made beside the folder, and gets its name when it is whole.
  base=$dir.koala-part
  rm -rf --one-file-system "$base"
  debootstrap --variant=minbase "$suite" "$base" "${KOALA_DEBIAN_MIRROR:-http://deb.debian.org/debian}" \
    > "$dir.log" 2>&1 9>&- || { tail -n 20 "$dir.log" >&2; die "debootstrap failed; see $dir.log"; }
  printf '#!/bin/sh\nexit 101\n' > "$base/usr/sbin/policy-rc.d"
  chmod 755 "$base/usr/sbin/policy-rc.d"
  printf '%s\n' "$suite" > "$base/.base"
  if [ -e "$dir" ]; then rmdir "$dir"; fi
  mv "$base" "$dir"
fi
# The mounts end with the namespace. An earlier call may have been killed, or be weeks ago.
install='dpkg --configure -a && apt-get update -qq && exec apt-get install -y -qq --no-install-recommends "$@"'
unshare --mount sh -c 'mount -t proc proc "$1/proc" && shift && exec chroot "$@"' - "$dir" \
  "$dir" env DEBIAN_FRONTEND=noninteractive sh -c "$install" - "$@" \
  >> "$dir.log" 2>&1 9>&- || { tail -n 20 "$dir.log" >&2; die "apt-get failed; see $dir.log"; }
printf '%s\n' "$done_with" > "$dir/.made"
