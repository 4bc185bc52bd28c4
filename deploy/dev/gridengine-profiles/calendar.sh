# calendar: queues beside the first one that its calendar switches off (`night`), or that are suspended (`stopped`) or in disorder (`broken`)
configured() { # dir name nodes slots
  printf 'calendar_name never\nyear NONE\nweek mon-sun=0-24=off\n' > "$1/calendar.conf"
  qconf -Acal "$1/calendar.conf"
  add_queue "$1" night "$4" 'calendar never'
  add_queue "$1" stopped "$4"
  add_queue "$1" broken "$4" 'load_thresholds np_load_avg=-1'
  qmod -sq stopped
}
