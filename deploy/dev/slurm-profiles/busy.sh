# busy: half of the nodes run jobs of others, whose queue never gets empty (as root: of other accounts)
configure() { every PartitionName DefaultTime=20; }
started() { # dir name nodes cpus
  local half=$((($3 + 1) / 2)) i
  run_other games -N "$half" -t 60 --exclusive -J others
  as_other nobody -N "$3" --exclusive -J others
  for i in 1 2 3 4 5 6 7 8; do as_other games -N "$3" --exclusive -J others; done
}
