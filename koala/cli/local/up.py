"""`koala daemon CONFIG` and `koala up GRID.toml`: run a daemon, or a grid on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from koala.cli.arguments import AnyPort

if TYPE_CHECKING:
    from koala.client import Client


def daemon(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The daemon's TOML file.")],
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Start although the end of the journal is lost: jobs recorded only there may run"
            " a second time.",
        ),
    ] = False,
    init: Annotated[
        bool,
        typer.Option(
            "--init",
            help="Create a new state directory although one seems to have existed, or its disk"
            " seems not to be mounted.",
        ),
    ] = False,
) -> None:
    """Run the daemon in the foreground."""
    from koala.daemon.main import run

    raise typer.Exit(run(config, accept_loss=accept_loss, may_begin=init))


def up(
    grid: Annotated[Path, typer.Argument(metavar="GRID", help="The grid's TOML file.")],
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="Keep journals, spools and logs there; default: the grid's state_dir, else a"
            " temporary folder that is removed at the end.",
        ),
    ] = None,
    any_port: AnyPort = False,
) -> None:
    """Run a grid on this machine, until Ctrl-C.

    One file describes the daemon and the agents of all sites; docs/configuration.md explains it.
    """
    import asyncio

    from koala.cli.connection import say
    from koala.cli.local.folders import state_folder
    from koala.cli.local.grid_file import ANY_PORT, check_ports, lay_out, read_grid
    from koala.cli.local.grid_session import InterruptedRunError, run_grid

    file = read_grid(grid)
    check_ports(file, with_listen=not any_port)
    with state_folder(state or file.state_dir, prefix="koala-up-") as place:
        folder = lay_out(file, place.path, address=ANY_PORT if any_port else None)

        async def stay(client: Client) -> None:
            sites = await client.sites()
            processors = sum(site["processors"] for site in sites)
            say(f"koala up: {len(sites)} sites with {processors} processors are registered")
            say(f"koala up: state and logs are in {folder.state}")
            say("koala up: in another terminal, as long as this one runs:")
            print(f"export KOALA_ADDRESS={client.address}", flush=True)
            await asyncio.Event().wait()

        try:
            run_grid(folder, stay)
        except InterruptedRunError as end:
            say(f"koala up: {end}")
        except BaseException:
            place.keep(say)
            raise
