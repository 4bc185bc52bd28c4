"""`koala backup` and `koala restore`: copy the state of a running daemon, and restore it."""

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
            metavar="DIR|FILE", help="A new path; .tar, .tar.gz or .tgz makes one archive file."
        ),
    ],
    outputs: Annotated[
        bool, typer.Option("--outputs", help="Copy outputs and logs of jobs too, not only a list.")
    ] = False,
    json: Json = False,
) -> None:
    """Back up a daemon's state; the daemon may be running.

    The backup has the journal as of one commit, with every event verified, and the keys and users.
    Protect it like the directory itself.
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
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="A backup of koala backup.")],
    state_dir: Annotated[
        Path, typer.Argument(metavar="STATE_DIR", help="An empty or missing directory.")
    ],
    json: Json = False,
) -> None:
    """Restore a backup.

    Sites may be ahead of the restored journal. The daemon that starts there begins a later epoch,
    and gives up the attempts whose state is uncertain.
    """
    from koala.daemon.backup import restore as restore_backup

    found = restore_backup(source, state_dir)
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
