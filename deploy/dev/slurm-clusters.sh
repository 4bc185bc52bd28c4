#!/usr/bin/env bash
# slurm-clusters.sh - several independent Slurm clusters on one machine, for tests.
#
#   slurm-clusters.sh up [DIR] [--profile NAME,...]   bring the clusters up; prints DIR on the last line
#   slurm-clusters.sh down DIR     stop everything that `up` started
#   slurm-clusters.sh status DIR   one sinfo line per cluster
#
# Every cluster is one slurmctld plus one slurmd per virtual node, all on the
# loopback interface, with its own ClusterName, ports, state and spool folders.
# No systemd, no cgroups; works as root, and as an ordinary user (jobs then
# run as that user only).
#
# Needs: slurmctld slurmd slurm-client (Debian: slurm-wlm), python3; for
#        KOALA_DEV_AUTH=munge also munge; for the profiles `age` and `accounting`
#        also slurmdbd and MariaDB's server.
#
# Parameters (environment):
#   KOALA_DEV_CLUSTERS   "name:NODESxCPUS ..."      default "alpha:2x8 beta:2x16", with a profile "alpha:4x8"
#   KOALA_DEV_AUTH       none | munge               default none
#   KOALA_DEV_MEM_MB     memory each node claims    default 64000
#   KOALA_DEV_GPUS       GPUs of each node, as in "a100:2" (copies of /dev/null stand for them)  default none
#   KOALA_DEV_FEATURES   features of each node, as in "ib,rome"  default none
#   KOALA_DEV_LICENSES   licences of each cluster, as in "matlab:3"  default none
#   KOALA_DEV_NODE_TIMEOUT  seconds to declare a silent node down  default 10
#   KOALA_DEV_WAIT_S     patience for `up`          default 30
#   KOALA_DEV_SCHED      extra SchedulerParameters  default see below
#   KOALA_DEV_SLURM_ROOT  folder of another Debian (debian-root.sh), whose Slurm is used with that
#                        Debian's libraries, in the file system of this one  default: this machine's
#
# To use a cluster:   . DIR/alpha/settings.sh; sbatch ...
# That is `export SLURM_CONF=DIR/alpha/slurm.conf`, and with KOALA_DEV_SLURM_ROOT DIR/bin in the PATH.
# DIR/clusters.env has one  NAME=CONF  line per cluster.
#
# What no profile has: control groups (limits of memory are counted, not enforced; nothing is bound to
# cores), nodes that reboot, and file systems of their own for nodes, but for the home of `homes`.
#
# Profiles make clusters like those that people have; several may be combined:
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
profiles=$here/slurm-profiles
. "$here/processes.sh"
. "$here/profiles.sh"

KOALA_DEV_AUTH=${KOALA_DEV_AUTH:-none}
KOALA_DEV_MEM_MB=${KOALA_DEV_MEM_MB:-64000}
KOALA_DEV_GPUS=${KOALA_DEV_GPUS:-}
KOALA_DEV_FEATURES=${KOALA_DEV_FEATURES:-}
KOALA_DEV_LICENSES=${KOALA_DEV_LICENSES:-}
KOALA_DEV_NODE_TIMEOUT=${KOALA_DEV_NODE_TIMEOUT:-10}
KOALA_DEV_WAIT_S=${KOALA_DEV_WAIT_S:-30}
KOALA_DEV_SLURM_ROOT=${KOALA_DEV_SLURM_ROOT:-}
# Short periods: a test must not wait for the 30/60 s default loops.
KOALA_DEV_SCHED=${KOALA_DEV_SCHED:-"bf_interval=1,bf_resolution=1,sched_interval=1,batch_sched_delay=0"}
PATH=$PATH:/usr/sbin:/sbin

die() { echo "slurm-clusters: $*" >&2; exit 1; }

