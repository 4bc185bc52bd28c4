# queues: queues `short` (half an hour) and `low`, which `batch` suspends, on the same slots; parallel environments that put all slots
#   on one machine (`smp`), deal them out (`mpi`) or give pairs (`pairs`)
configured() { # dir name nodes slots
  local pair
  for pair in 'smp:$pe_slots' 'mpi:$round_robin' pairs:2; do
    sed -e "s/^pe_name .*/pe_name ${pair%%:*}/" -e "s/^allocation_rule .*/allocation_rule ${pair#*:}/" "$1/pe.conf" > "$1/pe-more.conf"
    qconf -Ap "$1/pe-more.conf"
  done
  qconf -mattr exechost complex_values "slots=$(($3 * $4))" "$(hostname)"
  add_queue "$1" short "$4" 'h_rt 0:30:0' 'seq_no 10' 'pe_list grid smp'
  add_queue "$1" low "$4" 'seq_no 20' 'pe_list smp mpi pairs' 'priority 19'
  qconf -aattr queue pe_list "smp mpi" "$(first_queue)"
  qconf -aattr queue subordinate_list low=1 "$(first_queue)"
}
