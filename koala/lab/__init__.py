"""Laboratory: everything that `koala simulate` does, from Python.

    from koala import lab

    grid = lab.grid({"delft": 64, "leiden": 64, "vu": 144})
    jobs = lab.Synthetic(jobs=2_000)
    base = lab.Experiment(grid=grid, workload=jobs)
    found = lab.sweep(base, over={"placement": ["WF", "CF", my_policy]}, reps=10)
    found.compare("wait.mean", over="placement", baseline="WF")

- `fields`: types of settings.
- `grids`, `reading`: sites and their own users; grid files.
- `workloads`: jobs of logs, of models, and own ones.
- `experiments`: jobs on a grid under policies, with faults and own metrics.
- `models`, `replays`: the papers' simulations; a log on one site.
- `results`, `rows`: what a run measured, as tables.
- `sweeps`: many settings with the same seeds, and paired comparisons; `sweep_files` reads them
  from files.
- `engines`, `on_koala`: where runs are made; runs at the user's own sites.
- `drawing`, `charts`, `measures`: pictures, with names and units; `progress`: in terminals and
  notebooks.

Below it: `sim`, simulated time; `workload`, which draws or reads jobs; `papers`, reproductions;
`twin`, recorded jobs of clusters; `yardstick`, a benchmark; `backlog`, co-allocation over busy
sites; `commands`, all these as commands.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koala.lab.experiments import Experiment, Faults
    from koala.lab.grids import Grid, LocalUsers, Site, grid
    from koala.lab.models import Model
    from koala.lab.reading import read_grid
    from koala.lab.replays import Replay
    from koala.lab.results import Result, distributions
    from koala.lab.rows import Rows
    from koala.lab.sweeps import Sweep, sweep
    from koala.lab.workloads import Job, Jobs, Log, Synthetic, Workload

__all__ = [
    "Experiment",
    "Faults",
    "Grid",
    "Job",
    "Jobs",
    "LocalUsers",
    "Log",
    "Model",
    "Replay",
    "Result",
    "Rows",
    "Site",
    "Sweep",
    "Synthetic",
    "Workload",
    "distributions",
    "grid",
    "read_grid",
    "sweep",
]
_MODULES = {
    name: module
    for module, names in {
        "experiments": "Experiment Faults",
        "grids": "Grid LocalUsers Site grid",
        "models": "Model",
        "reading": "read_grid",
        "replays": "Replay",
        "results": "Result distributions",
        "rows": "Rows",
        "sweeps": "Sweep sweep",
        "workloads": "Job Jobs Log Synthetic Workload",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> object:
    """Import what is asked for: commands of other simulations need little of this package."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
