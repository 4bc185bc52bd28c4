"""Sites behind ssh in front of batch systems: their login nodes run no agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from koala_agent.config import read_config
from koala_agent.site_access import ssh_settings
from koala_agent.transport.ssh_socket import SSHSettings
from tests.agent.transport.servers import close
from tests.batch.systems.grids import grid_over
from tests.batch.systems.system import System
from tests.harness.ssh_server import HOST, SSHServer
from tests.live.grid import Grid


@contextmanager
def grid_behind_ssh(
    folder: Path,
    systems: dict[str, System],
    server: SSHServer,
    far: Mapping[str, str],
    *,
    more: Mapping[str, str] | None = None,
) -> Iterator[Grid]:
    """Run a daemon and agents; those of the sites in `far` reach their sites by ssh alone.

    `far` has the further lines of their tables `[starter]`, `more` the tables of other sites.
    """
    words = ", ".join(f'"{word}"' for word in server.options)
    tables = {
        site: f'[starter]\n{starter}python = "/usr/bin/python3"\nscratch = "/tmp"\n'
        f'[transport]\nkind = "ssh"\nhost = "{HOST}"\noptions = [{words}]\n'
        for site, starter in far.items()
    }
    with grid_over(folder, systems, more={**(more or {}), **tables}) as grid:
        try:
            yield grid
        finally:
            for site in far:
                if grid.is_alive(site):
                    grid.terminate(site)
                close(settings_of(grid, site))


def settings_of(grid: Grid, site: str) -> SSHSettings:
    """Return the settings of ssh in the configuration of a site's agent."""
    return ssh_settings(read_config(grid.config(site)))
