"""Read grid files, as `koala up` does."""

from __future__ import annotations

from pathlib import Path

from koala.core.model.parameters import simulated
from koala.errors import ConfigError
from koala.lab.grids import POLICIES, Grid, Site
from koala.local.grid_file import LocalQueue, configurations, local_queues
from koala.local.grid_file import read_grid as read_file


def read_grid(path: str | Path) -> Grid:
    """Read a grid file: its sites, their synthetic users, the parameters and the policies.

    Local schedulers have the file's discipline, or EASY where the file names a real batch system.
    Local users submit in simulated time, without `lrm.speed`. Raises ConfigError.
    """
    path = Path(path)
    file = read_file(path)
    daemon, agents = configurations(file)
    table = file.daemon.get("policies", {})
    named = {name: str(value) for name, value in table.items()} if isinstance(table, dict) else {}
    return Grid(
        sites=tuple(_site(name, queue) for name, queue in sorted(local_queues(agents).items())),
        parameters=simulated(daemon.parameters),
        policies={**POLICIES, **named},
        name=path.name,
    )


def _site(name: str, queue: LocalQueue) -> Site:
    if queue.owner:
        raise ConfigError(
            f"sites.{name}.site.owner = {queue.owner!r}: the jobs of a log have no owners, so that"
            " none could run there"
        )
    return Site(
        name,
        queue.processors,
        discipline=queue.discipline,
        grace_s=queue.grace_s,
        load=queue.load,
        load_seed=queue.seed,
    )
