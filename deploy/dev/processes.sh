# Functions of the scripts beside this file, which read it: processes that are there, and their ends.

# Is the process there? A zombie (a container's pid 1 may reap late, or never) is not.
alive() { [ -r "/proc/$1/stat" ] && [ "$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -c1)" != Z ]; }

# TERM to the process of every pid file given, up to 3 s for all to end, then KILL.
stop_pidfiles() {
  local f p pids=() i
  for f in "$@"; do [ -s "$f" ] && pids+=("$(cat "$f")"); done
  [ ${#pids[@]} -gt 0 ] || return 0
  for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
  for i in $(seq 30); do
    for p in "${pids[@]}"; do alive "$p" && { sleep 0.1; continue 2; }; done
    return 0
  done
  for p in "${pids[@]}"; do kill -9 "$p" 2>/dev/null || true; done
}

# KILL to processes of jobs that outlived the daemons: they have this line in their environment, and are called so
# (the shepherd of a job) or have a job id in this variable.
kill_strays() {     # line name variable
  local f pid
  for f in $(grep -lzxF -- "$1" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${f#/proc/}; pid=${pid%/environ}
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] || grep -qz "^$3=" "$f" 2>/dev/null; then
      kill -9 "$pid" 2>/dev/null || true
    fi
  done
}
