"""`koala up GRID.toml`: run a grid on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from koala.cli.arguments import file, option

if TYPE_CHECKING:
    from koala.client import AsyncClient


@click.command
@click.argument(
    "grid", type=file, required=False, help="The grid's TOML file.  [default: that of koala demo]"
)
@option(
    "--state", type=file, metavar="DIR",
    help="Keep journals, spools and logs there.",
    unset="the grid's state_dir, else a temporary folder that is removed at the end",
)  # fmt: skip
@option("--any-port", is_flag=True, help="Listen on a free port instead of the grid's.")
@option("--no-web", is_flag=True, help="Start no web page.")
def up(*, grid: Path | None, state: Path | None, any_port: bool, no_web: bool) -> None:
    """Run a grid on this machine, until Ctrl-C.

    One file describes the daemon and the agents of all sites; docs/configuration.md explains it.
    Without a file the grid is that of `koala demo`: five emulated sites with local users and the
    input files of the examples. It serves metrics and the web page, and prints their addresses.
    """
    import asyncio

    from koala.cli.output import note, say
    from koala.common.runtime.software import METRICS, missing_text
    from koala.local.demo_scenario import GRID_FILE, fill_stores
    from koala.local.folders import shipped, state_folder
    from koala.local.grid_file import ANY_PORT, check_ports, lay_out, read_grid, with_metrics
    from koala.local.grid_session import InterruptedRunError, run_grid

    found = read_grid(grid or shipped("deploy") / GRID_FILE)
    if grid is None and not missing_text("metrics", METRICS):
        found = with_metrics(found)
    check_ports(found, with_listen=not any_port)
    with state_folder(state or found.state_dir, prefix="koala-up-") as place:
        folder = lay_out(found, place.path, address=ANY_PORT if any_port else None)
        if grid is None:
            fill_stores(folder)
        note(f"starting a daemon and {len(folder.sites)} sites")

        async def stay(client: AsyncClient) -> None:
            sites = await client.sites()
            processors = sum(site["processors"] for site in sites)
            note(f"{len(sites)} sites with {processors} processors are registered")
            note(f"state and logs are in {folder.state}")
            if folder.metrics_url.exists():
                note(f"metrics: {folder.metrics_url.read_text(encoding='utf-8').strip()}")
            if grid is None:
                note("copies between its sites, and to them, go at 1 MB/s: it emulates their links")
            note("Ctrl-C stops all of it; until then, in another terminal:")
            print(f"export KOALA_ADDRESS={client.address}", flush=True)
            note("try there: koala run --sites 2 -- hostname")
            await asyncio.Event().wait()

        try:
            run_grid(folder, stay, web=None if no_web else note)
        except InterruptedRunError as end:
            note(f"{end}")
        except BaseException:
            place.keep(say)
            raise
