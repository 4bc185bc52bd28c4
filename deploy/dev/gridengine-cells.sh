#!/usr/bin/env bash
# gridengine-cells.sh - one or more independent Grid Engine cells on one machine, for tests.
#
#   gridengine-cells.sh up [DIR] [--profile NAME,...]   bring the cells up; prints DIR on the last line
#   gridengine-cells.sh down DIR     stop everything that `up` started
#   gridengine-cells.sh status DIR   slots per cell
#
# Every cell is one sge_qmaster and one sge_execd with its own SGE_ROOT, ports and
# spool folders, all below DIR; nothing in /var/lib/gridengine or /etc is used or
# changed (no debconf answers, no /etc/hosts edit, no systemd). An execution daemon
# stands for the whole host, so "several nodes" are several queues on it: a parallel
# job that does not fit in one queue gets a PE_HOSTFILE with one line per queue.
#
# Needs: sge_qmaster sge_execd qconf (Debian: gridengine-master gridengine-exec
#        gridengine-client; install with shared/gridengineconfig=false), python3.
#        Root is needed: the execution daemon sets user and group ids for each job.
#
# Parameters (environment):
#   KOALA_DEV_CELLS    "name:NODESxSLOTS ..."   default "gamma:1x16"
#   KOALA_DEV_GID_BASE first of the group ids that mark jobs, 100 per cell; default 65000
#                (kept apart between cells: by these ids a process is known to be of a job)
#   KOALA_DEV_GPUS     GPUs of each cell, the complex `gpu`       default none
#   KOALA_DEV_FEATURES features of each cell, as in "ib,rome"    default none
#   KOALA_DEV_LICENSES licences of each cell, as in "matlab:3"   default none
#   KOALA_DEV_WAIT_S   patience for `up`        default 30
#   SGE_LIB      where the programs lie   default /usr/lib/gridengine
#   SGE_SHARE    and their data           default /usr/share/gridengine
#
# To use a cell:   . DIR/gamma/settings.sh; qsub -terse -pe grid 10 job.sh
# DIR/clusters.env has one  NAME=SETTINGS  line per cell.
#
# Profiles make cells like those that people have; several may be combined:
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
profiles=$here/gridengine-profiles
. "$here/processes.sh"
. "$here/profiles.sh"

KOALA_DEV_CELLS=${KOALA_DEV_CELLS:-"gamma:1x16"}
KOALA_DEV_GID_BASE=${KOALA_DEV_GID_BASE:-65000}
KOALA_DEV_GPUS=${KOALA_DEV_GPUS:-}
KOALA_DEV_FEATURES=${KOALA_DEV_FEATURES:-}
KOALA_DEV_LICENSES=${KOALA_DEV_LICENSES:-}
KOALA_DEV_WAIT_S=${KOALA_DEV_WAIT_S:-30}
SGE_LIB=${SGE_LIB:-/usr/lib/gridengine}
SGE_SHARE=${SGE_SHARE:-/usr/share/gridengine}

die() { echo "gridengine-cells: $*" >&2; exit 1; }

free_ports() {    # N free TCP ports, all different
  python3 - "$1" <<'PY'
import socket, sys
s = [socket.socket() for _ in range(int(sys.argv[1]))]
for x in s:
    x.bind(("127.0.0.1", 0))
print(*[x.getsockname()[1] for x in s])
PY
}

