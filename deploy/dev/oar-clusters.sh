#!/usr/bin/env bash
# oar-clusters.sh - one or more independent OAR clusters on one machine, for tests.
#
#   oar-clusters.sh up   [DIR]   bring the clusters up; prints DIR on the last line
#   oar-clusters.sh down  DIR    stop everything that `up` started
#   oar-clusters.sh status DIR   idle and all processors of each cluster
#   oar-clusters.sh start-database|start-server|start-nodes DIR/NAME   a part that was killed
#
# Every cluster is a PostgreSQL server, OAR's server (Almighty), and one sshd that stands for all its
# nodes: 127.0.1.1, 127.0.1.2 and so on. Its files are below DIR. OAR has fixed paths, so each cluster
# has a mount namespace of its own, in which DIR's files lie over /etc and /usr; nothing of this
# machine is changed. Commands enter the namespace. OAR is Perl: it comes from another Debian that
# debian-root.sh has unpacked, and runs with this one's Perl.
#
# Needs root, sshd, PostgreSQL, and for Perl DBD::Pg, JSON, YAML, Sort::Versions, Capture::Tiny.
#
# Parameters (environment):
#   KOALA_DEV_OARS      "name:NODESxPROCESSORS ..."    default "omega:1x16"
#   KOALA_DEV_ROOT      folder of the other Debian     default: this machine's programs
#   KOALA_DEV_GPUS      GPUs of each cluster           default none
#   KOALA_DEV_FEATURES  properties of each node, as in "ib,rome"  default none
#   KOALA_DEV_LICENSES  resources of each cluster, as in "matlab:3"  default none
#   KOALA_DEV_OAR_ROUND_S  the server schedules so often, unless something happens, and looks once a second
#                       default: OAR's own minute, and ten seconds
#   KOALA_DEV_WAIT_S    patience for `up`              default 60
#
# To use a cluster:   PATH=DIR/omega/bin:$PATH; oarstat
# DIR/clusters.env has one  NAME=FOLDER  line per cluster.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/processes.sh"

KOALA_DEV_OARS=${KOALA_DEV_OARS:-"omega:1x16"}
KOALA_DEV_ROOT=${KOALA_DEV_ROOT:-}
KOALA_DEV_GPUS=${KOALA_DEV_GPUS:-}
KOALA_DEV_FEATURES=${KOALA_DEV_FEATURES:-}
KOALA_DEV_LICENSES=${KOALA_DEV_LICENSES:-}
KOALA_DEV_OAR_ROUND_S=${KOALA_DEV_OAR_ROUND_S:-}
KOALA_DEV_WAIT_S=${KOALA_DEV_WAIT_S:-60}
OAR_ID=64667          # number of the account `oar`, which exists in the namespaces alone
DATABASE_ID=64668     # number of the account of PostgreSQL, which refuses root
COMMANDS="bin/oarsub bin/oarstat bin/oardel bin/oarnodes bin/oarhold bin/oarresume sbin/oarnodesetting"

die() { echo "oar-clusters: $*" >&2; exit 1; }

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Run a command among the file systems of a cluster.
inside() {         # cluster-dir command
  local d=$1; shift
  nsenter --mount="/proc/$(cat "$d/holder.pid")/ns/mnt" --wdns="$PWD" -- "$@"
}

make_files() {    # cluster-dir
  local d=$1 here=$KOALA_DEV_ROOT name
  mkdir -p "$d"/{bin,log,home/.ssh,runtime,db} "$d"/etc/oar "$d"/usr/{lib,bin,sbin,share/perl5}
  cp -r "$here/usr/lib/oar" "$d/usr/lib/"
  [ -z "$KOALA_DEV_OAR_ROUND_S" ] || sed -i -E "s/^(my .schedulertimeout) = .*/\1 = $KOALA_DEV_OAR_ROUND_S;/
    s/^(my .read_commands_timeout) = .*/\1 = 1;/" "$d/usr/lib/oar/Almighty"
  cp -r "$here/usr/share/perl5/OAR" "$d/usr/share/perl5/"
  cp "$here"/usr/bin/oar* "$d/usr/bin/"
  cp "$here"/usr/sbin/{oar*,Almighty} "$d/usr/sbin/"
  chown -R root:root "$d/usr"
  chmod 6755 "$d"/usr/bin/oar{sub,stat,del,nodes,hold,resume,walltime}
  chown root:$OAR_ID "$d"/usr/lib/oar/oardodo/oardodo "$d"/usr/sbin/{Almighty,oarnodesetting}
  chmod 6750 "$d"/usr/lib/oar/oardodo/oardodo "$d"/usr/sbin/{Almighty,oarnodesetting}
  for name in $COMMANDS; do
    printf '#!/bin/sh\nexec nsenter --mount=/proc/%s/ns/mnt --wdns="$PWD" -- /usr/%s "$@"\n' \
      "\$(cat '$d/holder.pid')" "$name" > "$d/bin/${name##*/}"
    chmod 755 "$d/bin/${name##*/}"
  done
  { cat /etc/passwd
    echo "oar:x:$OAR_ID:$OAR_ID::$d/home:/usr/lib/oar/oarsh_shell"
    echo "oardb:x:$DATABASE_ID:$DATABASE_ID::$d/db:/bin/sh"; } > "$d/etc/passwd"
  { cat /etc/group; echo "oar:x:$OAR_ID:"; } > "$d/etc/group"
  { cat /etc/shadow; echo 'oar:*:19000:0:99999:7:::'; } > "$d/etc/shadow"
  chmod 600 "$d/etc/shadow"
}

