#!/usr/bin/env bash
# htcondor-pools.sh - one or more independent HTCondor pools on one machine, for tests.
#
#   htcondor-pools.sh up   [DIR]   bring the pools up; prints DIR on the last line
#   htcondor-pools.sh down  DIR    stop everything that `up` started
#   htcondor-pools.sh status DIR   idle and all processors of each pool
#
# Every pool is one condor_master with a collector, a negotiator, a schedd and a startd, all
# below DIR; nothing in /var or /etc is used or changed. "Several machines" are several
# partitionable slots of the one startd.
#
# The programs are those of this machine, or those of another Debian that debian-root.sh has
# unpacked: they run with that Debian's libraries, in the file system of this one.
#
# HTCondor runs no job of root. So a pool that root brings up is a personal one in a user
# namespace, in which root has another name (`daemon`) and no rights over other accounts. With
# KOALA_DEV_ACCOUNTS=1 the daemons keep root's rights, and each account runs its own jobs.
#
# Parameters (environment):
#   KOALA_DEV_POOLS     "name:MACHINESxPROCESSORS ..."  default "kappa:1x16"
#   KOALA_DEV_ROOT      folder of the other Debian      default: this machine's programs
#   KOALA_DEV_ACCOUNTS  1: jobs run as their owners     default: personal pools
#   KOALA_DEV_GPUS      GPUs of each pool               default none
#   KOALA_DEV_FEATURES  attributes of each machine, as in "ib,rome"  default none
#   KOALA_DEV_LICENSES  limits of each pool, as in "matlab:3"        default none
#   KOALA_DEV_PARALLEL  1: the machines take jobs of the parallel universe  default no
#   KOALA_DEV_WAIT_S    patience for `up`               default 60
#
# To use a pool:   . DIR/kappa/settings.sh; condor_q
# DIR/clusters.env has one  NAME=SETTINGS  line per pool.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/processes.sh"

KOALA_DEV_POOLS=${KOALA_DEV_POOLS:-"kappa:1x16"}
KOALA_DEV_ROOT=${KOALA_DEV_ROOT:-}
KOALA_DEV_ACCOUNTS=${KOALA_DEV_ACCOUNTS:-}
KOALA_DEV_GPUS=${KOALA_DEV_GPUS:-}
KOALA_DEV_FEATURES=${KOALA_DEV_FEATURES:-}
KOALA_DEV_LICENSES=${KOALA_DEV_LICENSES:-}
KOALA_DEV_PARALLEL=${KOALA_DEV_PARALLEL:-}
KOALA_DEV_WAIT_S=${KOALA_DEV_WAIT_S:-60}
ACCOUNT=daemon    # the name of a personal pool's root

die() { echo "htcondor-pools: $*" >&2; exit 1; }

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

in_namespace() { [ "$(id -u)" = 0 ] && [ -z "$KOALA_DEV_ACCOUNTS" ]; }

# One program of HTCondor at PLACE; `before` are words that come before it.
program() {       # place target before
  local place=$1 target=$2 before=$3 lib=$KOALA_DEV_ROOT/usr/lib
  if [ -n "$KOALA_DEV_ROOT" ]; then
    before="$before $KOALA_DEV_ROOT/lib64/ld-linux-x86-64.so.2 --argv0 '$place'"
    before="$before --library-path $lib:$lib/x86_64-linux-gnu"
  fi
  printf '#!/bin/sh\nexec %s %s "$@"\n' "$before" "$KOALA_DEV_ROOT$target" > "$place"
  chmod 755 "$place"
}

