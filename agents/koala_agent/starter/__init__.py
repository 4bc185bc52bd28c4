"""The starter: a claim's batch job, which checks in, waits at the barrier and runs the program.

Standard library only (and `koala_agent.starter` alone), because compute nodes have nothing of ours
installed: `placeholders` puts these modules beside a small `starter.py`, which runs
`commands`. Imports that can be late are late, so that the check-in is quick.

- `state_machine` is pure: `events` in, actions out. The rules are those of the design.
- `driver` does the I/O: the `connection` to the agent, the `processes` of the `program` on
  the nodes of the allocation (`process_tree` finds them again), and the `path_probes`.
  `batch_rules` tell it what it must know of the batch system.
- `exchange` is with the running program: its requests, and the members of a malleable job.
- `mailbox` is the connection by files, where nobody can dial.
- `blocked` has the processes at the barrier, forks of the starter.
- `resident` has the parent of starters on the agent's machine, and its forks.
- `ports` has the connections to ports of other components that go through the grid.
- `node` has the helpers on other nodes of the component. Starter and helper share
  `state_machine_driver` and `process_host`.
- `mpi_launchers` run where the program is not the starter's own child.
- `messages` are exchanged with the agent, after a `challenge_response`.
- `subreaper` keeps a batch job until nothing of it is left. `work_meter` measures and pauses the
  program. `procfs` reads /proc, `compat` has what old interpreters lack, and `light` what loads
  slowly.
"""
