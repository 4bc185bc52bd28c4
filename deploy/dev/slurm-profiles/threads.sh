# threads: two hyper-threads a core; cores and memory are given out (CR_Core_Memory), so that an odd number of processors grows
configure() { # dir name nodes cpus
  set_key SelectTypeParameters=CR_Core_Memory
  every NodeName Sockets=1 "CoresPerSocket=$(($4 / 2))" ThreadsPerCore=2
  every PartitionName DefMemPerCPU=1000
}
