"""Replay of a recorded journal: the story of a run, and what-if simulations.

- `run_history`: notes of claims, copies and sites, from a run or from a simulation.
- `recording`: inputs of a simulation, taken from the notes: submissions, other users' load, answers
  of sites, run times.
- `world`, `site`: a fresh scheduler in that world.
- `figures`: runs side by side.
- `story`: a run in words.

Nothing here opens a file: steps come from a reader.
"""
