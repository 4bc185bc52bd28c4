"""Replay of a recorded journal: the story of a run, and what-if simulations.

- `run_history`: notes of claims, copies and sites, from a run or from a simulation.
- `recording`: inputs of a simulation, taken from the notes: submissions, other users' load, answers
  of sites, run times.
- `inferred_load`: the load of other users, from a site's reports; `background_load` replays it.
- `nearest`: an answer for instants at which nobody looked.
- `world`, `site`: a fresh scheduler in that world, with changes of policies and parameters.
- `whatif`: recorded, simulated, and simulated with changes.
- `figures`: runs side by side.
- `story`: a run in words.

Nothing here opens a file: steps come from a reader.
"""
