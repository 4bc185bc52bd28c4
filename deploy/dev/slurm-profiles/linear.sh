# linear: whole nodes by the older plugin (select/linear), memory counted
configure() {
  set_key SelectType=select/linear
  set_key SelectTypeParameters=CR_Memory
  every PartitionName DefMemPerNode=8000
}