make_programs() { # pool-dir
  local d=$1 name target enter="" here=$KOALA_DEV_ROOT
  if in_namespace; then
    enter="unshare --user --map-user=$(id -u "$ACCOUNT") --map-group=$(id -g "$ACCOUNT") --"
  fi
  mkdir -p "$d/bin" "$d/sbin"
  for target in "$here"/usr/bin/condor_* "$here"/usr/sbin/condor_{off,on,reconfig,restart,master}; do
    target=${target#"$here"}; name=${target##*/}
    program "$d/bin/$name" "$target" "$enter"
  done
  for target in "$here"/usr/sbin/condor_* "$here"/usr/libexec/condor/condor_shared_port; do
    target=${target#"$here"}; name=${target##*/}
    program "$d/sbin/$name" "$target" ""
  done
}

make_config() {   # pool-dir name machines processors
  local d=$1 name=$2 machines=$3 processors=$4 port=$5 word
  mkdir -p "$d"/{log,spool,execute,lock,run,cred}
  if [ -n "$KOALA_DEV_ACCOUNTS" ]; then
    chown "$ACCOUNT:" "$d"/{log,spool,execute,lock,run}
  fi
  {
    cat <<CONF
RELEASE_DIR = $KOALA_DEV_ROOT/usr
LOCAL_DIR = $d
LOG = $d/log
SPOOL = $d/spool
EXECUTE = $d/execute
LOCK = $d/lock
RUN = $d/run
CRED_STORE_DIR = $d/cred
BIN = $d/bin
SBIN = $d/sbin
LIBEXEC = $KOALA_DEV_ROOT/usr/libexec/condor
SHARED_PORT = $d/sbin/condor_shared_port
DAEMON_LIST = MASTER, SHARED_PORT, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD
CONDOR_HOST = 127.0.0.1
COLLECTOR_HOST = 127.0.0.1:$port
SHARED_PORT_PORT = $port
COLLECTOR_NAME = $name
SCHEDD_NAME = $name@
DAEMON_SOCKET_DIR = auto
BIND_ALL_INTERFACES = False
NETWORK_INTERFACE = 127.0.0.1
NETWORK_HOSTNAME = localhost
ENABLE_IPV6 = False
UID_DOMAIN = koala.invalid
TRUST_UID_DOMAIN = True
FILESYSTEM_DOMAIN = koala.invalid
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_DAEMON = *
ALLOW_NEGOTIATOR = *
ALLOW_ADMINISTRATOR = *
ALLOW_ADVERTISE_MASTER = *
ALLOW_ADVERTISE_SCHEDD = *
ALLOW_ADVERTISE_STARTD = *
SEC_DEFAULT_AUTHENTICATION = REQUIRED
SEC_READ_AUTHENTICATION = OPTIONAL
SEC_CLIENT_AUTHENTICATION = OPTIONAL
SEC_DEFAULT_AUTHENTICATION_METHODS = FS
SEC_DEFAULT_ENCRYPTION = OPTIONAL
SEC_DEFAULT_INTEGRITY = OPTIONAL
BASE_CGROUP =
CGROUP_MEMORY_LIMIT_POLICY = none
DISCARD_SESSION_KEYRING_ON_STARTUP = False
NUM_CPUS = $((machines * processors))
MEMORY = $((machines * processors * 512))
NUM_SLOTS_TYPE_1 = $machines
SLOT_TYPE_1 = $((100 / machines))%
SLOT_TYPE_1_PARTITIONABLE = True
START = True
SUSPEND = False
PREEMPT = False
KILL = False
RANK = 0
UPDATE_INTERVAL = 2
SCHEDD_INTERVAL = 1
SCHEDD_MIN_INTERVAL = 1
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
PERIODIC_EXPR_INTERVAL = 5
CLAIM_WORKLIFE = 0
MASTER_BACKOFF_CONSTANT = 1
RUNBENCHMARKS = False
STARTD_ATTRS = $KOALA_DEV_FEATURES
CONF
    if [ -n "$KOALA_DEV_ACCOUNTS" ]; then
      echo "CONDOR_IDS = $(id -u "$ACCOUNT").$(id -g "$ACCOUNT")"
    fi
    if [ -n "$KOALA_DEV_GPUS" ]; then echo "MACHINE_RESOURCE_GPUs = $KOALA_DEV_GPUS"; fi
    for word in ${KOALA_DEV_FEATURES//,/ }; do echo "$word = True"; done
    for word in ${KOALA_DEV_LICENSES//,/ }; do echo "${word%:*}_LIMIT = ${word#*:}"; done
    if [ -n "$KOALA_DEV_PARALLEL" ]; then
      cat <<CONF
DedicatedScheduler = "DedicatedScheduler@$name@"
STARTD_ATTRS = \$(STARTD_ATTRS) DedicatedScheduler
RANK = Scheduler =?= DedicatedScheduler
UNUSED_CLAIM_TIMEOUT = 2
CONF
    fi
  } > "$d/condor_config"
  cat > "$d/settings.sh" <<SET
export CONDOR_CONFIG=$d/condor_config
case ":\$PATH:" in *":$d/bin:"*) ;; *) PATH=$d/bin:\$PATH ;; esac; export PATH
SET
}

up() {
  local dir=${1:-$(mktemp -d)} c name spec machines processors d end
  [ -e "$KOALA_DEV_ROOT/usr/sbin/condor_master" ] || die "$KOALA_DEV_ROOT/usr/sbin/condor_master is missing: debian-root.sh makes a folder that has it"
  mkdir -p "$dir"; dir=$(cd "$dir" && pwd); chmod 755 "$dir"
  : > "$dir/clusters.env"
  for c in $KOALA_DEV_POOLS; do
    name=${c%%:*}; spec=${c#*:}; machines=${spec%x*}; processors=${spec#*x}; d=$dir/$name
    [ ! -e "$d" ] || die "$d exists already"
    make_programs "$d"
    make_config "$d" "$name" "$machines" "$processors" "$(free_port)"
    ( . "$d/settings.sh"; condor_master ) > "$d/log/start.log" 2>&1 \
      || { cat "$d/log/start.log" >&2; die "pool $name did not start"; }
    echo "$name=$d/settings.sh" >> "$dir/clusters.env"
  done
  end=$(( $(date +%s) + KOALA_DEV_WAIT_S ))
  for c in $KOALA_DEV_POOLS; do
    name=${c%%:*}; d=$dir/$name
    until ( . "$d/settings.sh"; condor_q >/dev/null && [ -n "$(condor_status -af Name)" ] ) 2>/dev/null; do
      [ "$(date +%s)" -lt "$end" ] || { down "$dir"; die "pool $name did not come up; see $d/log"; }
      sleep 0.1
    done
  done
  echo "$dir"
}

# Does the environment of this process have such a line? (grep's words come after the process id.)
has() { local f=/proc/$1/environ; shift; { tr '\0' '\n' < "$f" | grep -q "$@"; } 2>/dev/null; }

# Processes of this pool: its master, or the daemons and jobs below it, which HTCondor marks with their ancestors.
# A shell that has read settings.sh is none of them.
of_pool() {       # pool-dir master|below
  local f pid
  for f in /proc/[0-9]*/environ; do
    pid=${f#/proc/}; pid=${pid%/environ}
    has "$pid" -xF -e "CONDOR_CONFIG=$1/condor_config" -e "_CONDOR_BIN=$1/bin" && alive "$pid" || continue
    if has "$pid" '^_CONDOR_ANCESTOR_'; then
      [ "$2" = master ] || echo "$pid"
    elif [ "$2" = master ] && tr '\0' ' ' < "/proc/$pid/cmdline" | grep -q condor_master; then
      echo "$pid"
    fi
  done
}

down() {
  local dir d pid i masters=() pools=()
  dir=$(cd "$1" && pwd)
  for d in "$dir"/*/; do
    d=${d%/}; [ -f "$d/settings.sh" ] || continue
    pools+=("$d")
    for pid in $(of_pool "$d" master); do
      masters+=("$pid")
      kill -CONT "$pid" 2>/dev/null || true
      kill -QUIT "$pid" 2>/dev/null || true    # fast: jobs are ended
    done
  done
  for i in $(seq 50); do
    for pid in "${masters[@]}"; do alive "$pid" && { sleep 0.1; continue 2; }; done
    break
  done
  for d in "${pools[@]}"; do
    for pid in $(of_pool "$d" master) $(of_pool "$d" below); do kill -9 "$pid" 2>/dev/null || true; done
  done
}

status() {
  local name set
  while IFS='=' read -r name set; do
    ( . "$set"; condor_status -constraint 'PartitionableSlot' -af Cpus TotalSlotCpus |
      awk -v n="$name" '{i+=$1; t+=$2} END {print n, i "/" t, "(idle/all processors)"}' )
  done < "$1/clusters.env"
}

case "${1:-}" in
  up)     up "${2:-}" ;;
  down)   [ -d "${2:-}" ] || die "down needs the folder that up printed"; down "$2" ;;
  status) [ -d "${2:-}" ] || die "status needs the folder that up printed"; status "$2" ;;
  *)      sed -n '2,33s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
