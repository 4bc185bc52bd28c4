# forced: jobs have to ask for a run time and for memory (complexes h_rt and h_vmem, FORCED); the memory of a machine is used up
configured() { # dir
  qconf -sc | grep -v '^#' | sed -E -e 's/^(h_rt +[^ ]+ +[^ ]+ +[^ ]+) .*/\1 FORCED NO 0:0:0 0/' \
    -e 's/^(h_vmem +[^ ]+ +[^ ]+ +[^ ]+) .*/\1 FORCED YES 0 0/' > "$1/complexes.conf"
  qconf -Mc "$1/complexes.conf"
  qconf -mattr exechost complex_values h_vmem=64G "$(hostname)"
  for queue in $(qconf -sql); do qconf -mattr queue h_rt 24:0:0 "$queue"; done
}