# The folder tree that the programs expect, the bootstrap file, the first objects.
make_root() {     # cell-dir name gid-range
  local d=$1 name=$2 gids=$3 arch common ports
  arch=$("$SGE_SHARE/util/arch")
  mkdir -p "$d"/{bin,lib,utilbin,spool/qmaster/job_scripts,spool/execd,log}
  ln -s "$SGE_LIB" "$d/bin/$arch"; ln -s "$SGE_LIB" "$d/lib/$arch"; ln -s "$SGE_LIB" "$d/utilbin/$arch"
  ln -s "$SGE_SHARE/util" "$d/util"
  common=$d/$name/common; mkdir -p "$common"
  read -r -a ports <<<"$(free_ports 2)"
  cat > "$d/settings.sh" <<SET
export SGE_ROOT=$d SGE_CELL=$name SGE_ARCH=$arch
export SGE_QMASTER_PORT=${ports[0]} SGE_EXECD_PORT=${ports[1]}
unset SGE_CLUSTER_NAME
case ":\$PATH:" in *":$SGE_LIB:"*) ;; *) PATH=$SGE_LIB:\$PATH ;; esac; export PATH
SET
  hostname > "$common/act_qmaster"
  # 127.0.0.1 may resolve back to another name than the host's own: call them one.
  python3 - > "$common/host_aliases" <<'PY'
import socket
me = socket.gethostname()
names = []
for line in open("/etc/hosts"):
    f = line.split("#")[0].split()
    if f and f[0].startswith("127.") or (me in f[1:] if f else False):
        names += [n for n in f[1:] if n != me and n not in names]
print(me, *(names or ["localhost"]))
PY
  cat > "$common/bootstrap" <<BOOT
admin_user              none
default_domain          none
ignore_fqdn             true
spooling_method         classic
spooling_lib            libspoolc
spooling_params         $common;$d/spool/qmaster
binary_path             $d/bin
qmaster_spool_dir       $d/spool/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
BOOT
  # root may run jobs here (min_uid 0); load reports and accounting come at once;
  # a job submitted with -notify gets TERM, and KILL when the queue's notify time is over
  # (without -notify, qdel is KILL at once)
  sed -e "s@^execd_spool_dir.*@execd_spool_dir $d/spool/execd@" \
      -e 's@^mailer.*@mailer /bin/true@' \
      -e 's@^min_uid.*@min_uid 0@' -e 's@^min_gid.*@min_gid 0@' \
      -e "s@^gid_range.*@gid_range $gids@" \
      -e 's@^load_report_time.*@load_report_time 00:00:02@' \
      -e 's@^max_unheard.*@max_unheard 00:00:15@' \
      -e 's@^execd_params.*@execd_params NOTIFY_KILL=TERM@' \
      -e 's@^reporting_params.*@reporting_params accounting=true reporting=false flush_time=00:00:01 accounting_flush_time=00:00:00 joblog=false sharelog=00:00:00@' \
      "$SGE_SHARE/default-configuration" > "$d/global.conf"
  (
    . "$d/settings.sh"
    "$SGE_LIB/spoolinit" classic libspoolc "$common;$d/spool/qmaster" init
    # (spooldefaults wants absolute paths, and is silent when it does not get them)
    "$SGE_LIB/spooldefaults" configuration "$d/global.conf"
    "$SGE_LIB/spooldefaults" complexes "$SGE_SHARE/util/resources/centry"
    "$SGE_LIB/spooldefaults" usersets "$SGE_SHARE/util/resources/usersets"
    "$SGE_LIB/spooldefaults" managers "$(id -un)"
    "$SGE_LIB/spooldefaults" adminhosts "$(hostname)"
  ) > "$d/log/init.log" 2>&1 || die "initialisation of $name failed; see $d/log/init.log"
}

# Profiles may define
#   configured DIR NAME NODES SLOTS   changes the cell by qconf and these functions

add_queue() {     # dir name slots line ... ; another queue on the same host, with these lines in place of its own
  local file=$1/queue.conf name=$2 slots=$3 line
  queue_conf "$name" "$slots" > "$file"
  shift 3
  for line in "$@"; do sed -i "s|^${line%% *} .*|$line|" "$file"; done
  qconf -Aq "$file"
}

first_queue() { qconf -sql | grep -xE 'batch|node1'; }

