#!/usr/bin/env bash
# Tests in front of real batch systems (tests/batch). Debian's packages are installed when this runs
# as root on a Debian; otherwise the tests of what is missing are skipped, and say what they need.
# HTCondor, OAR and a newer Slurm come from Debian 13 (trixie), in the folder KOALA_DEV_ROOT (/var/cache/koala/trixie),
# which root makes once: 4 minutes (15 on a busy machine) and 650 MB.
# KOALA_LRM_TESTS chooses by marks: "lrm and slow" are those that wait for minutes. Three workers run
# them, for most of the time they wait; one whose test hangs for ten minutes ends, and another one goes
# on. The words `packages` and `root` stand for one of both parts of what the tests need.
set -euo pipefail

PATH=$PATH:/usr/sbin:/sbin
python=${PYTHON:-python3}

say() { printf 'test-lrm: %s\n' "$*" >&2; }

install() {
  export DEBIAN_FRONTEND=noninteractive
  for part in common master exec client; do
    printf 'gridengine-%s shared/gridengineconfig boolean false\n' "$part"
  done | debconf-set-selections
  apt-get update -qq
  # RUNLEVEL=1 keeps the packages from starting services of their own.
  RUNLEVEL=1 apt-get install -y -qq --no-install-recommends \
    slurm-wlm slurm-client munge slurmdbd mariadb-server gridengine-master gridengine-exec gridengine-client msmtp-mta \
    postgresql openssh-server libpam-google-authenticator libdbd-pg-perl libjson-perl libyaml-perl libsort-versions-perl \
    libterm-ui-perl libcapture-tiny-perl \
    mpich libmpich-dev openmpi-bin libopenmpi-dev gcc libc6-dev >/dev/null
}

install_packages() {
  if ! command -v slurmctld >/dev/null || ! command -v slurmdbd >/dev/null || ! command -v sge_qmaster >/dev/null || ! command -v google-authenticator >/dev/null || ! command -v mpicc.mpich >/dev/null ||
    ! perl -MDBD::Pg -MCapture::Tiny -MSort::Versions -MJSON -e 1 2>/dev/null || ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && command -v debconf-set-selections >/dev/null; then
      say "installing Slurm with a database, Grid Engine, MPICH and what OAR needs from Debian's packages"
      install
    else
      say "slurmctld, slurmdbd, sge_qmaster, mpicc.mpich, PostgreSQL or a module of Perl is missing, and only root on a Debian can install them here"
    fi
  fi
}

make_root() {
  export KOALA_DEV_ROOT=${KOALA_DEV_ROOT:-/var/cache/koala/trixie}
  if [ "$(id -u)" = 0 ] && [ "$KOALA_DEV_ROOT" != / ]; then
    if ! command -v debootstrap >/dev/null && command -v apt-get >/dev/null; then
      apt-get update -qq
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
    fi
    [ -e "$KOALA_DEV_ROOT/.made" ] || say "making $KOALA_DEV_ROOT with HTCondor, OAR and Slurm 24.11: about 4 minutes, once"
    "$here/debian-root.sh" trixie "$KOALA_DEV_ROOT" condor oar-server oar-node oar-user slurm-wlm ||
      say "HTCondor, OAR or the newer Slurm is missing: their tests are skipped"
  fi
}

here=$(cd "$(dirname "$0")" && pwd)
case "${1:-}" in
  packages) install_packages; exit ;;
  root)     make_root; exit ;;
esac
install_packages
make_root
exec "$python" -m pytest -q -m "${KOALA_LRM_TESTS:-lrm and not slow and not frameworks}" --numprocesses 3 \
  -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true tests/batch "$@"
