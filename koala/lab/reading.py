"""Read grid files, as `koala up` does."""

from __future__ import annotations

from pathlib import Path

import msgspec

from koala.core.model.parameters import simulated
from koala.errors import ConfigError
from koala.grid_file import configurations
from koala.grid_file import read_grid as read_file
from koala.lab.grids import POLICIES, Grid, Site
from koala_agent.config import largest_local_job
from koala_agent.config_tables import Config
from koala_agent.lrm.emulated.local_users import LoadParameters
from koala_agent.lrm.emulated.system import EmulatedTable


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
        sites=tuple(_site(name, config) for name, config in sorted(agents.items())),
        parameters=simulated(daemon.parameters),
        policies={**POLICIES, **named},
        name=path.name,
    )


def _site(name: str, config: Config) -> Site:
    if config.site.owner:
        raise ConfigError(
            f"sites.{name}.site.owner = {config.site.owner!r}: the jobs of a log have no owners, so"
            " that none could run there"
        )
    queue = (
        config.lrm if isinstance(config.lrm, EmulatedTable) else EmulatedTable(discipline="easy")
    )
    return Site(
        name,
        config.site.processors,
        discipline=queue.discipline,
        grace_s=config.site.grace_s,
        load=_load(config),
        load_seed=queue.seed,
    )


def _load(config: Config) -> LoadParameters | None:
    if config.load.arrivals_per_hour == 0:
        return None
    given = {**msgspec.structs.asdict(config.load), "size_max": largest_local_job(config)}
    return LoadParameters(**given)