queue_conf() {    # name slots
  cat <<Q
qname                 $1
hostlist              @allhosts
seq_no                0
load_thresholds       NONE
suspend_thresholds    NONE
nsuspend              1
suspend_interval      00:05:00
priority              0
min_cpu_interval      00:05:00
processors            UNDEFINED
qtype                 BATCH INTERACTIVE
ckpt_list             NONE
pe_list               grid
rerun                 FALSE
slots                 $2
tmpdir                ${TMPDIR:-/tmp}
shell                 /bin/sh
prolog                NONE
epilog                NONE
shell_start_mode      unix_behavior
starter_method        NONE
suspend_method        NONE
resume_method         NONE
terminate_method      NONE
notify                00:00:03
owner_list            NONE
user_lists            NONE
xuser_lists           NONE
subordinate_list      NONE
complex_values        NONE
projects              NONE
xprojects             NONE
calendar              NONE
initial_state         default
Q
  local k
  for k in s_rt h_rt s_cpu h_cpu s_fsize h_fsize s_data h_data s_stack h_stack s_core h_core s_rss h_rss s_vmem h_vmem; do
    echo "$k INFINITY"
  done
}

# Complexes: GPUs and licences are consumed once for each job, features are there or not.
resources() {     # cell-dir host
  local d=$1 h=$2 word
  qconf -sc | grep -v '^#' > "$d/complexes.conf"
  if [ -n "$KOALA_DEV_GPUS" ]; then
    echo "gpu gpu INT <= YES JOB 0 0" >> "$d/complexes.conf"
  fi
  for word in ${KOALA_DEV_FEATURES//,/ }; do echo "$word $word BOOL == YES NO FALSE 0"; done >> "$d/complexes.conf"
  for word in ${KOALA_DEV_LICENSES//,/ }; do
    echo "${word%:*} ${word%:*} INT <= YES JOB 0 0"
  done >> "$d/complexes.conf"
  qconf -Mc "$d/complexes.conf"
  [ -z "$KOALA_DEV_GPUS" ] || qconf -mattr exechost complex_values "gpu=$KOALA_DEV_GPUS" "$h"
  for word in ${KOALA_DEV_FEATURES//,/ }; do qconf -mattr exechost complex_values "$word=TRUE" "$h"; done
  for word in ${KOALA_DEV_LICENSES//,/ }; do
    qconf -mattr exechost complex_values "${word%:*}=${word#*:}" global
  done
}

configure() {     # cell-dir nodes slots ; the qmaster answers
  local d=$1 nodes=$2 slots=$3 i h
  h=$(hostname)
  qconf -as "$h"
  { echo "hostname $h"; for i in load_scaling complex_values user_lists xuser_lists projects xprojects usage_scaling report_variables; do echo "$i NONE"; done; } > "$d/host.conf"
  qconf -Ae "$d/host.conf"
  printf 'group_name @allhosts\nhostlist %s\n' "$h" > "$d/group.conf"; qconf -Ahgrp "$d/group.conf"
  resources "$d" "$h"
  cat > "$d/pe.conf" <<'PE'
pe_name            grid
slots              99999
user_lists         NONE
xuser_lists        NONE
start_proc_args    NONE
stop_proc_args     NONE
allocation_rule    $fill_up
control_slaves     TRUE
job_is_first_task  TRUE
urgency_slots      min
accounting_summary TRUE
qsort_args         NONE
PE
  qconf -Ap "$d/pe.conf"
  sed -e 's/^schedule_interval .*/schedule_interval 0:0:1/' \
      -e 's/^flush_submit_sec .*/flush_submit_sec 1/' -e 's/^flush_finish_sec .*/flush_finish_sec 1/' \
      -e 's/^schedd_job_info .*/schedd_job_info true/' -e 's/^max_reservation .*/max_reservation 32/' \
      "$SGE_SHARE/util/install_modules/inst_schedd_high.conf" > "$d/sched.conf"
  qconf -Msconf "$d/sched.conf"
  for i in $(seq 1 "$nodes"); do
    if [ "$nodes" -eq 1 ]; then queue_conf batch "$slots" > "$d/queue.conf"; else queue_conf "node$i" "$slots" > "$d/queue.conf"; fi
    qconf -Aq "$d/queue.conf"
  done
  in_profiles configured "$d" "$name" "$nodes" "$slots"
}

up() {
  local dir=${1:-$(mktemp -d)} c name nodes slots d end spec n=0 lo
  [ "$(id -u)" = 0 ] || die "root is needed"
  mkdir -p "$dir"; dir=$(cd "$dir" && pwd); chmod 755 "$dir"
  : > "$dir/clusters.env"
  for c in $KOALA_DEV_CELLS; do
    name=${c%%:*}; spec=${c#*:}; nodes=${spec%x*}; slots=${spec#*x}; d=$dir/$name
    [ ! -e "$d" ] || die "$d exists already"
    lo=$((KOALA_DEV_GID_BASE + 100 * n)); n=$((n + 1))
    make_root "$d" "$name" "$lo-$((lo + 99))"
    (
      . "$d/settings.sh"
      export SGE_QMASTER_PIDFILE=$d/qmaster.pid SGE_EXECD_PIDFILE=$d/execd.pid
      sge_qmaster
      end=$(( $(date +%s) + KOALA_DEV_WAIT_S ))
      until qconf -sh >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$end" ] || die "the qmaster of $name does not answer; see $d/spool/qmaster/messages"
        sleep 0.05
      done
      configure "$d" "$nodes" "$slots"
      sge_execd
    ) > "$d/log/start.log" 2>&1 || { cat "$d/log/start.log" >&2; down "$dir"; die "cell $name did not start"; }
    echo "$name=$d/settings.sh" >> "$dir/clusters.env"
  done
  end=$(( $(date +%s) + KOALA_DEV_WAIT_S ))
  for c in $KOALA_DEV_CELLS; do
    name=${c%%:*}; d=$dir/$name
    # a queue is usable when its host has reported: no 'u' (unknown) and no '-NA-' left
    until ( . "$d/settings.sh"; qstat -f 2>/dev/null ) | awk 'NR>2 && /@/ {n++; if ($0 ~ /-NA-/ || $NF ~ /^[a-zA-Z]*u[a-zA-Z]*$/) bad++} END {exit !(n && !bad)}'; do
      [ "$(date +%s)" -lt "$end" ] || { down "$dir"; die "cell $name did not come up; see $d/spool"; }
      sleep 0.05
    done
  done
  echo "$dir"
}

down() {
  local dir d i files=()
  dir=$(cd "$1" && pwd)
  for d in "$dir"/*/; do
    d=${d%/}; [ -f "$d/settings.sh" ] || continue
    if [ -s "$d/qmaster.pid" ] && alive "$(cat "$d/qmaster.pid")"; then
      (
        . "$d/settings.sh"
        timeout 3 qdel -u '*' || true
        for i in $(seq 20); do [ -z "$(timeout 3 qstat -u '*')" ] && break; sleep 0.1; done
      ) >/dev/null 2>&1
    fi
    files+=("$d/execd.pid" "$d/qmaster.pid")
  done
  if [ ${#files[@]} -gt 0 ]; then stop_pidfiles "${files[@]}"; fi
  for d in "$dir"/*/; do
    d=${d%/}; if [ -f "$d/settings.sh" ]; then kill_strays "SGE_ROOT=$d" sge_shepherd JOB_ID; fi
  done
}

status() {
  local name set
  while IFS='=' read -r name set; do
    ( . "$set"; qstat -g c | awk -v n="$name" 'NR>2 {u+=$3; a+=$5; t+=$6} END {print n, u "/" a "/" t, "(used/available/total slots)"}' )
  done < "$1/clusters.env"
}

read_words "$@"
case "$verb" in
  up)     up "$dir" ;;
  down)   [ -d "$dir" ] || die "down needs the folder that up printed"; down "$dir" ;;
  status) [ -d "$dir" ] || die "status needs the folder that up printed"; status "$dir" ;;
  *)      usage ;;
esac
