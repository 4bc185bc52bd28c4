# preemption: jobs of partition `urgent` put jobs of the default partition back into the queue (REQUEUE) and end those of `scavenge` (CANCEL)
configure() {
  set_key PreemptType=preempt/partition_prio
  set_key PreemptMode=REQUEUE
  set_key JobRequeue=1
  every PartitionName PriorityTier=10
  add_lines 'PartitionName=scavenge Nodes=ALL PriorityTier=1 PreemptMode=CANCEL DefaultTime=60 GraceTime=2'
  add_lines 'PartitionName=urgent Nodes=ALL PriorityTier=100 PreemptMode=OFF DefaultTime=60'
}
