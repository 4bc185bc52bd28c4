# busy: half of the nodes run jobs of others, whose queue never gets empty (as root: of other accounts)
configure() { every PartitionName DefaultTime=20; }
started() { # dir name nodes cpus
  local nodes size i
  nodes=$(sinfo -h -p batch -o %D) size=--ntasks-per-node=$(($4 - 2))
  run_other games -N $(((nodes + 1) / 2)) "$size" -J others -t 60
  as_other nobody -N "$nodes" "$size" -J others
  for i in 1 2 3 4 5 6 7 8; do as_other games -N "$nodes" "$size" -J others; done
}