# N free TCP ports in one go (all held open until the last is found).
free_ports() {
  python3 - "$1" <<'PY'
import socket, sys
s = [socket.socket() for _ in range(int(sys.argv[1]))]
for x in s:
    x.bind(("127.0.0.1", 0))
print(*[x.getsockname()[1] for x in s])
PY
}

# The commands and daemons of the other Debian, in DIR/bin.
make_programs() { # dir
  local d=$1 r=$KOALA_DEV_SLURM_ROOT lib=$KOALA_DEV_SLURM_ROOT/usr/lib/x86_64-linux-gnu target name
  mkdir -p "$d/bin"
  for target in "$r"/usr/bin/{sbatch,squeue,scancel,sinfo,scontrol,srun,sacct} "$r"/usr/sbin/{slurmctld,slurmd,slurmstepd}; do
    name=${target##*/}
    # A link of the alternatives system would lead to this machine's program.
    [ ! -L "$target" ] || target=$target-wlm
    printf '#!/bin/sh\nexec %s --argv0 %s --library-path %s %s "$@"\n' \
      "$r/lib64/ld-linux-x86-64.so.2" "$d/bin/$name" "$lib:$lib/slurm-wlm:$r/usr/lib" "$target" > "$d/bin/$name"
    chmod 755 "$d/bin/$name"
  done
}

start_munge() {   # a private munged: own key, own socket
  local m=$1/munge
  mkdir -p "$m"; chmod 755 "$m"
  head -c 128 /dev/urandom > "$m/key"; chmod 600 "$m/key"
  munged --socket="$m/socket" --key-file="$m/key" --pid-file="$m/pid" \
         --log-file="$m/log" --seed-file="$m/seed" --num-threads=2 --force 2>>"$m/stderr"
}

# Profiles may define
#   configure DIR NAME NODES CPUS   changes slurm.conf ($conf) and adds to settings.sh, by the functions below
#   database DIR NAME NODES CPUS    tells the accounting database its accounts
#   started DIR NAME NODES CPUS     makes reservations and jobs when the cluster is up

set_key() {       # KEY=VALUE ; this line in place of those of the same key
  sed -i "/^${1%%=*}=/d" "$conf"
  echo "$1" >> "$conf"
}

add_lines() { printf '%s\n' "$@" >> "$conf"; }

every() {         # KIND KEY=VALUE ... ; these values in all lines of a kind (NodeName, PartitionName)
  local kind=$1 pair
  shift
  for pair in "$@"; do sed -i -E "/^$kind=/{s/ ${pair%%=*}=[^ ]*//;s|\$| $pair|}" "$conf"; done
}

setting() { echo "$1" >> "${conf%/*}/settings.sh"; }   # LINE ; of the shell of users

command_before() { # dir command shell ; users' command says or does this first
  mkdir -p "$1/commands"
  printf '#!/bin/sh\n%s\nexec %s "$@"\n' "$3" "$(command -v "$2")" > "$1/commands/$2"
  chmod 755 "$1/commands/$2"
  setting "case :\$PATH: in *:$1/commands:*) ;; *) export PATH=$1/commands:\$PATH ;; esac"
}

node_before() { sed -i "s|^exec |exec ${2//&/\\&} |" "$1/start-node"; }   # dir words ; before the slurmd of each node

by_database() {   # dir limits ; the accounting of start_database
  set_key AccountingStorageType=accounting_storage/slurmdbd
  add_lines AccountingStorageHost=localhost "AccountingStoragePort=$(cat "${1%/*}/database/port")" "AccountingStorageEnforce=$2"
}

run_other() {     # account options ; a job of this account (of our own where we may not), which sleeps, and runs
  local number
  number=$(as_other "$@")
  until_done eval "squeue -h -t RUNNING -o %i | grep -qx $number"
}

as_other() {      # the same, which may wait ; its number
  local who=$1
  shift
  [ "$(id -u)" != 0 ] || set -- --uid="$who" "$@"
  sbatch --parsable -D / -o /dev/null "$@" --wrap 'exec sleep 100000'
}

# A private MariaDB and slurmdbd, which know the clusters and what the profiles tell them.
start_database() { # dir
  local b=$1/database ports c name nodes cpus
  mkdir -p "$b"; read -r -a ports <<<"$(free_ports 2)"
  echo "${ports[0]}" > "$b/port"
  mariadb-install-db --no-defaults --datadir="$b/data" --auth-root-authentication-method=normal --user="$(id -un)" > "$b/install.log" 2>&1
  setsid mariadbd --no-defaults --user="$(id -un)" --datadir="$b/data" --socket="$b/socket" --bind-address=127.0.0.1 \
    --port="${ports[1]}" --pid-file="$b/mariadbd.pid" > "$b/mariadbd.log" 2>&1 &
  until_done mariadb --no-defaults -S "$b/socket" -u root -e 'SELECT 1' || die "MariaDB did not come up; see $b"
  mariadb --no-defaults -S "$b/socket" -u root -e "CREATE DATABASE slurm_acct_db;
    CREATE USER slurm@localhost IDENTIFIED BY 'x'; GRANT ALL ON *.* TO slurm@localhost"
  printf '%s\n' AuthType=auth/none DbdHost=localhost "DbdPort=${ports[0]}" "SlurmUser=$(id -un)" "LogFile=$b/slurmdbd.log" \
    "PidFile=$b/slurmdbd.pid" StorageType=accounting_storage/mysql StorageHost=127.0.0.1 "StoragePort=${ports[1]}" \
    StorageUser=slurm StoragePass=x StorageLoc=slurm_acct_db > "$b/slurmdbd.conf"
  chmod 600 "$b/slurmdbd.conf"
  printf '%s\n' ClusterName=none "SlurmctldHost=$(hostname -s)(127.0.0.1)" AuthType=auth/none \
    AccountingStorageType=accounting_storage/slurmdbd AccountingStorageHost=localhost "AccountingStoragePort=${ports[0]}" > "$b/slurm.conf"
  export SLURM_CONF=$b/slurm.conf
  slurmdbd
  until_done sacctmgr -n show cluster || die "slurmdbd did not come up; see $b"
  for c in $KOALA_DEV_CLUSTERS; do sacctmgr -i add cluster "${c%%:*}"; done > "$b/sacctmgr.log"
  sized "${KOALA_DEV_CLUSTERS%% *}"
  in_profiles database "$b" "$name" "$nodes" "$cpus" >> "$b/sacctmgr.log"
  unset SLURM_CONF
}

until_done() {    # command ; try it until it succeeds
  local end=$(( $(date +%s) + KOALA_DEV_WAIT_S ))
  until "$@" >/dev/null 2>&1; do [ "$(date +%s)" -lt "$end" ] || return 1; sleep 0.1; done
}

sized() {         # "name:NODESxCPUS" ; name, nodes and cpus
  local spec=${1#*:}
  name=${1%%:*} nodes=${spec%x*} cpus=${spec#*x}
}

write_conf() {    # dir name nodes cpus ; ports from free_ports
  local d=$1 name=$2 nodes=$3 cpus=$4 ports i me host more
  mkdir -p "$d/state" "$d/spool" "$d/log"
  read -r -a ports <<<"$(free_ports $((nodes + 1)))"
  if [ -n "$KOALA_DEV_GPUS" ]; then
    for i in $(seq 0 $((${KOALA_DEV_GPUS#*:} - 1))); do mknod "$d/gpu$i" c 1 3 2>/dev/null || : > "$d/gpu$i"; done
    echo "Name=gpu Type=${KOALA_DEV_GPUS%:*} File=$d/gpu[0-$((${KOALA_DEV_GPUS#*:} - 1))]" > "$d/gres.conf"
  fi
  me=$(id -un); host=$(hostname -s)
  {
    echo "ClusterName=$name"
    echo "SlurmctldHost=$host(127.0.0.1)"
    echo "SlurmctldPort=${ports[0]}"
    echo "SlurmUser=$me"
    echo "SlurmdUser=$me"
    if [ "$KOALA_DEV_AUTH" = munge ]; then
      echo "AuthType=auth/munge"; echo "CredType=cred/munge"
      echo "AuthInfo=socket=${d%/*}/munge/socket"
    else
      echo "AuthType=auth/none"; echo "CredType=cred/none"
    fi
    cat <<CONF
StateSaveLocation=$d/state
SlurmdSpoolDir=$d/spool/%n
SlurmctldPidFile=$d/slurmctld.pid
SlurmdPidFile=$d/slurmd-%n.pid
SlurmctldLogFile=$d/log/slurmctld.log
SlurmdLogFile=$d/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
# no cgroups, no binding: plain process tracking
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
# believe the node lines below, not the hardware
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=$KOALA_DEV_SCHED
PriorityType=priority/basic
AccountingStorageType=accounting_storage/none
# end records without a database: one text line per finished job
JobCompType=jobcomp/filetxt
JobCompLoc=$d/jobcomp.txt
# scancel: TERM, then KILL after KillWait seconds
KillWait=3
MinJobAge=300
InactiveLimit=0
SlurmctldTimeout=60
SlurmdTimeout=$KOALA_DEV_NODE_TIMEOUT
CONF
    [ -z "$KOALA_DEV_SLURM_ROOT" ] || echo "PluginDir=$KOALA_DEV_SLURM_ROOT/usr/lib/x86_64-linux-gnu/slurm-wlm"
    [ -z "$KOALA_DEV_GPUS" ] || echo "GresTypes=gpu"
    [ -z "$KOALA_DEV_LICENSES" ] || echo "Licenses=$KOALA_DEV_LICENSES"
    more="${KOALA_DEV_GPUS:+ Gres=gpu:$KOALA_DEV_GPUS}${KOALA_DEV_FEATURES:+ Feature=$KOALA_DEV_FEATURES}"
    for i in $(seq 1 "$nodes"); do
      echo "NodeName=$name$i NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[$i]} CPUs=$cpus RealMemory=$KOALA_DEV_MEM_MB$more State=UNKNOWN"
    done
    echo "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60 State=UP OverSubscribe=NO"
  } > "$d/slurm.conf"
  printf '#!/bin/sh\n# start-node NODE [OPTION...]: its slurmd\nnode=$1; shift\nexport SLURM_CONF=%s\nexec %s -f %s -N "$node" %s "$@"\n' \
    "$d/slurm.conf" "$(command -v slurmd)" "$d/slurm.conf" "$5" > "$d/start-node"
  chmod 755 "$d/start-node"
  echo "export SLURM_CONF=$d/slurm.conf" > "$d/settings.sh"
  [ -z "$KOALA_DEV_SLURM_ROOT" ] || echo "case :\$PATH: in *:${d%/*}/bin:*) ;; *) export PATH=${d%/*}/bin:\$PATH ;; esac" >> "$d/settings.sh"
  conf=$d/slurm.conf
  in_profiles configure "$d" "$name" "$nodes" "$cpus"
}

# Nodes that run from the start on: not those that are powered down.
daemons_of() { sed -nE '/ State=CLOUD/!s/^NodeName=([^ ]*).*/\1/p' "$1/slurm.conf"; }

is_up() {         # dir of a cluster
  local idle
  idle=$(SLURM_CONF=$1/slurm.conf sinfo -h -N -t idle -o %N 2>/dev/null) || return 1
  [ -z "$(daemons_of "$1")" ] || ! grep -qvxF "$idle" <<<"$(daemons_of "$1")"
}

up() {
  local c name nodes cpus i d end stepd=
  dir=${1:-$(mktemp -d)}
  mkdir -p "$dir"; dir=$(cd "$dir" && pwd)
  trap 'down "$dir"' EXIT
  : > "$dir/clusters.env"
  if [ -n "$KOALA_DEV_SLURM_ROOT" ]; then
    [ -e "$KOALA_DEV_SLURM_ROOT/usr/sbin/slurmctld" ] || die "$KOALA_DEV_SLURM_ROOT has no slurmctld"
    make_programs "$dir"
    PATH=$dir/bin:$PATH
    stepd="-d $dir/bin/slurmstepd"
  fi
  [ "$KOALA_DEV_AUTH" != munge ] || start_munge "$dir"
  ! have_function database || start_database "$dir"
  for c in $KOALA_DEV_CLUSTERS; do
    sized "$c"; d=$dir/$name
    write_conf "$d" "$name" "$nodes" "$cpus" "$stepd"
    echo "$name=$d/slurm.conf" >> "$dir/clusters.env"
    : > "$d/jobcomp.txt"
    SLURM_CONF=$d/slurm.conf slurmctld -f "$d/slurm.conf" 2>>"$d/log/start.log"
    for i in $(daemons_of "$d"); do "$d/start-node" "$i" 2>>"$d/log/start.log"; done
  done
  end=$(( $(date +%s) + KOALA_DEV_WAIT_S ))
  for c in $KOALA_DEV_CLUSTERS; do
    sized "$c"; d=$dir/$name
    until is_up "$d"; do
      [ "$(date +%s)" -lt "$end" ] || die "cluster $name did not come up; see $d/log"
      sleep 0.1
    done
    SLURM_CONF=$d/slurm.conf in_profiles started "$d" "$name" "$nodes" "$cpus" >/dev/null
  done
  trap - EXIT
  echo "$dir"
}

down() {
  local dir d i files=()
  dir=$(cd "$1" && pwd)
  for d in "$dir"/*/; do
    d=${d%/}; [ -f "$d/slurm.conf" ] && [ ! -f "$d/slurmdbd.conf" ] || continue
    # the jobs first: a slurmd that ends leaves its slurmstepd (and the job) alive
    if [ -s "$d/slurmctld.pid" ] && alive "$(cat "$d/slurmctld.pid")"; then
      export SLURM_CONF=$d/slurm.conf
      timeout 3 squeue -h -o %A 2>/dev/null | xargs -r timeout 3 scancel 2>/dev/null || true
      for i in $(seq 20); do
        [ -z "$(timeout 3 squeue -h -o %A 2>/dev/null)" ] && break; sleep 0.1
      done
      unset SLURM_CONF
    fi
    files+=("$d"/slurmd-*.pid "$d/slurmctld.pid")
  done
  stop_pidfiles "${files[@]}" "$dir/munge/pid"
  stop_pidfiles "$dir/database/slurmdbd.pid"
  stop_pidfiles "$dir/database/mariadbd.pid"
  for d in "$dir"/*/; do
    if [ -f "${d}slurm.conf" ]; then kill_strays "SLURM_CONF=${d}slurm.conf" slurmstepd SLURM_JOB_ID; fi
  done
}

status() {
  local name conf
  while IFS='=' read -r name conf; do
    printf '%s ' "$name"; SLURM_CONF=$conf sinfo -h -o '%C (allocated/idle/other/total CPUs) %D nodes'
  done < "$1/clusters.env"
}

read_words "$@"
if [ ${#chosen[@]} -gt 0 ]; then default="alpha:4x8"; else default="alpha:2x8 beta:2x16"; fi
KOALA_DEV_CLUSTERS=${KOALA_DEV_CLUSTERS:-$default}

case "$verb" in
  up)     up "$dir" ;;
  down)   [ -d "$dir" ] || die "down needs the folder that up printed"; down "$dir" ;;
  status) [ -d "$dir" ] || die "status needs the folder that up printed"; status "$dir" ;;
  *)      usage ;;
esac
