# slow: the periods of a production scheduler; a prolog of 2 s, an epilog of 8 s
configure() { # dir
  set_key SchedulerParameters=bf_interval=30,bf_continue,sched_interval=60,batch_sched_delay=3,sched_min_interval=2000000
  set_key "Prolog=$1/prolog"
  set_key "Epilog=$1/epilog"
  printf '#!/bin/sh\nsleep 2\n' > "$1/prolog"
  printf '#!/bin/sh\nsleep 8\n' > "$1/epilog"
  chmod 755 "$1/prolog" "$1/epilog"
}
