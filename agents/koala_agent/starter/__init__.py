"""What a claim submits to the local manager: checks in, waits at the barrier, runs the program.

Standard library only (and `koala_agent.starter` alone), because it is sent to compute nodes, where
nothing of ours is installed: `placeholders` puts these modules beside a small `starter.py`, which
runs `carrier.main`. Slow where it may be (imports that are late), quick until it has checked in.

- `machine` is pure: `events` in, actions out. The rules are those of the design.
- `carrier` has sockets, processes and the clock: the `line` to the agent, the `processes` of the
  `program` (`trees` finds them again), the `exchange` of values, TCP `paths` that are tried.
- `runners` is what runs where the program is not the starter's own child.
"""
