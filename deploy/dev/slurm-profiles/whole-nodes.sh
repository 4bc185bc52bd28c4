# whole-nodes: each job gets whole nodes (OverSubscribe=EXCLUSIVE)
configure() { every PartitionName OverSubscribe=EXCLUSIVE; }
