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
[ "$(id -u)" = 0 ] || die "root is needed to make $dir"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt install debootstrap"

mkdir -p "$(dirname "$dir")"
dir=$(cd "$(dirname "$dir")" && pwd)/$(basename "$dir")
if [ ! -e "$dir/.base" ]; then
  rm -rf "$dir"
  debootstrap --variant=minbase "$suite" "$dir" "${KOALA_DEBIAN_MIRROR:-http://deb.debian.org/debian}" \
    > "$dir.log" 2>&1 || { tail -n 20 "$dir.log" >&2; die "debootstrap failed; see $dir.log"; }
  printf '#!/bin/sh\nexit 101\n' > "$dir/usr/sbin/policy-rc.d"
  chmod 755 "$dir/usr/sbin/policy-rc.d"
  touch "$dir/.base"
fi
# The mounts end with the namespace.
unshare --mount sh -c 'mount -t proc proc "$1/proc" && shift && exec chroot "$@"' - "$dir" \
  "$dir" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
  >> "$dir.log" 2>&1 || { tail -n 20 "$dir.log" >&2; die "apt-get failed; see $dir.log"; }
printf '%s\n' "$done_with" > "$dir/.made"