make_config() {   # cluster-dir nodes
  local d=$1 nodes=$2 i listen=""
  free_port > "$d/db.port"; free_port > "$d/server.port"; free_port > "$d/ssh.port"
  cat > "$d/etc/oar/oar.conf" <<CONF
DB_TYPE="Pg"
DB_HOSTNAME="127.0.0.1"
DB_PORT="$(cat "$d/db.port")"
DB_BASE_NAME="oar"
DB_BASE_LOGIN="oar"
DB_BASE_PASSWD="oar"
DB_BASE_LOGIN_RO="oar"
DB_BASE_PASSWD_RO="oar"
SERVER_HOSTNAME="127.0.0.1"
SERVER_PORT="$(cat "$d/server.port")"
OARSUB_DEFAULT_RESOURCES="/resource_id=1"
OARSUB_NODES_RESOURCES="network_address"
OARSUB_FORCE_JOB_KEY="no"
LOG_LEVEL="3"
LOG_FILE="$d/log/oar.log"
LOG_CATEGORIES="all"
OAREXEC_DEBUG_MODE="0"
OAR_RUNTIME_DIRECTORY="$d/runtime"
DEPLOY_HOSTNAME="127.0.0.1"
COSYSTEM_HOSTNAME="127.0.0.1"
DETACH_JOB_FROM_SERVER="1"
OPENSSH_CMD="/usr/bin/ssh -F $d/home/.ssh/config -p $(cat "$d/ssh.port") -e none"
FINAUD_FREQUENCY="0"
PINGCHECKER_SENTINELLE_SCRIPT_COMMAND="/usr/lib/oar/sentinelle.pl -t 5 -w 20"
SCHEDULER_TIMEOUT="30"
SCHEDULER_NB_PROCESSES=1
SCHEDULER_MIN_TIME_BETWEEN_2_CALLS="1"
SCHEDULER_JOB_SECURITY_TIME="1"
SCHEDULER_GANTT_HOLE_MINIMUM_TIME="300"
SCHEDULER_RESOURCE_ORDER="scheduler_priority ASC, state_num ASC, available_upto DESC, suspended_jobs ASC, network_address ASC, resource_id ASC"
SCHEDULER_PRIORITY_HIERARCHY_ORDER="network_address/resource_id"
SCHEDULER_AVAILABLE_SUSPENDED_RESOURCE_TYPE="default"
ENERGY_SAVING_INTERNAL="no"
OARSTAT_DEFAULT_OUTPUT_FORMAT=2
CONF
  cp "$KOALA_DEV_ROOT/usr/share/oar/oar-server/scheduler_quotas.conf" "$d/etc/oar/"
  ssh-keygen -q -t ed25519 -N '' -f "$d/home/.ssh/id"
  ssh-keygen -q -t ed25519 -N '' -f "$d/home/.ssh/host"
  { printf 'environment="OAR_KEY=1" '; cat "$d/home/.ssh/id.pub"; } > "$d/home/.ssh/authorized_keys"
  printf 'Host *\nIdentityFile %s\nIdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n' \
    "$d/home/.ssh/id" > "$d/home/.ssh/config"
  echo "export PATH=/usr/lib/oar/oardodo:\$PATH" | tee "$d/home/.bashrc" > "$d/home/.bash_profile"
  for i in $(seq "$nodes"); do listen="$listen"$'\n'"ListenAddress 127.0.1.$i"; done
  cat > "$d/sshd_config" <<CONF
Port $(cat "$d/ssh.port")$listen
HostKey $d/home/.ssh/host
PidFile $d/sshd.pid
AuthorizedKeysFile $d/home/.ssh/authorized_keys
StrictModes no
PasswordAuthentication no
UsePAM no
MaxStartups 1024
AcceptEnv OAR_CPUSET OAR_USER_CPUSET OAR_USER_GPUDEVICE OAR_JOB_USER
PermitUserEnvironment yes
AllowUsers oar
CONF
  chown -R $OAR_ID:$OAR_ID "$d"/{home,runtime,log} "$d/etc/oar/oar.conf"
  chmod 644 "$d/etc/oar/oar.conf"
}

