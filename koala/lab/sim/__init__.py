"""Simulated time: the scheduler's core behind an event heap, and experiments and replays with it.

- `engine`: the event heap and the clock.
- `experiment`: a multicluster without the protocol, for measurements; each action of the core is
  answered by its outcome at the site.
- `journal_replay`: what-if runs from a recorded journal.
- `log_replay`: a log of jobs on the local manager model alone.
- `replication`: many runs on this machine; `campaign`: runs that are stored, and shared out to
  several machines.
- `metrics`, `statistics`, `saturation`: the evaluation of runs; `drawing`: the style of figures.
- `options`: options of simulations.

Nothing here reads a clock or the global random generator: a run is a function of its seed.
"""
