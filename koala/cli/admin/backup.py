"""`koala backup` and `koala restore`: the state of a daemon, copied while it runs and put back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from koala.cli.arguments import Json
from koala.cli.connection import say, show_json


def backup(
    state_dir: Annotated[
        Path, typer.Argument(metavar="STATE_DIR", help="The state directory of a daemon.")
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="DIR|FILE", help="Where nothing is yet; .tar, .tar.gz or .tgz: one file."
        ),
    ],
    outputs: Annotated[
        bool, typer.Option("--outputs", help="Also outputs and logs of jobs, not their list alone.")
    ] = False,
    json: Json = False,
) -> None:
    """Copy a daemon's state, while it runs or not.

    The journal as of one commit, with all its events checked, keys and users: keep it as safe as
    the directory itself.
    """
    from koala.daemon.backup import back_up

    made = back_up(state_dir, target, with_spool=outputs)
    if json:
        show_json(made.document())
        return
    print(made.path)
    spooled = "copied" if made.has_spool else "listed, not copied"
    say(f"koala backup: {made.events} events; outputs and logs: {made.spooled} files, {spooled}")


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="What koala backup made.")],
    state_dir: Annotated[
        Path, typer.Argument(metavar="STATE_DIR", help="An empty or missing directory.")
    ],
    json: Json = False,
) -> None:
    """Put a backup back.

    The daemon that starts there knows that sites may have gone further than its journal: it begins
    a later epoch, and gives up what it cannot be sure of.
    """
    from koala.daemon.backup import restore as put_back

    found = put_back(source, state_dir)
    if json:
        show_json({**found.document(), "state_dir": str(state_dir)})
        return
    print(state_dir)
    say(f"koala restore: {found.events} events; start the daemon as usual")
    if not found.has_sums:
        say(
            "koala restore: an earlier release made this backup, without checksums: its journal was"
            " checked, its other files were not"
        )
    if found.spooled and not found.has_spool:
        say(f"koala restore: {found.spooled} files of outputs and logs are not in this backup")