database() {         # cluster-dir command
  local d=$1; shift
  ( cd / && inside "$d" setpriv --reuid=$DATABASE_ID --regid=$DATABASE_ID --clear-groups env KOALA_OAR="$d" "$@" )
}

start_database() {   # cluster-dir
  local d=$1 i pid
  pid=$(head -n 1 "$d/db/data/postmaster.pid" 2>/dev/null || true)
  if [ -n "$pid" ] && ! alive "$pid"; then rm -f "$d/db/data/postmaster.pid"; fi
  for i in $(seq 20); do    # what a killed one has left ends within a second
    database "$d" "$PG/pg_ctl" -D "$d/db/data" -l "$d/db/log" -w \
      -o "-p $(cat "$d/db.port") -c listen_addresses=127.0.0.1 -c unix_socket_directories=$d/db -c fsync=off -c dynamic_shared_memory_type=mmap" \
      start > /dev/null 2>&1 && return
    sleep 0.2
  done
  tail -n 5 "$d/db/log" >&2
  die "the database of $d does not start"
}

make_database() {    # cluster-dir nodes processors
  local d=$1 nodes=$2 processors=$3 sql=$KOALA_DEV_ROOT/usr/lib/oar/database word i g=${KOALA_DEV_GPUS:-0}
  chown $DATABASE_ID:$DATABASE_ID "$d/db"
  database "$d" "$PG/initdb" -D "$d/db/data" -A trust -U oar --no-sync > "$d/log/initdb" 2>&1
  start_database "$d"
  psql() { command psql -q -X -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$(cat "$d/db.port")" -U oar "$@"; }
  psql -d postgres -c 'CREATE DATABASE oar'
  {
    cat "$sql/pg_structure.sql" "$sql/pg_default_admission_rules.sql" "$sql/default_data.sql"
    echo "DELETE FROM admission_rules WHERE rule LIKE '%root and oar users are not allowed%';"
    echo "INSERT INTO queues (queue_name, priority, scheduler_policy) VALUES ('batch', '2', 'oar_sched_gantt_with_timesharing_and_fairsharing_and_quotas');"
    echo "ALTER TABLE resources ADD host varchar(100), ADD cpu integer, ADD core integer, ADD mem integer,"
    echo "  ADD gpu integer;"
    for word in ${KOALA_DEV_FEATURES//,/ }; do echo "ALTER TABLE resources ADD $word varchar(3) DEFAULT 'NO';"; done
    for i in $(seq "$nodes"); do
      echo "INSERT INTO resources (type, state_num, network_address, host, cpu, core, mem)"
      echo "  SELECT 'default', 1, '127.0.1.$i', '127.0.1.$i', $i, ($i - 1) * $processors + n, 65536 FROM generate_series(1, $processors) n;"
      for word in ${KOALA_DEV_FEATURES//,/ }; do echo "UPDATE resources SET $word = 'YES' WHERE network_address = '127.0.1.$i';"; done
    done
    [ "$g" = 0 ] || echo "UPDATE resources SET gpu = (core - 1) * $g / ($nodes * $processors) + 1 WHERE type = 'default';"
    for word in ${KOALA_DEV_LICENSES//,/ }; do
      echo "INSERT INTO resources (type, state_num) SELECT '${word%:*}', 1 FROM generate_series(1, ${word#*:});"
    done
  } > "$d/log/schema.sql"
  psql -d oar -f "$d/log/schema.sql" > "$d/log/schema.log" 2>&1 || { tail "$d/log/schema.log" >&2; die "the schema was refused"; }
}

start_server() {     # cluster-dir
  local d=$1
  ( cd / && inside "$d" setsid --fork env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin KOALA_OAR="$d" \
      sh -c 'echo $$ > "$0/server.pid"; echo $$ >> "$0/sessions"; exec Almighty' "$d" < /dev/null > "$d/log/server.out" 2>&1 )
}

start_nodes() {      # cluster-dir
  local d=$1
  mkdir -p /run/sshd
  ( cd / && inside "$d" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin KOALA_OAR="$d" \
      /usr/sbin/sshd -f "$d/sshd_config" -E "$d/log/sshd" )
}

find_postgres() {
  PG=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
  [ -n "$PG" ] || die "PostgreSQL is missing (Debian: apt install postgresql)"
}

up() {
  local dir=${1:-$(mktemp -d)} c name spec nodes processors d end
  [ "$(id -u)" = 0 ] || die "root is needed: OAR's parts have accounts of their own"
  [ -e "$KOALA_DEV_ROOT/usr/lib/oar/Almighty" ] || die "$KOALA_DEV_ROOT/usr/lib/oar/Almighty is missing: debian-root.sh makes a folder that has it"
  find_postgres
  mkdir -p "$dir"; dir=$(cd "$dir" && pwd); chmod 755 "$dir"
  : > "$dir/clusters.env"
  for c in $KOALA_DEV_OARS; do
    name=${c%%:*}; spec=${c#*:}; nodes=${spec%x*}; processors=${spec#*x}; d=$dir/$name
    [ ! -e "$d" ] || die "$d exists already"
    make_files "$d"
    make_config "$d" "$nodes"
    # A process that only keeps the namespace; without it there is none.
    KOALA_OAR=$d setsid --fork unshare --mount sh -c '
      mount -t overlay overlay -o "lowerdir=$0/etc:/etc" /etc &&
      mount -t overlay overlay -o "lowerdir=$0/usr:/usr" /usr && echo $$ > "$0/holder.pid" &&
      exec sleep infinity' "$d" < /dev/null > "$d/log/holder" 2>&1
    end=$(( $(date +%s) + KOALA_DEV_WAIT_S ))
    until [ -s "$d/holder.pid" ]; do
      [ "$(date +%s)" -lt "$end" ] || { cat "$d/log/holder" >&2; die "the file systems cannot be laid over each other here"; }
      sleep 0.05
    done
    make_database "$d" "$nodes" "$processors"
    start_nodes "$d"
    start_server "$d"
    echo "$name=$d" >> "$dir/clusters.env"
  done
  end=$(( $(date +%s) + KOALA_DEV_WAIT_S ))
  for c in $KOALA_DEV_OARS; do
    d=$dir/${c%%:*}
    until [ -n "$("$d/bin/oarnodes" -s 2>/dev/null)" ] && grep -q "Init done" "$d/log/oar.log" 2>/dev/null; do
      [ "$(date +%s)" -lt "$end" ] || { down "$dir"; die "cluster ${c%%:*} did not come up; see $d/log"; }
      sleep 0.2
    done
  done
  echo "$dir"
}

# Processes that have this cluster in their environment: its daemons, and jobs with what runs them.
of_cluster() {
  local f
  for f in /proc/[0-9]*/environ; do
    if { tr '\0' '\n' < "$f"; } 2>/dev/null | grep -qE "^(KOALA_OAR=$1\$|HOME=$1/|OAR_FILE_NODES=$1/)"; then
      f=${f#/proc/}; echo "${f%/environ}"
    fi
  done
}

down() {
  local dir d pid i
  dir=$(cd "$1" && pwd)
  find_postgres
  for d in "$dir"/*/; do
    d=${d%/}; [ -f "$d/holder.pid" ] || continue
    pid=$(head -n 1 "$d/db/data/postmaster.pid" 2>/dev/null || true)
    if [ -n "$pid" ]; then kill -CONT "$pid" 2>/dev/null || true; fi
    database "$d" "$PG/pg_ctl" -D "$d/db/data" -m immediate -w -t 10 stop > /dev/null 2>&1 || true
    # Almighty's children and sshd change their titles, and with them what /proc shows as environment.
    # Twice: some are born while the first ones are killed.
    for i in 1 2; do
      for pid in $(sed 's/^/-s /' "$d/sessions" 2>/dev/null | xargs -r ps -o pid=) \
                 $(cat "$d/sshd.pid" 2>/dev/null) $(of_cluster "$d"); do
        [ "$pid" = $$ ] || kill -9 "$pid" 2>/dev/null || true
      done
    done
  done
}

status() {
  local name d
  while IFS='=' read -r name d; do
    psql -q -X -A -t -h 127.0.0.1 -p "$(cat "$d/db.port")" -U oar -d oar -c \
      "SELECT '$name ' || count(*) FILTER (WHERE resource_id NOT IN (SELECT resource_id FROM assigned_resources WHERE assigned_resource_index = 'CURRENT')) || '/' || count(*) || ' (idle/all processors)' FROM resources WHERE type = 'default'"
  done < "$1/clusters.env"
}

case "${1:-}" in
  up)     up "${2:-}" ;;
  down)   [ -d "${2:-}" ] || die "down needs the folder that up printed"; down "$2" ;;
  status) [ -d "${2:-}" ] || die "status needs the folder that up printed"; status "$2" ;;
  start-nodes)    start_nodes "$2" ;;
  start-server)   start_server "$2" ;;
  start-database) find_postgres; start_database "$2" ;;
  *)      sed -n '2,29s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
