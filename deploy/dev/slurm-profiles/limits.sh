# limits: partitions with default and maximal times, memory and processors of a node; `full` has the last node, with a job that waits
configure() { # dir name nodes cpus
  set_key EnforcePartLimits=ALL
  set_key SelectTypeParameters=CR_CPU_Memory
  set_key MaxArraySize=1001
  every PartitionName DefaultTime=10 MaxTime=60 DefMemPerCPU=1000 MaxMemPerCPU=4000 "MaxCPUsPerNode=$(($4 - 2))"
  [ "$3" -lt 2 ] || every PartitionName "Nodes=$2[1-$(($3 - 1))]"
  add_lines "PartitionName=debug Nodes=${2}1 MaxTime=5 DefaultTime=5 MaxNodes=1 PriorityTier=10"
  add_lines "PartitionName=long Nodes=ALL MaxTime=7-0 DefaultTime=1-0 MinNodes=1 AllowGroups=daemon"
  add_lines "PartitionName=full Nodes=$2$3 MaxTime=2-0 DefaultTime=1-0"
}
started() {
  run_other games -p full --exclusive -J others -t 1-0
  as_other nobody -p full --exclusive -J others -t 1-0
}
